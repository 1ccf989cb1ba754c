"""Print the findings of `trafficdist doctor`, and the requirements that cannot be judged because of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.checks.check import CheckState, Finding, costs, exit_code
from harness.model.abilities import Ability
from harness.model.needs import Needs
from harness.model.requirements import Profile, Requirement

_STYLES = {"ok": "green", "unknown": "yellow", "lacks": "bold yellow", "cannot": "bold red"}
_MORE = """A run may skip more: if the rules of a node block a datagram, its client cannot distinguish a drop from a \
reject, and only a run shows whether this happens."""
_ENDS = {
    0: "Nothing is missing.",
    11: "A run is possible, but missing abilities leave some requirements unjudged (exit code 11).",
    12: "A run is not possible (exit code 12).",
}


@dataclass(frozen=True, slots=True)
class JudgedSuite:
    requirements: Sequence[Requirement] = ()
    needs: Mapping[str, Needs] | None = None
    profiles: Sequence[Profile] = ()
    verbose: bool = False


def matters(finding: Finding, suite: JudgedSuite) -> bool:
    only_abilities = finding.lacks.abilities and not finding.lacks.nodes and not finding.features
    if not only_abilities or not suite.needs:
        return True
    return bool(costs([finding], suite.needs, suite.requirements, suite.profiles))


def show(findings: Sequence[Finding], suite: JudgedSuite, console: Console) -> None:
    """Print the conclusion first, because the table of a cluster may be longer than the screen."""
    console.print(Text(_ENDS[exit_code(findings)]))
    lacks = [each for each in findings if each.state is CheckState.LACKS]
    together, more = list(_costs(lacks, suite)), any(Ability.OPEN_CONNECTIONS in each.lacks.abilities for each in lacks)
    if together and (len(lacks) > 1 or more):
        console.print(Text(f"Together: {'at least ' if more else ''}" + "; ".join(together)))
    if together and more:
        console.print(Text(_MORE))
    console.print()
    table = Table("state", "what", Column(overflow="fold"), box=None, pad_edge=False, show_header=False)
    for each in findings:
        table.add_row(Text(each.state, _STYLES[each.state]), each.name, _text(each, suite))
    console.print(table)


def _text(finding: Finding, suite: JudgedSuite) -> Text:
    text = Text(finding.found)
    lost = _costs([finding], suite, named=None if suite.verbose else 3) if finding.state is CheckState.LACKS else ()
    for cost in (*lost, *([finding.costs] if finding.costs else [])):
        text.append(f"\ncosts: {cost}", "yellow")
    if finding.remedy:
        text.append(f"\nfix: {finding.remedy}", "dim")
    return text


def _costs(findings: Sequence[Finding], suite: JudgedSuite, *, named: int | None = 0) -> Iterator[str]:
    if not suite.requirements:
        return
    found = costs(findings, suite.needs or {}, suite.requirements, suite.profiles)
    yield from (each.sentence(named=named) for each in found)
    if any(each.lacks != Needs() for each in findings) and not suite.needs:
        yield "unknown: the suite has no table of its requirements' needs"
