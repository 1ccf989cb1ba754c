"""Check that a submitted report can be verified, and is in the correct folder without other files."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.model.files import MEGABYTE, content
from harness.model.requirements import Requirement
from harness.report import attestation, published_report
from harness.report.conformance import read_report
from harness.report.verification import Refusal, attested, refusals
from harness.scenario.rehearsal import ExpectedByCase
from tools.shelf import report_folder
from tools.shelf.entry import HOLDS, ShelfEntry, described
from tools.shelf.pages import readme

AHEAD = datetime.timedelta(days=1)
"""The maximum time by which a report's date may be in the future, because the submitter's clock may be fast."""


def check(
    folder: Path, catalogue: Sequence[Requirement], foreseen: ExpectedByCase = lambda _: {}, *, today: datetime.date
) -> list[Refusal]:
    """Return the reasons why a folder is not acceptable for the shelf, or an empty list if it is acceptable."""
    try:
        report = read_report(str(folder))
    except UsageError as error:
        return [Refusal("schema", str(error))]
    entry = described(report, folder)
    return [
        *refusals(folder, report, catalogue, foreseen),
        *_place(folder, report),
        *_files(folder, report),
        *_readme(folder, entry, report),
        *_date(entry, today),
        *attested(folder, attestation.repository_of(report))[0],
    ]


def _place(folder: Path, report: Mapping[str, Any]) -> Iterator[Refusal]:
    here = "/".join(folder.absolute().parts[-3:])
    try:
        expected = str(report_folder.folder_of(report))
    except UsageError as error:
        yield Refusal("place", str(error))
        return
    if here != expected:
        yield Refusal("place", f"the folder is {here}, but must be {expected}")


def _files(folder: Path, report: Mapping[str, Any]) -> Iterator[Refusal]:
    named = {each["path"] for each in report["artifacts"]} & {published_report.EVIDENCE}
    allowed = {report_folder.REPORT, report_folder.README, report_folder.HISTORY, attestation.FILE, *named}
    found = {
        str(each.relative_to(folder)): each for each in folder.rglob("*") if each.is_symlink() or not each.is_dir()
    }
    for name, path in sorted(found.items()):
        if name not in allowed:
            yield Refusal("files", f"{name} is not part of the report")
        elif path.is_symlink() or not path.is_file():
            yield Refusal("files", f"{name} is not a regular file")
    for name in sorted({report_folder.README, report_folder.HISTORY} - found.keys()):
        yield Refusal("files", f"{name} is missing")
    evidence = found.get(published_report.EVIDENCE)
    if evidence and evidence.lstat().st_size > published_report.MOST_BYTES:
        yield Refusal("files", f"{published_report.EVIDENCE} has more than {published_report.MOST_BYTES:,} bytes")


def _date(entry: ShelfEntry, today: datetime.date) -> Iterator[Refusal]:
    if entry.day > today + AHEAD:
        yield Refusal("date", f"the date of the report is {entry.day}, which is in the future")
    if today > entry.holds_until:
        yield Refusal("date", f"the date of the report is {entry.day}, and a report is valid for {HOLDS.days} days")


def _readme(folder: Path, entry: ShelfEntry, report: Mapping[str, Any]) -> Iterator[Refusal]:
    path = folder / report_folder.README
    if not path.is_file():
        return
    text = content(path, what="page", most=MEGABYTE).decode(errors="replace")
    if text != readme(entry, report):
        yield Refusal("readme", "README.md differs from the one that `trafficdist shelf add` writes")
