"""The command `trafficdist verify`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from harness.commands.arguments import PLACE, SUITE
from harness.commands.front import examples
from harness.model.escaping import for_line

if TYPE_CHECKING:
    from harness.report.verified import Refusal

_CODES = """\b
Exit codes:
   0  the report follows from the history of its run
   4  FOLDER is no folder of a run
  13  the report is refused, with the reasons"""


@click.command(
    epilog=examples("verify latest", "verify reports/1.37/kubernetes-kube-proxy/1.37.2-nftables", codes=_CODES)
)
@click.argument("folder", type=PLACE, metavar="FOLDER")
@SUITE
def verify(folder: str, suite: str) -> int:
    """Verify that the report in FOLDER follows from the history of its run.

    Derives each verdict again. Also checks the schema, the history's chain of digests, the digests of all files, the
    catalogue (no requirement missing or duplicate), messages, statistics, profiles, times, the identity of the
    implementation, and that a certificate can rest on the run. Needs the release that made the run, and no cluster,
    root or network.
    """
    from harness.errors import UsageError
    from harness.plugin.suite import catalogue
    from harness.report.rejudged import place_of
    from harness.report.verified import CHECKS, verify

    place = place_of(folder).parent
    if not (place / "report.yaml").exists():
        raise UsageError(f"{place}: there is no report.yaml in it; want the folder of a run that has ended")
    if code := tell(place, verify(place, catalogue(suite))):
        return code
    click.secho(f"The report in {place} follows from its run: {', '.join(CHECKS)}.", fg="green")
    return 0


def tell(place: object, refused: Sequence[Refusal]) -> int:
    """Print the reason why a report is refused, and return the exit code, which is 0 for an accepted report."""
    from harness.judging.exit_codes import ExitCode

    if not refused:
        return 0
    for each in refused:
        click.secho(for_line(str(each)), fg="red")
    code = int(ExitCode.UNVERIFIED)
    reasons = f"{len(refused)} reasons" if len(refused) > 1 else "one reason"
    click.secho(f"The report in {for_line(str(place))} is refused: {reasons} (exit code {code}).", bold=True)
    return code
