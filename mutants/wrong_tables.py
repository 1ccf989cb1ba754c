"""States of a proxy with other tables of rules, and tables that do not report all stale UDP flows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from reference.proxy.changes import Changes
from reference.proxy.decision import Family
from reference.proxy.ruleset import StaleUdp
from reference.proxy.state import FAMILIES, State
from reference.proxy.table import Table


class ReplacesTables(State):
    """The state of a proxy with other tables."""

    def __init__(self, *arguments: Any, table: Callable[[Family], Table], **parts: Any) -> None:
        super().__init__(*arguments, **parts)
        self.tables = {family: table(family) for family in FAMILIES}


KeepsFlow = Callable[[Table, StaleUdp], bool]
"""Whether the proxy leaves a flow that it should delete."""


class KeepsStaleFlows(Table):
    """Does not report the stale UDP flows for which `keeps` is true."""

    def __init__(self, family: Family, *, keeps: KeepsFlow) -> None:
        super().__init__(family)
        self._keeps = keeps

    def take_changes(self, most: int = 1 << 20) -> list[Changes]:
        return [
            replace(changes, stale=[each for each in changes.stale if not self._keeps(self, each)])
            for changes in super().take_changes(most)
        ]


def keeping_flows(keeps: KeepsFlow, **parts: Any) -> Callable[..., State]:
    """Return the state of a proxy that does not delete the UDP flows for which `keeps` is true."""
    return partial(ReplacesTables, table=partial(KeepsStaleFlows, keeps=keeps), **parts)
