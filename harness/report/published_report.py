"""The format in which `trafficdist shelf add` publishes a report, so that a repository can store many of them.

A published report omits the observations of passed tests, because the history also has these observations.
For each test that did not pass, evidence.txt has excerpts of the evidence, with a heading for each original file.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.judging.verdict import Verdict

EVIDENCE = "evidence.txt"
MOST_BYTES = 100_000  # size limit of evidence.txt, in characters

_MARK = "==== "
_HEADING = re.compile(rf"^{_MARK}(evidence/.+)\n", re.MULTILINE)


def test_values(test: Mapping[str, Any]) -> dict[str, Any]:
    if test["verdict"] == Verdict.PASSED:
        cases = {"cases": [_without(case, "observed") for case in test["cases"]]} if "cases" in test else {}
        return {**_without(test, "observed"), "evidence": [], **cases}
    return {**test, "evidence": [EVIDENCE] if test["evidence"] else []}


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def heading(path: str) -> str:
    return f"{_MARK}{path}\n"


def as_excerpt(text: str) -> str:
    """Escape the lines of a text that would look like headings."""
    return re.sub(f"^(?={_MARK})", " ", text, flags=re.MULTILINE)


def excerpts(folder: Path) -> dict[str, str]:
    _, *found = _HEADING.split(_text(folder))
    return dict(zip(found[::2], found[1::2], strict=True))


def first_lines(folder: Path, tests: Iterable[str]) -> dict[str, int]:
    """Return the number of the first line of each test's evidence in evidence.txt. Omit tests without evidence."""
    wanted, found = set(tests), dict[str, int]()
    for number, line in enumerate(_text(folder).split("\n"), 1):
        if line.startswith(f"{_MARK}evidence/"):
            test = "/".join(line.split("/")[1:3])
            if test in wanted:
                found.setdefault(test, number)
    return found


def _text(folder: Path) -> str:
    place = folder / EVIDENCE
    if place.is_symlink() or not place.is_file() or place.stat().st_size > MOST_BYTES:
        return ""
    return place.read_text(encoding="utf-8", errors="replace")
