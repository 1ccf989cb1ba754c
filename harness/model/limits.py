"""The limits of the programs on one node or control plane: memory in MB, processes and threads, and logs in MB."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MOST = 1_000_000

DEFAULTS = {"memory": 2048, "processes": 4096, "log": 256}
"""The limits of control planes, and of nodes whose recipe sets none. The option `limits` changes them."""


def _default(name: str) -> Any:
    return field(default_factory=lambda: DEFAULTS[name])


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that the programs on one node or control plane may use together. 0 means no limit."""

    memory: int = _default("memory")
    processes: int = _default("processes")
    log: int = _default("log")

    def text(self, name: str, of: str) -> str:
        """Return the clause "was ended because …" for a program. `of` is its node or control plane."""
        what = {"memory": "MB of memory", "processes": "processes and threads", "log": "MB of logs"}[name]
        limit = getattr(self, name)
        return f"was ended because the programs of {of} reached their limit of {limit:,} {what} (limits.{name})"


def set_limits(limits: Iterable[str]) -> None:
    """Change the default limits of this process with strings such as "memory=300"."""
    DEFAULTS.update((name, int(number)) for name, _, number in (each.partition("=") for each in limits))
