"""The command `trafficdist report`."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.arguments import PLACE
from harness.commands.front import examples

_CODES = """\b
Exit codes:
   0  the page is written
   4  RUN is no folder of a run
  12  with --allure: Node is not here, or Allure cannot be fetched"""


@click.command(
    epilog=examples(
        "report latest",
        "report reports/some-run --output page.html",
        "report latest --allure",
        "report latest --markdown >> $GITHUB_STEP_SUMMARY",
        codes=_CODES,
    )
)
@click.argument("run", type=PLACE, metavar="RUN")
@click.option(
    "--output",
    metavar="FILE",
    type=PLACE,
    help="Write the page there.  [report.html, or allure-report/index.html, in the folder of RUN]",
)
@click.option("--allure", is_flag=True, help="Write the report of Allure 3 instead; needs Node 20 or newer.")
@click.option("--markdown", is_flag=True, help="Print a summary for a pull request instead, failures first.")
def report(run: str, output: str | None, *, allure: bool, markdown: bool) -> None:
    """Write the page of a run again: report.html, one file with pictures that needs no network.

    RUN is the folder of a run with its report.yaml and history, or "latest". Each run writes its page; this command is
    for earlier runs. With --allure, npx fetches Allure, which also writes one file. The summary in Markdown has maps
    that GitHub shows as pictures.
    """
    if markdown and (allure or output):
        raise click.UsageError("--markdown prints a summary, and goes with neither --allure nor --output")
    out = Path(output) if output else None
    if allure:
        from harness.report import allure_page

        click.echo(allure_page.write(run, out))
        return
    from harness.plugin.suite import catalogue
    from harness.report.page.again import read_run, write

    if markdown:
        from harness.report.markdown import as_markdown

        found = read_run(run, catalogue())
        click.echo(as_markdown(found.report, found.results, found.judged.stories), nl=False)
        return
    click.echo(write(run, catalogue(), out))
