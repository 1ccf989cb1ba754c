"""The commands that read reports: `trafficdist compare` and `trafficdist changes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from harness.commands.front import examples
from harness.commands.paths import PLACE


@click.command(epilog=examples("compare nftables/report.yaml iptables/report.yaml", "compare results/1.3*/"))
@click.argument("reports", nargs=-1, required=True, type=PLACE, metavar="REPORT...")
def compare(reports: Sequence[str]) -> None:
    """Compare reports side by side, as a Markdown page.

    Shows which features each implementation supports, and the requirements whose verdicts differ. A REPORT is a
    report.yaml file or the folder of a run. One that `trafficdist verify` refuses is marked, with the first reason.
    """
    from harness.report.comparison import as_markdown
    from harness.report.conformance import read_report

    read = [read_report(each) for each in reports]
    click.echo(as_markdown(read, _why_refused(reports)))


def _why_refused(places: Sequence[str]) -> list[str]:
    """Return for each report, a file or the folder of a run, the first reason why it is not verified, "" if it is."""
    from harness.plugin.suite import catalogue
    from harness.report.verified import verify

    requirements = catalogue()
    folders = [Path(each) if Path(each).is_dir() else Path(each).parent for each in places]
    refused = [verify(each, requirements) for each in folders]
    return [str(each[0]) if each else "" for each in refused]


_CODES = "\b\nExit codes:\n  0  no verdict changed\n  1  at least one verdict changed\n  4  wrong use"


@click.command(epilog=examples("changes yesterday/ today/", "changes yesterday/ today/ --issues issues/", codes=_CODES))
@click.argument("old", type=PLACE)
@click.argument("new", type=PLACE)
@click.option(
    "--issues",
    metavar="FOLDER",
    type=PLACE,
    help="Write a Markdown file for each issue to open, with the title on its first line.",
)
def changes(old: str, new: str, issues: str | None) -> int:
    """List verdicts that changed from OLD to NEW: two runs, or two folders of runs, matched by name.

    A requirement that has vanished is a change; new ones are named, and are changes only if they are not met. Reports
    that `trafficdist verify` refuses are marked, with the first reason.
    """
    from harness.report import changes as compared
    from harness.report.conformance import read_reports
    from harness.run.folder import OutputFolder

    before, after = read_reports(old), read_reports(new)
    found = compared.changes(before, after)
    places = [str(Path(place) / name) for place, read in ((old, before), (new, after)) for name in read]
    refused = [(place, why) for place, why in zip(places, _why_refused(places), strict=True) if why]
    click.echo(compared.as_markdown(found, compared.new_ones(before, after), refused))
    for number, issue in enumerate(compared.issues(found) if issues else ()):
        OutputFolder(Path(str(issues))).write(f"{number:02}.md", f"{issue.title}\n\n{issue.body}\n")
    return 1 if found else 0
