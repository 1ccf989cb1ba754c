"""Add the report of a run to the shelf: report.yaml, the packed history, excerpts from the evidence, and README.md.

Both the run and the published report are verified before the report replaces an earlier report. A report from an
unreleased version of the suite is also accepted, so that developers can view its pages, but never shown as verified.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.judging import history_file
from harness.model.files import content, sha256_of, shown
from harness.model.requirements import Requirement
from harness.report import published_report
from harness.report.conformance import as_yaml, read_report
from harness.report.rejudging import HISTORIES, place_of
from harness.report.verification import RELEASE, Refusal, refusals
from harness.run.folder import write_whole
from tools.shelf import report_folder
from tools.shelf.entry import described
from tools.shelf.excerpts import excerpts
from tools.shelf.pages import readme


def add(run: str, shelf: Path, catalogue: Callable[[], Sequence[Requirement]]) -> tuple[Path, list[Refusal]]:
    """Add a run to the shelf. Return its folder on the shelf, and the reasons why its report is not verified.

    If `barring` returns any of these reasons, nothing is written. Raises `UsageError` if the run has not ended.
    """
    history = place_of(run)
    if history.name not in HISTORIES or not (history.parent / report_folder.REPORT).exists():
        raise UsageError(
            f"{shown(run)}: there is no report.yaml next to run.jsonl; give the folder of a run that has ended"
        )
    report = read_report(str(history.parent))
    target = shelf / report_folder.folder_of(report)
    refused = refusals(history.parent, report, catalogue())
    if barring(refused):
        return target, refused
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=shelf, prefix=".adding-") as made:
            copy = Path(made) / "run"
            publish(history, report, copy)
            if not barring(refused := refusals(copy, read_report(str(copy)), catalogue())):
                _replace(target, copy)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return target, refused


def barring(refused: Sequence[Refusal]) -> list[Refusal]:
    """Return the reasons that exclude a report from the shelf: all reasons except an unreleased suite version."""
    return [each for each in refused if each.check != RELEASE]


def publish(history: Path, report: Mapping[str, Any], to: Path) -> None:
    """Write the published form of a report into a new folder. The evidence must be in the folder of `history`."""
    folder = history.parent
    to.mkdir()
    write_whole(to / report_folder.HISTORY, history_file.packed(history_file.read(history)))
    tests = [published_report.test_values(each) for each in report["tests"]]
    artifacts = [each for each in report["artifacts"] if each["path"] == HISTORIES[0]]
    if any(each["evidence"] for each in tests):
        text = _evidence(folder, report)
        write_whole(to / published_report.EVIDENCE, text)
        artifacts.insert(0, {"path": published_report.EVIDENCE, "sha256": sha256_of(to / published_report.EVIDENCE)})
    short = {**report, "tests": tests, "artifacts": artifacts}
    write_whole(to / report_folder.README, readme(described(short, to), short))
    artifacts.append({"path": report_folder.README, "sha256": sha256_of(to / report_folder.README)})
    write_whole(to / report_folder.REPORT, as_yaml(short))


def _evidence(folder: Path, report: Mapping[str, Any]) -> str:
    if any(each["path"] == published_report.EVIDENCE for each in report["artifacts"]):
        most = published_report.MOST_BYTES
        return content(folder / published_report.EVIDENCE, what="file", most=most).decode("utf-8", errors="replace")
    failed = [each["evidence"] for each in report["tests"] if published_report.test_values(each)["evidence"]]
    return excerpts(folder, failed)


def _replace(target: Path, made: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        shutil.rmtree(target)
    made.rename(target)
