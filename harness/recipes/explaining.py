"""How a program tells why a node decides so about a Service: by lines of its log, or by a command that one runs.

A data plane with maps of its own has its decisions there and not in its log; a small command reads them. Nothing of
this judges anything: it is asked when a requirement fails, and what it says stands in the explanation.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UnavailableError
from harness.netns import programs
from harness.netns.namespace import Namespace
from harness.recipes.filling import fill

OF_SERVICE: Mapping[str, str] = {
    "namespace": "the namespace of the Service that is asked about",
    "service": "its name",
    "cluster_ip": "its first cluster IP, empty if it has none",
}
"""The placeholders that only an explanation has, with their meanings."""

SECONDS = 5.0  # for a command
_LETTERS = 300_000  # of what a command says, at most


@dataclass(frozen=True, slots=True)
class ByLog:
    """The lines of the log that a regular expression finds; placeholders stand in it for themselves."""

    pattern: str

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the regular expression for a Service."""
        return fill(self.pattern, {name: re.escape(value) for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class ByCommand:
    """What a command says that is run in the netns of the node."""

    command: tuple[str, ...]

    def filled(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command for a Service."""
        return tuple(fill(part, values) for part in self.command)


Explain = ByLog | ByCommand
USUAL = ByLog("{namespace}/{service}")
"""Where a recipe says nothing."""


def answer(namespace: Namespace, command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what a command says in a netns, and how it ended if not well."""
    try:
        ended = programs.run(namespace, command, timeout=SECONDS, environment=environment)
    except UnavailableError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return f"it did not end within {SECONDS:g} s"
    how = f"\n(it ended with {ended.returncode})" if ended.returncode else ""
    return f"{ended.stdout}{ended.stderr}"[:_LETTERS].strip() + how
