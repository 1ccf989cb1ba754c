"""What `trafficdist doctor` does, but for the words of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from harness.doctor import cluster, machine
from harness.doctor.check import Check, State, exit_code
from harness.doctor.cluster import Asked
from harness.doctor.cost import costs
from harness.doctor.report import Suite, show
from harness.model import needs
from harness.model.topology import parse_topology
from harness.plugin.suite import catalogue
from harness.run.plan import reason_to_skip
from harness.run.suite_files import place_of
from harness.settings.options import resolve
from harness.settings.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

Say = Callable[[str], None]


def diagnose(
    options: Mapping[str, Any], *, try_pods: bool, suite: str, verbose: bool, console: Console, say: Say
) -> int:
    """Look, print what was found, and give the exit code. `options` are those of the run, as are its environment
    variables. Raises `UsageError`.
    """
    settings = resolve(options)
    asked = _asked(settings, try_pods=try_pods)
    looks: Mapping[str, Callable[[], list[Check]]] = {
        "netns": lambda: machine.examine_netns(settings.families),
        "kind": lambda: machine.examine_kind(asked.topology),
        "kubeconfig": lambda: cluster.examine(asked, say),
    }
    checks = looks[settings.backend]()
    counted = Suite()
    if any(check.state is State.LACKS for check in checks):
        counted = _suite(settings, suite, verbose=verbose)
        checks = [check for check in checks if _costs_something(check, counted)]
    show(checks, counted, console)
    return int(exit_code(checks))


def _asked(settings: Settings, *, try_pods: bool) -> Asked:
    return Asked(
        settings.kubeconfig,
        settings.context,
        parse_topology(settings.topology),
        settings.allow_disruptive,
        settings.image_registry,
        try_pods,
        settings.release.gates,
    )


def _suite(settings: Settings, suite: str, *, verbose: bool) -> Suite:
    """The requirements that such a run would judge. Collecting them takes seconds."""
    judged = [each for each in catalogue(suite) if reason_to_skip(each, settings) == ("", "")]
    return Suite(judged, needs.read(place_of(suite)), sorted({each.profile for each in judged}), verbose)


def _costs_something(check: Check, suite: Suite) -> bool:
    """Whether it is worth telling: an ability that no requirement of this run needs is not."""
    only_abilities = check.lacks.abilities and not check.lacks.nodes and not check.features
    return not (only_abilities and suite.needs) or bool(costs([check], suite.needs, suite.requirements, suite.profiles))
