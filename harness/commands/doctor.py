"""The command `trafficdist doctor`. Imports little: `trafficdist --help` must not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from harness.commands.from_options import SUITE, GroupedCommand, by_name, with_options
from harness.commands.front import examples, tell
from harness.settings.claims import INSTALLED
from harness.settings.options import OPTIONS, resolve, resolve_some

if TYPE_CHECKING:
    from harness.doctor.check import Check
    from harness.doctor.report import Suite
    from harness.settings.settings import Settings


_LOOKED_AT = ("backend", "proxy", "dns", "control-plane", "controller", "kubeconfig", "context", "topology", "families",
              "allow-disruptive", "image-registry", "kind-image", "mode", "feature-gates", "profile",
              "supported-features", "exempt-features")  # fmt: skip


@click.command(
    cls=GroupedCommand,
    epilog=examples(
        "doctor", "doctor --context production --try", "doctor --backend netns", "doctor --proxy mine.yaml"
    ),
)
@with_options([each for each in OPTIONS if each.name in _LOOKED_AT])
@click.option(
    "--try",
    "try_pods",
    is_flag=True,
    help="Run a pod on each node, to check that the image can be pulled; then remove it.",
)
@SUITE
@click.option("-v", "--verbose", is_flag=True, help="List every requirement that cannot be judged.")
def doctor(*, try_pods: bool, suite: str, verbose: bool, **options: Any) -> int:
    """Check a cluster or this machine before a run: what is missing, which requirements that affects, and the remedy.

    Checks for a run with --backend kubeconfig unless --backend is given, or with --backend netns where --proxy is one
    that the run starts. Writes nothing to the cluster without --try.
    Environment variables TRAFFICDIST_<OPTION> apply as they do to `trafficdist run`.

    Exits with 0 if nothing is missing, 11 if some requirements cannot be judged, and 12 if no run is possible.
    """
    proxy = resolve_some({"proxy": options["proxy"]})["proxy"]  # a variable or a file may name it
    of_cluster = not proxy or proxy.kind == INSTALLED
    settings = resolve(by_name(options), backend="kubeconfig" if of_cluster else "netns")
    return _diagnose(settings, try_pods=try_pods, suite=suite, verbose=verbose)


def _diagnose(settings: Settings, *, try_pods: bool, suite: str, verbose: bool) -> int:
    """Print the checks of a run with these settings, and return the exit code. Raises `UsageError`."""
    from harness.commands.console import console
    from harness.doctor.check import CheckState, exit_code
    from harness.doctor.report import Suite, show

    checks = _checks(settings, try_pods=try_pods)
    counted = Suite()
    if any(check.state is CheckState.LACKS for check in checks):
        counted = _suite(settings, suite, verbose=verbose)
        checks = [check for check in checks if _costs_something(check, counted)]
    show(checks, counted, console())
    return int(exit_code(checks))


def _checks(settings: Settings, *, try_pods: bool) -> list[Check]:
    from harness.doctor import cluster, machine

    asked = cluster.ClusterOptions(
        settings.kubeconfig,
        settings.context,
        settings.topology,
        settings.allow_disruptive,
        settings.image_registry,
        try_pods,
        settings.release.gates,
    )
    examine: Mapping[str, Callable[[], list[Check]]] = {
        "netns": lambda: [*machine.examine_netns(settings.families), *machine.examine_implementation(settings)],
        "kind": lambda: machine.examine_kind(settings),
        "kubeconfig": lambda: cluster.examine(asked, tell),
    }
    return examine[settings.backend]()


def _suite(settings: Settings, suite: str, *, verbose: bool) -> Suite:
    """Return the requirements that such a run would judge. Collecting them takes seconds."""
    from harness.doctor.report import Suite
    from harness.model import needs
    from harness.plugin.suite import catalogue
    from harness.run.plan import reason_to_skip
    from harness.run.suite_files import place_of

    judged = [each for each in catalogue(suite) if reason_to_skip(each, settings) == ("", "")]
    return Suite(judged, needs.read(place_of(suite)), sorted({each.profile for each in judged}), verbose)


def _costs_something(check: Check, suite: Suite) -> bool:
    """Return whether a check is worth showing: an ability that no requirement of this run needs is not."""
    from harness.doctor.cost import costs

    only_abilities = check.lacks.abilities and not check.lacks.nodes and not check.features
    return not (only_abilities and suite.needs) or bool(costs([check], suite.needs, suite.requirements, suite.profiles))
