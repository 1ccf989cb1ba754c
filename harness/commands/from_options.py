"""Click's options, made from the one table, with their values for the tab key, and under headings in the help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import click

from harness.commands import values
from harness.commands.paths import PLACE
from harness.run import suite_files
from harness.settings.option import Option
from harness.settings.options import OPTIONS

SUITE = click.option(
    "--suite",
    metavar="PACKAGE",
    type=PLACE,
    default=suite_files.SUITE,
    help="Package or folder of the suite to use; see docs/own-suites.md. [the published suite]",
)


class GroupedCommand(click.Command):
    """A command that shows the options of the table under the headings of the table, and its own ones last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all options, group by group."""
        headings = {option.key: option.group for option in OPTIONS}
        shown = [(headings.get(str(each.name), "Other"), each.get_help_record(ctx)) for each in self.get_params(ctx)]
        for heading, some in groupby(shown, key=lambda each: each[0]):
            records = [record for _, record in some if record is not None]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def with_options(options: Sequence[Option]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command some options of the table."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = _click_option(option)(command)
        return command

    return decorate


def _click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{option.name}", option.key] + (["-n"] if option.name == "workers" else [])
    text = option.help + (f" [{_shown(option.default)}]" if option.default and option.kind != "flag" else "")
    if option.kind == "flag":
        return click.option(*names, is_flag=True, default=None, help=text)
    return click.option(
        *names,
        multiple=option.kind == "list",
        metavar=option.metavar,
        help=text,
        shell_complete=values.of_option(option),
    )


def _shown(default: Any) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default)


def by_name(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that click gave to a command, as `resolve` wants them."""
    return {key.replace("_", "-"): value for key, value in options.items()}


def as_arguments(option: Option, value: Any) -> list[str]:
    """Return pytest's arguments for a value that was given to the command."""
    if option.kind == "flag":
        return [f"--td-{option.name}"] if value else []
    given = value if isinstance(value, tuple) else () if value is None else (value,)
    return [f"--td-{option.name}={each}" for each in given]
