"""The command group `trafficdist shelf`. The module imports little, so that `trafficdist --help` stays fast."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from harness.commands.arguments import FOLDER, PLACE, SUITE
from harness.commands.cli import examples
from harness.commands.reports import tell


@click.group(epilog=examples("shelf add latest", "shelf index"))
def shelf() -> None:
    """Publish reports: one folder for each implementation, version, mode and Kubernetes release, and an index."""


def _shelf_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--shelf",
        "place",
        type=FOLDER,
        default="reports",
        show_default=True,
        metavar="FOLDER",
        help="The folder with all reports.",
    )(command)


_ADDED = """\b
Exit codes:
   0  the report is on the shelf
   4  RUN is not the folder of a finished run, or its report does not name the implementation
  13  the report is refused, for each reason that is shown; nothing was written"""


@shelf.command(epilog=examples("shelf add latest", "shelf add trafficdist-results/shelf/*", codes=_ADDED))
@click.argument("runs", nargs=-1, required=True, type=PLACE, metavar="RUN...")
@_shelf_option
@SUITE
def add(runs: Sequence[str], place: Path, suite: str) -> int:
    """Add the report of a finished RUN to the shelf, unless `trafficdist verify` rejects it.

    The report's folder is <kubernetes minor>/<organization>-<project>/<version>-<mode>, without the mode if no proxy
    was judged. It contains README.md, report.yaml, run.jsonl.xz (the history) and evidence.txt (excerpts for unmet
    requirements). A newer report replaces an older one. Reports from unreleased versions are shown as not verified.
    """
    from harness.plugin.suite import catalogue
    from tools.shelf.add import add as put
    from tools.shelf.add import barring

    code, requirements = 0, functools.cache(lambda: catalogue(suite))
    for run in runs:
        target, refused = put(run, place, requirements)
        code = tell(run, barring(refused)) or code
        if not barring(refused):
            click.echo(target)
            for each in refused:
                click.secho(f"{each}, so the report will not be shown as verified", fg="yellow", err=True)
    return code


@shelf.command(epilog=examples("shelf index", "shelf index --again"))
@click.option("--again", is_flag=True, help="Verify all reports, including those that index.json lists as verified.")
@_shelf_option
@SUITE
def index(again: bool, place: Path, suite: str) -> None:
    """Create the index of the shelf from its reports: index.html, and a section in README.md.

    The index shows which requirements each implementation meets, by feature, and since which version. For unmet
    requirements, it shows the reasons, and deviations that projects document (stated.yaml). For each report, it shows
    the date and the suite version, and whether it is verified, made with an older catalogue, or expired. The results of
    verification are cached in index.json, and are valid while no file of the report changes.
    """
    import datetime

    from harness.plugin.suite import catalogue
    from tools.shelf.index import write

    today = datetime.datetime.now(datetime.UTC).date()
    found = write(place, functools.cache(lambda: catalogue(suite)), today, again=again)
    click.echo(f"{len(found)} reports, {sum(not each.refused for each in found)} of them verified: {place}/index.html")


_CHECKED = """\b
Exit codes:
   0  all reports can be published
   4  a FOLDER contains no report
  13  a report is refused, for each reason that is shown"""


@shelf.command(epilog=examples("shelf check reports/1.37/kubernetes-kube-proxy/1.37.2-nftables", codes=_CHECKED))
@click.argument("folders", nargs=-1, required=True, type=FOLDER, metavar="FOLDER...")
@SUITE
def check(folders: Sequence[Path], suite: str) -> int:
    """Check reports before publication: each FOLDER on the shelf is verified, and must contain no other files.

    Additional checks beyond `trafficdist verify`: the folder has the name that the report determines, it contains only
    the files of the report and the README.md that `trafficdist shelf add` writes, and the report is valid today.
    """
    import datetime

    from harness.errors import UsageError
    from harness.model.files import shown
    from harness.plugin.suite import rehearsed
    from tools.shelf.check import check as refusals

    missing = next((each for each in folders if not (each / "report.yaml").exists()), None)
    if missing is not None:
        raise UsageError(f"{shown(missing)}: it contains no report.yaml; give a folder of the shelf")
    code, known, today = 0, rehearsed(suite), datetime.datetime.now(datetime.UTC).date()
    for folder in folders:
        refused = refusals(folder, *known, today=today)
        code = tell(folder, refused) or code
        if not refused:
            click.secho(f"The report in {shown(folder)} can be published.", fg="green")
    return code
