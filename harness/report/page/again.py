"""Makes the page of a run that was made before, from the files in its folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.judging.history import read
from harness.judging.judge import judge
from harness.judging.results import Result
from harness.model.requirements import Requirement
from harness.report.conformance import is_inside, read_report
from harness.report.page.page import as_html
from harness.report.reactions import by_case
from harness.report.rejudged import HISTORIES, place_of
from harness.run.folder import PAGE, write_whole


def write(run: str, catalogue: Sequence[Requirement], out: Path | None = None) -> Path:
    """Write the page of a run, by default into its folder, and return its path. Raises `UsageError`.

    The catalogue tells the sentences of what was met.
    """
    history = place_of(run)
    folder = history.parent
    if history.name not in HISTORIES or not (folder / "report.yaml").exists():
        raise UsageError(f"{folder}: there is no report.yaml beside run.jsonl; want the folder of a run that has ended")
    report = read_report(str(folder))
    judged = judge(read(history).records, history)
    known = {each.id: each for each in catalogue}
    stated = [Result(known.get(each.requirement.id, each.requirement), each.cases) for each in judged.stated()]
    target = out or folder / PAGE
    try:
        write_whole(target, as_html(report, stated, judged.stories, by_case(judged), evidence_in(folder)))
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def evidence_in(folder: Path) -> Callable[[str], str | None]:
    """Return what gives the text of a file by its path in a folder, None for one that is not in it."""
    root = folder.resolve()

    def text_of(path: str) -> str | None:
        place = folder / path
        if not is_inside(path) or place.resolve() != root / path or not place.is_file():
            return None
        return place.read_text(encoding="utf-8", errors="replace")

    return text_of
