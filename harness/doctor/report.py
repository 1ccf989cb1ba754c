"""Prints the checks as a table: the state of each, its costs, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from harness.doctor.check import Check, CheckState, exit_code
from harness.doctor.cost import costs
from harness.judging.exit_codes import ExitCode
from harness.model.needs import Needs
from harness.model.requirements import Profile, Requirement

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {
    CheckState.OK: "green",
    CheckState.UNKNOWN: "yellow",
    CheckState.LACKS: "bold yellow",
    CheckState.UNUSABLE: "bold red",
}
_ENDS = {
    ExitCode.PASSED: "All is well.",
    ExitCode.PARTIAL: "A run is possible. What is lacking leaves requirements unjudged, by name (exit code 11).",
    ExitCode.DISTRUST: "No run is possible as it is (exit code 12).",
}


@dataclass(frozen=True, slots=True)
class Suite:
    """The requirements that costs are counted in, the needs of each, and the profiles of interest."""

    requirements: Sequence[Requirement] = ()
    needs: Mapping[str, Needs] | None = None
    profiles: Sequence[Profile] = ()
    verbose: bool = False


def show(checks: Sequence[Check], suite: Suite, console: Console) -> None:
    """Print the table, and the cost of all lacks together."""
    table = Table("state", "what", Column(overflow="fold"), box=None, pad_edge=False, show_header=False)
    for check in checks:
        table.add_row(Text(check.state, _STYLES[check.state]), check.name, _text(check, suite))
    console.print(table)
    console.print()
    lacks = [check for check in checks if check.state is CheckState.LACKS]
    together = list(_costs(lacks, suite))
    if len(lacks) > 1 and together:
        console.print(Text("Together: " + "; ".join(together)))
    console.print(Text(_ENDS[exit_code(checks)]))


def _text(check: Check, suite: Suite) -> Text:
    text = Text(check.found)
    if check.state is CheckState.LACKS:
        for cost in _costs([check], suite, named=None if suite.verbose else 3):
            text.append(f"\ncosts: {cost}", "yellow")
        if check.costs:
            text.append(f"\ncosts: {check.costs}", "yellow")
    if check.remedy and check.state is not CheckState.OK:
        text.append(f"\nremedy: {check.remedy}", "dim")
    return text


def _costs(checks: Sequence[Check], suite: Suite, *, named: int | None = 0) -> Iterator[str]:
    if not suite.requirements:
        return
    found = costs(checks, suite.needs or {}, suite.requirements, suite.profiles)
    yield from (each.sentence(named=named) for each in found)
    of_needs = any(check.lacks != Needs() for check in checks)
    if of_needs and not suite.needs:
        yield "not known: the suite has no table of what its requirements need"
