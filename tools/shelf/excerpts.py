"""Select excerpts from the evidence of a run: the most helpful files of each failure first, up to the size limit."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.files import MEGABYTE, content
from harness.report import published_report

_MOST_OF_TEST = 20_000  # maximum number of bytes per test, so that a report with one failure is small
_LARGEST = 256 * MEGABYTE
_ENDS = "…\n"
_ABOUT = """\
Excerpts from the evidence for each requirement that is not met. The folder of the run has all evidence; the command in
README.md makes it again.

"""

_IN_ORDER = tuple(
    re.compile(rf"/(?:[a-z]+-)?(?:{names})$")
    for names in (
        r"explanation\.txt",
        r"path-.*\.txt",
        r"services\.yaml|endpointslices\.yaml",
        r"decisions.*\.txt|dns\.txt|.*\.log",
        r"rules-.*",
    )
)
"""The files to excerpt, the most important first."""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    text: str

    @property
    def heading(self) -> str:
        return published_report.heading(self.path)

    @property
    def size(self) -> int:
        return len(self.text.encode())

    def cut(self, most: int) -> str:
        """Return whole lines with at most this number of bytes: the first lines, or for a log the last lines."""
        if self.size <= most:
            return self.text
        lines, left = self.text.splitlines(keepends=True), most - len(_ENDS.encode())
        lines = lines[::-1] if self.path.endswith(".log") else lines
        kept: list[str] = []
        for line in lines:
            left -= len(line.encode())
            if left < 0:
                break
            kept.append(line)
        return "".join([_ENDS, *kept[::-1]] if self.path.endswith(".log") else [*kept, _ENDS])


def excerpts(folder: Path, tests: Iterable[Sequence[str]]) -> str:
    """Return the text of evidence.txt. `tests` contains the evidence paths of each test that did not pass."""
    tests = [paths for paths in tests if paths]
    left = min(published_report.MOST_BYTES, _MOST_OF_TEST * len(tests)) - len(_ABOUT.encode())
    kept: dict[str, str] = {}
    for pattern in _IN_ORDER:
        files = [_read(folder, path) for paths in tests for path in paths if pattern.search(path)]
        for file, most in _shares([each for each in files if each is not None and each.text], left):
            kept[file.path] = f"{file.heading}{file.cut(most)}\n"
            left -= len(kept[file.path].encode())
    return _ABOUT + "".join(kept[path] for paths in tests for path in _ordered(paths) if path in kept)


def _read(folder: Path, path: str) -> _File | None:
    data = content(folder / path, what="file", most=_LARGEST)
    if b"\0" in data:
        return None
    text = published_report.as_excerpt(data.decode("utf-8", errors="replace"))
    return _File(path, text if text.endswith("\n") else f"{text}\n")


def _shares(files: Sequence[_File], left: int) -> list[tuple[_File, int]]:
    """Divide the remaining bytes between files. Small files leave the rest of their share to larger files."""
    shares = []
    ordered = sorted(files, key=lambda each: each.size)
    for number, file in enumerate(ordered):
        around = len(file.heading.encode()) + 1
        most = left // (len(ordered) - number) - around
        used = min(most, file.size)
        if used < min(file.size, _LEAST):
            continue
        shares.append((file, most))
        left -= used + around
    return shares


_LEAST = 200  # bytes; shorter excerpts are useless


def _ordered(paths: Sequence[str]) -> list[str]:
    def rank(path: str) -> tuple[str, int, str]:
        found = next((number for number, each in enumerate(_IN_ORDER) if each.search(path)), len(_IN_ORDER))
        return path.rpartition("/")[0], found, path

    return sorted(paths, key=rank)
