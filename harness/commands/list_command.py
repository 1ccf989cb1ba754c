"""The command `trafficdist list`, which lists requirements and mutants. It needs no cluster."""

import enum
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from harness.commands.arguments import SUITE, completing, mutant_names
from harness.commands.cli import examples
from harness.model.requirements import Level, Profile
from harness.run import suite_files

_EXAMPLES = examples(
    "list 'KEP-3015/*' 'AFFINITY/*'               requirements of two documents",
    "list --level MUST --profile service-proxy    what every proxy must do",
    "list --feature NodeHints --format json       with sentences and sources",
    "list --mutants 'skips-*'                     faults, with the requirements that detect them",
)


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    names = mutant_names if ctx.params.get("mutants") else suite_files.ids
    return completing(names)(ctx, parameter, incomplete)


def _one_of(kind: type[enum.StrEnum]) -> click.Choice[str]:
    return click.Choice([each.value for each in kind], case_sensitive=False)


@click.command(name="list", epilog=_EXAMPLES)
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", shell_complete=_names)
@click.option(
    "--mutants", is_flag=True, is_eager=True, help="List mutants and benign variants instead of requirements."
)
@click.option("--level", "levels", multiple=True, type=_one_of(Level),
              help="List only requirements of this level. Repeatable.")  # fmt: skip
@click.option("--feature", "features", multiple=True, metavar="FEATURE",
              shell_complete=completing(suite_files.features),
              help="List only requirements of this feature. Repeatable.")  # fmt: skip
@click.option("--profile", "profiles", multiple=True, type=_one_of(Profile),
              help="List only requirements of this profile. Repeatable.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@SUITE
def list_requirements(
    *,
    patterns: Sequence[str],
    mutants: bool,
    levels: Sequence[str],
    features: Sequence[str],
    profiles: Sequence[str],
    form: str,
    suite: str,
) -> None:
    """List all requirements, or those whose ids match a PATTERN; * and ? are wildcards.

    With --mutants, list the faulty implementations (mutants) that test the suite, each with the requirements that
    detect it, and the benign variants, which are unusual but correct. PATTERN then matches names, and the other options
    select requirements.

    When the output is not a terminal, the table has one line per entry.
    """
    from harness.plugin.suite import catalogue as collect
    from harness.report import catalogue
    from harness.run.plan import select

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    every = collect(suite)
    found = select(every, () if mutants else patterns, levels=levels, features=features, profiles=profiles)
    if mutants:
        narrowed = bool(levels or features or profiles)
        click.echo(catalogue.mutants(found, patterns, only_killed=narrowed, form=form, width=width))
    elif form == "json":
        click.echo(catalogue.as_json(found, of=every, suite=suite_files.place_of(suite)))
    else:
        click.echo(catalogue.as_text(found, width=width))
