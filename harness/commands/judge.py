"""The command `trafficdist judge`."""

from __future__ import annotations

from typing import Any

import click

from harness.commands.arguments import PLACE, by_name, with_options
from harness.commands.front import examples
from harness.settings.options import BY_NAME, resolve_some

_CODES = """\b
Exit codes, of the verdicts that are derived:
   0  every selected MUST is met; a SHOULD that is not met is a warning
   1  at least one MUST is not met, or with --warnings-as-errors a SHOULD
   4  RUN is no history, or a line of it was changed or removed
   5  no requirement was selected
  10  nothing failed, but a MUST is inconclusive
  11  nothing failed, but a claimed MUST did not run
  12  a verdict or message is not what the run stated, or the run did not trust itself"""

_EXAMPLES = examples(
    "judge latest",
    "judge trafficdist-results/2026-11-21T095204.718590Z --format json",
    "judge shelf/run.jsonl.xz",
    codes=_CODES,
)


@click.command(epilog=_EXAMPLES)
@click.argument("run", type=PLACE, metavar="RUN")
@click.option("--format", "form", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@with_options([BY_NAME["warnings-as-errors"]])
def judge(run: str, form: str, **options: Any) -> int:
    """Judge a run again from its history alone; needs no cluster, no root and no network.

    RUN is the folder of a run, its run.jsonl (or .gz, .xz), or "latest". The verdict and message of each requirement
    are derived from the recorded observations and compared with those in the history and in the report.yaml beside it.
    Results without observations (skips, exceptions) are accepted as recorded, and counted separately.
    """
    from harness.report.rejudged import show

    return show(run, form, strict=resolve_some(by_name(options))["warnings_as_errors"])
