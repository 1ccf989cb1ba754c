"""The command `trafficdist run`, a thin wrapper around the pytest plugin, with the same options."""

import itertools
from collections.abc import Sequence
from typing import Any

import click

from harness.commands.arguments import PLACE, SUITE, GroupedCommand, as_arguments, with_options
from harness.commands.cli import EXIT_CODES, examples
from harness.model.files import is_there
from harness.run import suite_files
from harness.settings.options import BY_NAME, OPTIONS, by_name, resolve

_OPTIONS = [each for each in OPTIONS if each.on_command_line]
_EXAMPLES = examples(
    "run                                     the reference on an embedded cluster",
    "run 'KEP-3015/*' -n 2                   some requirements, in two processes",
    "run --kubernetes-version 1.31           the reference as of 1.31",
    "run --proxy kube-proxy --mode iptables  a real proxy on every node",
    "run --backend kubeconfig                the cluster in $KUBECONFIG",
    codes=EXIT_CODES,
)


class _Run(GroupedCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if option := BY_NAME.get(error.option_name.lstrip("-")):
                longer = [each for each in error.possibilities or () if option.name in each]
                raise click.UsageError(
                    f"--{option.name} is not a command-line option: set key {option.name} in an options file "
                    f"(--options-file), or {option.environment} in the environment"
                    + (f"; or did you mean {' or '.join(longer)}?" if longer else ""),
                    ctx,
                ) from None
            raise


@click.command(cls=_Run, epilog=_EXAMPLES, context_settings={"show_default": False})
@with_options(_OPTIONS)
@click.option(
    "--options-file",
    metavar="FILE",
    type=PLACE,
    help="YAML file with the options below, without their leading dashes, and with the additional options in "
    "docs/command.md.",
)
@click.option("-v", "--verbose", count=True, help="Also show pytest's output.")
@SUITE
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[IDS] [-- PYTEST ARGUMENTS]")
def run(options_file: str | None, verbose: int, suite: str, words: Sequence[str], **options: Any) -> int:
    """Run the requirements against an implementation, and write a report.

    IDS select requirements, like --run-test.

    Options can also be set by environment variables TRAFFICDIST_<OPTION> or in an options file. Some options can be set
    only there (docs/command.md lists them). The command line takes precedence over the environment, and the environment
    over the file.
    """
    from harness.checks.check import require
    from harness.checks.machine import LIMITS
    from harness.run.plan import check_selection

    require([LIMITS], None)  # before pytest, which reports a lack of memory with a traceback
    ids, pytest_arguments = _ids_first(words)
    options["run_test"] = (*(options["run_test"] or ()), *ids)
    settings = resolve(by_name(options), options_file=options_file or "")
    if suite == suite_files.SUITE and not any(map(_is_test_file, pytest_arguments)):
        check_selection(settings, suite_files.ids())  # before pytest starts workers, and they import the suite
    arguments = [] if settings.backend else ["--td-backend=netns"]  # the embedded cluster is the default
    for option in _OPTIONS:
        arguments += as_arguments(option, options[option.key])
    if options_file:
        arguments.append(f"--td-options-file={options_file}")
    from harness.plugin.suite import run_pytest

    return run_pytest([*arguments, *["-v"] * verbose, *pytest_arguments], suite=suite)


def _ids_first(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the leading requirement ids: the words before the first option or test file."""
    ids = list(itertools.takewhile(lambda word: word[:1] != "-" and not _is_test_file(word), words))
    return ids, list(words[len(ids) :])


def _is_test_file(word: str) -> bool:
    return is_there(word.partition("::")[0])
