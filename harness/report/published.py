"""The form in which `trafficdist shelf add` publishes a report: small enough for a repository that holds many.

A published report leaves out the observations of passed tests, which the history records as well. One file,
evidence.txt, has excerpts from the evidence for each test that did not pass, under a heading for each file of the run's
folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.judging.verdict import Verdict

EVIDENCE = "evidence.txt"
MOST_BYTES = 100_000
"""The limit for evidence.txt."""

_MARK = "==== "
_HEADING = re.compile(rf"^{_MARK}(evidence/.+)\n", re.MULTILINE)


def test_values(test: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a test in a published report; `test` are the values in the run's own report."""
    if test["verdict"] == Verdict.PASSED:
        cases = {"cases": [_without(case, "observed") for case in test["cases"]]} if "cases" in test else {}
        return {**_without(test, "observed"), "evidence": [], **cases}
    return {**test, "evidence": [EVIDENCE] if test["evidence"] else []}


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def heading(path: str) -> str:
    """Return the line above the excerpt from a file, with its newline."""
    return f"{_MARK}{path}\n"


def as_excerpt(text: str) -> str:
    """Return a text in which no line looks like a heading."""
    return re.sub(f"^(?={_MARK})", " ", text, flags=re.MULTILINE)


def excerpts(folder: Path) -> dict[str, str]:
    """Return the excerpts in a published report's folder by path of the file; empty for the folder of a run."""
    _, *found = _HEADING.split(_text(folder))
    return dict(zip(found[::2], found[1::2], strict=True))


def first_lines(folder: Path, tests: Iterable[str]) -> dict[str, int]:
    """Return the line of evidence.txt at which the evidence for each test begins, for tests that have any."""
    wanted, found = set(tests), dict[str, int]()
    for number, line in enumerate(_text(folder).split("\n"), 1):
        if line.startswith(f"{_MARK}evidence/"):
            test = "/".join(line.split("/")[1:3])
            if test in wanted:
                found.setdefault(test, number)
    return found


def _text(folder: Path) -> str:
    """Return the text of evidence.txt; "" if it does not exist, or `shelf add` did not write it."""
    place = folder / EVIDENCE
    if place.is_symlink() or not place.is_file() or place.stat().st_size > MOST_BYTES:
        return ""
    return place.read_text(encoding="utf-8", errors="replace")
