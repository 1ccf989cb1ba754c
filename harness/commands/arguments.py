"""Options and arguments of commands, built from `harness.settings.options`, with help headings and completion."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from harness.control_planes import choice
from harness.errors import HarnessError
from harness.model.files import fault_of_path
from harness.model.topology import TOPOLOGIES
from harness.run import suite_files
from harness.settings import claims
from harness.settings.options import OPTIONS, Option

Names = Callable[[], Iterable[str]]
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class _Path(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if fault := fault_of_path(str(value)):
            self.fail(f"{str(value)[:100]!r} is not a path: {fault}", param, ctx)
        return super().convert(value, param, ctx)


PLACE = _Path()
"""A path, as text. The code that reads the path reports a missing file or a file of the wrong type."""

FILE = _Path(path_type=Path)
FOLDER = _Path(path_type=Path, file_okay=False, resolve_path=True)

SUITE = click.option(
    "--suite",
    metavar="PACKAGE",
    type=PLACE,
    default=suite_files.SUITE,
    help="Package or folder of the suite to use; see docs/own-suites.md. [default: the published suite]",
)


class GroupedCommand(click.Command):
    """A command whose help lists the options of a run under headings, followed by the command's specific options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings = {option.key: option.group for option in OPTIONS}
        shown = [(headings.get(str(each.name), "Other"), each.get_help_record(ctx)) for each in self.get_params(ctx)]
        for heading, some in groupby(shown, key=lambda each: each[0]):
            records = [record for _, record in some if record is not None]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def with_options(options: Sequence[Option]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = _click_option(option)(command)
        return command

    return decorate


def _click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{option.name}", option.key] + (["-n"] if option.name == "workers" else [])
    if option.kind == "flag":
        return click.option(*names, is_flag=True, default=None, help=option.help)
    default = ",".join(option.default) if isinstance(option.default, tuple) else option.default
    text = option.help + (f" [default: {default}]" if default else "")
    return click.option(
        *names, multiple=option.kind == "list", metavar=option.metavar, help=text, shell_complete=completer_of(option)
    )


def as_arguments(option: Option, value: Any) -> list[str]:
    """Return the pytest arguments for a value of a command option."""
    if option.kind == "flag":
        return [f"--td-{option.name}"] if value else []
    given = value if isinstance(value, tuple) else () if value is None else (value,)
    return [f"--td-{option.name}={each}" for each in given]


def completing(names: Names) -> Complete:
    """Return a completer for names. In a comma-separated list, it completes the last item."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        try:
            return [CompletionItem(before + comma + name) for name in names() if name.startswith(last)]
        except (HarnessError, OSError):
            return []

    return complete


def completer_of(option: Option) -> Complete | None:
    if option.metavar in ("FILE", "FOLDER"):
        kind = option.metavar.lower().replace("folder", "dir")
        return lambda _, __, incomplete: [CompletionItem(incomplete, type=kind)]
    names = _NAMES.get(option.name)
    return completing(names or (lambda: option.allowed)) if names or option.allowed else None


def mutant_names() -> Iterable[str]:
    from harness.settings import mutants as installed

    return installed.mutants()


def _documents() -> Iterable[str]:
    """Return all requirement ids, and for each document a pattern that matches its ids."""
    found = suite_files.ids()
    return [*sorted({f"{each.partition('/')[0]}/*" for each in found}), *found]


_NAMES: Mapping[str, Names] = {
    "run-test": _documents,
    "skip-tests": _documents,
    "mutant": mutant_names,
    "mode": lambda: dict.fromkeys(mode for modes in claims.MODES.values() for mode in modes),
    "topology": lambda: TOPOLOGIES,
    "proxy": lambda: (claims.REFERENCE, claims.KUBE_PROXY, claims.INSTALLED),
    "control-plane": lambda: (choice.EMBEDDED, f"{choice.BINARIES}:", f"{choice.CONTAINERS}:"),
    "controller": lambda: (choice.REFERENCE, choice.MANAGER),
    "supported-features": suite_files.features,
    "exempt-features": suite_files.features,
    "workers": lambda: ("auto",),
}
