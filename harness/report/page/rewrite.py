"""Write the page of a run that has ended, from the run's folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.judging.judge import JudgedRun
from harness.judging.results import Result
from harness.model.requirements import Requirement
from harness.report import causes, published_report, reactions
from harness.report.conformance import is_inside, read_report, with_levels
from harness.report.page.page import as_html
from harness.report.rejudging import HISTORIES, derive, place_of
from harness.run.folder import PAGE, write_whole


def write(run: str, catalogue: Sequence[Requirement], out: Path | None = None) -> Path:
    """Write the page of a run, by default into its folder, and return its path. Raises `UsageError`."""
    found = read_run(run, catalogue)
    target = out or found.folder / PAGE
    try:
        numbers, groups = reactions.by_case(found.judged), causes.of(found.results)
        text = as_html(found.report, found.results, found.judged, numbers, found=groups, read=found.evidence)
        write_whole(target, text)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return target


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that has ended. `evidence` returns the text of an evidence file by path, or None."""

    folder: Path
    report: Mapping[str, Any]
    judged: JudgedRun
    results: Sequence[Result]
    evidence: Callable[[str], str | None]


def read_run(run: str, catalogue: Sequence[Requirement]) -> FinishedRun:
    """Read the folder of a run that has ended. The catalogue has the sentences of requirements. Raises `UsageError`."""
    history = place_of(run)
    folder = history.parent
    if history.name not in HISTORIES or not (folder / "report.yaml").exists():
        raise UsageError(f"{folder}: lacks run.jsonl or report.yaml; expected the folder of a run that has ended")
    report = read_report(str(folder))
    _, judged = derive(history)
    known = with_levels(catalogue, report)
    results = [Result(known.get(each.requirement.id, each.requirement), each.cases) for each in judged.derived()]
    read = evidence_in(folder)
    if any(each["path"] == published_report.EVIDENCE for each in report["artifacts"]):
        found = published_report.excerpts(folder)
        for each in (case for result in results for case in result.cases):
            each.evidence = [path for path in each.evidence if path in found]
        read = found.get
    return FinishedRun(folder, report, judged, results, read)


def evidence_in(folder: Path) -> Callable[[str], str | None]:
    """Return a function that reads a file of this folder by path. It returns None for other files and binary files."""
    root = folder.resolve()

    def text_of(path: str) -> str | None:
        place = folder / path
        if not is_inside(path) or place.resolve() != root / path or not place.is_file():
            return None
        content = place.read_bytes()
        return None if b"\0" in content else content.decode("utf-8", errors="replace")

    return text_of
