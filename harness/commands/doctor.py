"""The command `trafficdist doctor`. It imports little, so that `trafficdist --help` stays fast."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from harness.commands.arguments import SUITE, GroupedCommand, by_name, with_options
from harness.commands.front import examples
from harness.settings.claims import INSTALLED
from harness.settings.options import OPTIONS, resolve, resolve_some

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from harness.checks.check import Finding
    from harness.model.needs import Needs
    from harness.model.requirements import Profile, Requirement
    from harness.settings.settings import Settings


_USED = ("backend", "proxy", "dns", "control-plane", "controller", "kubeconfig", "context", "topology", "families",
         "allow-disruptive", "kind-image", "mode", "feature-gates", "profile", "supported-features",
         "exempt-features")  # fmt: skip
_STYLES = {"ok": "green", "unknown": "yellow", "lacks": "bold yellow", "cannot": "bold red"}
_MORE = """A run may skip more: if the rules of a node block a datagram, its client cannot tell whether they drop or \
reject it, and only the client's answer shows this."""
_ENDS = {
    0: "All is well.",
    11: "A run is possible, but missing abilities leave some requirements unjudged (exit code 11).",
    12: "A run is not possible (exit code 12).",
}


@click.command(
    cls=GroupedCommand,
    epilog=examples("doctor", "doctor --context production", "doctor --backend netns", "doctor --proxy mine.yaml"),
)
@with_options([each for each in OPTIONS if each.name in _USED])
@SUITE
@click.option("-v", "--verbose", is_flag=True, help="List each requirement that cannot be judged.")
def doctor(*, suite: str, verbose: bool, **options: Any) -> int:
    """Check a cluster or this machine before a run. Shows what is missing, the affected requirements, and the remedy.

    Checks for a run with --backend kubeconfig. The default is --backend netns if --proxy names a proxy that the run
    starts. Writes nothing. Environment variables TRAFFICDIST_<OPTION> apply as for `trafficdist run`.

    Exits with 0 if nothing is missing, 11 if some requirements cannot be judged, and 12 if a run is not possible.
    """
    from harness.checks.check import State, exit_code
    from harness.commands.console import console
    from harness.run.plan import check_claims
    from harness.run.prerequisites import examine_run
    from harness.run.suite_files import SUITE as PUBLISHED

    proxy = resolve_some({"proxy": options["proxy"]})["proxy"]  # it may come from the environment or an options file
    of_cluster = not proxy or proxy.kind == INSTALLED
    settings = resolve(by_name(options), backend="kubeconfig" if of_cluster else "netns")
    if suite == PUBLISHED:  # a run collects another suite first, which may have features of its own
        check_claims(settings)
    found = examine_run(settings)
    counted = Suite()
    if any(each.state is State.LACKS for each in found):
        counted = _suite(settings, suite, verbose=verbose)
        found = [each for each in found if _matters(each, counted)]
    show(found, counted, console())
    return int(exit_code(found))


@dataclass(frozen=True, slots=True)
class Suite:
    requirements: "Sequence[Requirement]" = ()
    needs: "Mapping[str, Needs] | None" = None
    profiles: "Sequence[Profile]" = ()
    verbose: bool = False


def _suite(settings: "Settings", suite: str, *, verbose: bool) -> Suite:
    """Return the requirements that a run with these settings would judge. Collecting the requirements takes seconds."""
    from harness.model import needs
    from harness.plugin.suite import catalogue
    from harness.run.plan import reason_to_skip
    from harness.run.suite_files import place_of

    judged = [each for each in catalogue(suite) if reason_to_skip(each, settings) == ("", "")]
    return Suite(judged, needs.read(place_of(suite)), sorted({each.profile for each in judged}), verbose)


def _matters(finding: "Finding", suite: Suite) -> bool:
    from harness.checks.check import costs

    only_abilities = finding.lacks.abilities and not finding.lacks.nodes and not finding.features
    if not only_abilities or not suite.needs:
        return True
    return bool(costs([finding], suite.needs, suite.requirements, suite.profiles))


def show(findings: "Sequence[Finding]", suite: Suite, console: "Console") -> None:
    from rich.table import Column, Table
    from rich.text import Text

    from harness.checks.check import State, exit_code
    from harness.model.abilities import Ability

    table = Table("state", "what", Column(overflow="fold"), box=None, pad_edge=False, show_header=False)
    for each in findings:
        table.add_row(Text(each.state, _STYLES[each.state]), each.name, _text(each, suite))
    console.print(table)
    console.print()
    lacks = [each for each in findings if each.state is State.LACKS]
    together, more = list(_costs(lacks, suite)), any(Ability.OPEN_CONNECTIONS in each.lacks.abilities for each in lacks)
    if together and (len(lacks) > 1 or more):
        console.print(Text(f"Together: {'at least ' if more else ''}" + "; ".join(together)))
    if together and more:
        console.print(Text(_MORE))
    console.print(Text(_ENDS[exit_code(findings)]))


def _text(finding: "Finding", suite: Suite) -> "Text":
    from rich.text import Text

    text = Text(finding.found)
    costs = list(_costs([finding], suite, named=None if suite.verbose else 3)) if finding.state == "lacks" else []
    for cost in (*costs, *([finding.costs] if finding.costs else [])):
        text.append(f"\ncosts: {cost}", "yellow")
    if finding.remedy:
        text.append(f"\nremedy: {finding.remedy}", "dim")
    return text


def _costs(findings: "Sequence[Finding]", suite: Suite, *, named: int | None = 0) -> Iterator[str]:
    from harness.checks.check import costs
    from harness.model.needs import Needs

    if not suite.requirements:
        return
    found = costs(findings, suite.needs or {}, suite.requirements, suite.profiles)
    yield from (each.sentence(named=named) for each in found)
    if any(each.lacks != Needs() for each in findings) and not suite.needs:
        yield "unknown: the suite has no table of its requirements' needs"
