"""Puts the folder of a run on the shelf: what its report rests on, the history compressed, and a page for people.

The copy is verified before it takes its place, not the original: what is on the shelf has been verified as it stands
there. A report that no released version made can stand there too, so that a project sees its own; its page and the
index say so, and never that it is verified.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.model.files import MEGABYTE, content, shown
from harness.model.requirements import Requirement
from harness.report.conformance import MOST_BYTES, read_report
from harness.report.rejudged import HISTORIES, place_of
from harness.report.verified import RELEASE, Refusal, refusals
from harness.run.folder import write_whole
from tools.shelf import place
from tools.shelf.entry import described
from tools.shelf.markdown import readme

LARGEST = 256 * MEGABYTE
"""Of one file that a report rests on; a history has some megabytes."""


def add(run: str, shelf: Path, catalogue: Callable[[], Sequence[Requirement]]) -> tuple[Path, list[Refusal]]:
    """Put a run on the shelf, and return its folder there, and the reasons why it is refused.

    If any of them is `barring`, nothing is written. A report of the same place gives way. Raises `UsageError` for what
    is no run that came to its end, or says too little about what was judged.
    """
    history = place_of(run)
    if history.name not in HISTORIES or not (history.parent / place.REPORT).exists():
        raise UsageError(
            f"{shown(run)}: there is no report.yaml beside run.jsonl; want the folder of a run that has ended"
        )
    report = read_report(str(history.parent))
    where = place.place_of(report)
    target, is_new = shelf / where, not shelf.exists()
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=shelf, prefix=".adding-") as made:
            copy = Path(made) / "run"
            _copy(history, [each["path"] for each in report["artifacts"]], copy)
            refused = refusals(copy, report, catalogue())
            if not barring(refused):
                write_whole(copy / place.README, readme(described(report, copy), report))
                _replace(target, copy)
        if barring(refused) and is_new:
            shelf.rmdir()
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return target, refused


def barring(refused: Sequence[Refusal]) -> list[Refusal]:
    """Return the reasons that keep a report off the shelf: all, but that no released version made it."""
    return [each for each in refused if each.check != RELEASE]


def _copy(history: Path, artifacts: Sequence[str], to: Path) -> None:
    """Copy what verification asks for; a file that is not there is left out, and refused by its name."""
    to.mkdir()
    names = [place.REPORT, *(each for each in artifacts if each != HISTORIES[0])]
    for name in names:
        if (history.parent / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            read = content(history.parent / name, what="file", most=MOST_BYTES if name == place.REPORT else LARGEST)
            write_whole(to / name, read)
    read = content(history, what="history", most=LARGEST)
    write_whole(to / place.HISTORY, read if history.suffix == ".gz" else gzip.compress(read, mtime=0))


def _replace(target: Path, made: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        shutil.rmtree(target)
    made.rename(target)
