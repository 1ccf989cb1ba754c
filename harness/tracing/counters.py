"""Find rules of iptables-legacy that a packet matched by their counters, as the kernel cannot trace them in a netns.

Rules of iptables-nft are rules of nf_tables, and are traced as such.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness.netns import programs
from harness.netns.namespace import Namespace
from harness.netns.process import search_path

_COUNTED = re.compile(r"\[(\d+):\d+\] (-A .+)")
_ORDER = ("raw", "mangle", "nat", "filter")  # the order of tables at most hooks


def counted(namespace: Namespace, *, six: bool) -> str:
    """Return the iptables-legacy rules of IPv4 or IPv6 with counters, or "" without rules or without the program.

    Raises `UnavailableError`.
    """
    word = "ip6" if six else "ip"
    with namespace.entered():
        tables = Path(f"/proc/thread-self/net/{word}_tables_names")
        there = tables.exists() and tables.read_text(encoding="ascii").strip()
    if not there:
        return ""
    names = (f"{word}tables-legacy-save", f"{word}tables-save")
    program = next((each for each in names if shutil.which(each, path=search_path())), "")
    return programs.run(namespace, [program, "-c"]).stdout if program else ""


def risen(before: str, after: str) -> list[tuple[str, str]]:
    """Return the table and text of each rule that matched packets between two calls of `counted`, by table."""
    earlier = {(table, text): count for table, text, count in _counts(before)}
    took = [(table, text) for table, text, count in _counts(after) if count > earlier.get((table, text), 0)]
    return sorted(took, key=lambda each: _ORDER.index(each[0]) if each[0] in _ORDER else len(_ORDER))


def _counts(saved: str) -> Iterator[tuple[str, str, int]]:
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif found := _COUNTED.match(line):
            yield table, found[2], int(found[1])
