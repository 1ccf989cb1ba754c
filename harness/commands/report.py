"""The command `trafficdist report`."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.front import examples
from harness.commands.paths import PLACE


@click.command(epilog=examples("report latest", "report reports/some-run --output page.html"))
@click.argument("run", type=PLACE, metavar="RUN")
@click.option("--output", metavar="FILE", type=PLACE, help="Write the page there.  [report.html in the folder of RUN]")
def report(run: str, output: str | None) -> None:
    """Make the page of a run again: report.html, one file with pictures that needs no network.

    RUN is the folder of a run with its report.yaml and history, or "latest". Each run writes the page itself; this is
    for runs of before.
    """
    from harness.plugin.suite import catalogue
    from harness.report.page.again import write

    click.echo(write(run, catalogue(), Path(output) if output else None))
