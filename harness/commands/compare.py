"""The command `trafficdist compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from harness.commands.arguments import PLACE
from harness.commands.front import examples

_CODES = """\b
Exit codes:
  0  with --changes: no verdict changed
  1  with --changes: at least one verdict changed
  4  wrong use"""


@click.command(
    epilog=examples(
        "compare nftables/report.yaml iptables/report.yaml",
        "compare results/1.3*/",
        "compare --changes yesterday/ today/",
        "compare --issues issues/ yesterday/ today/",
        codes=_CODES,
    )
)
@click.argument("reports", nargs=-1, required=True, type=PLACE, metavar="REPORT...")
@click.option("--changes", is_flag=True, help="List the verdicts that changed from the first to the second REPORT.")
@click.option(
    "--issues",
    metavar="FOLDER",
    type=PLACE,
    help="As --changes, and write a Markdown file for each issue to open, with the title on its first line.",
)
def compare(reports: Sequence[str], *, changes: bool, issues: str | None) -> int:
    """Compare reports side by side, as a Markdown page.

    Shows which features each implementation supports, and the requirements whose verdicts differ. A REPORT is a
    report.yaml file or the folder of a run. A report that `trafficdist verify` refuses is marked with the first reason.

    With --changes, there are two REPORTs, which may also be folders of runs, matched by name. A requirement that has
    vanished is a change. A new requirement is listed, and is a change only if it is not met.
    """
    if changes or issues:
        if len(reports) != 2:
            raise click.UsageError(f"--changes and --issues take two reports, and there are {len(reports)}")
        return _changes(reports[0], reports[1], issues)
    from harness.report.comparison import as_markdown
    from harness.report.conformance import read_report

    read = [read_report(each) for each in reports]
    click.echo(as_markdown(read, _why_refused(reports)))
    return 0


def _changes(old: str, new: str, issues: str | None) -> int:
    from harness.report import changes
    from harness.report.conformance import read_reports
    from harness.run.folder import OutputFolder

    before, after = read_reports(old), read_reports(new)
    found = changes.changes(before, after)
    places = [str(Path(place) / name) for place, read in ((old, before), (new, after)) for name in read]
    refused = [(place, why) for place, why in zip(places, _why_refused(places), strict=True) if why]
    click.echo(changes.as_markdown(found, changes.new_ones(before, after), refused))
    for number, issue in enumerate(changes.issues(found) if issues else ()):
        OutputFolder(Path(str(issues))).write(f"{number:02}.md", f"{issue.title}\n\n{issue.body}\n")
    return 1 if found else 0


def _why_refused(places: Sequence[str]) -> list[str]:
    """Return the first reason why `verify` refuses each report (a file or the folder of a run), or "" if accepted."""
    from harness.plugin.suite import catalogue
    from harness.report.verified import verify

    requirements = catalogue()
    folders = [Path(each) if Path(each).is_dir() else Path(each).parent for each in places]
    refused = [verify(each, requirements) for each in folders]
    return [str(each[0]) if each else "" for each in refused]
