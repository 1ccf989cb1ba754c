"""Completes values of options and arguments, for bash, zsh and fish through click's own protocol.

A completer is asked in a new process at each key, so it reads names where they can be had in tenths of a second, and
says nothing where they cannot be had at all: an error would land in the middle of what somebody types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import click
from click.shell_completion import CompletionItem

from harness.control_planes import choice
from harness.errors import HarnessError
from harness.model.topology import TOPOLOGIES
from harness.run import suite_files
from harness.settings import claims
from harness.settings.option import Option

Names = Callable[[], Iterable[str]]
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completing(names: Names) -> Complete:
    """A completer of names; in a list with commas, of its last part."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        try:
            return [CompletionItem(before + comma + name) for name in names() if name.startswith(last)]
        except (HarnessError, OSError):
            return []

    return complete


def of_option(option: Option) -> Complete | None:
    """The completer of an option of the table; None where any text will do, or a file is wanted."""
    if option.metavar in ("FILE", "FOLDER"):
        return _files(option.metavar.lower().replace("folder", "dir"))
    names = _NAMES.get(option.name)
    return completing(names or (lambda: option.allowed)) if names or option.allowed else None


def _files(kind: str) -> Complete:
    return lambda _, __, incomplete: [CompletionItem(incomplete, type=kind)]


def mutants() -> Iterable[str]:
    """Mutants and benign variants."""
    from harness.settings import mutants as installed

    return installed.mutants()


def _documents() -> Iterable[str]:
    """All ids, and for each document the pattern of its ids."""
    found = suite_files.ids()
    return [*sorted({f"{each.partition('/')[0]}/*" for each in found}), *found]


def _modes() -> Iterable[str]:
    return dict.fromkeys(mode for modes in claims.MODES.values() for mode in modes)


_NAMES: Mapping[str, Names] = {
    "run-test": _documents,
    "skip-tests": _documents,
    "mutant": mutants,
    "mode": _modes,
    "topology": lambda: TOPOLOGIES,
    "proxy": lambda: (claims.REFERENCE, claims.KUBE_PROXY, claims.INSTALLED),
    "control-plane": lambda: (choice.EMBEDDED, f"{choice.BINARIES}:", f"{choice.CONTAINERS}:"),
    "controller": lambda: (choice.REFERENCE, choice.MANAGER),
    "supported-features": suite_files.features,
    "exempt-features": suite_files.features,
    "workers": lambda: ("auto",),
}

requirements: Names = suite_files.ids
features: Names = suite_files.features
