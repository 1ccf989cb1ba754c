"""The command `trafficdist doctor`. The module imports little, so that `trafficdist --help` stays fast."""

from typing import TYPE_CHECKING, Any

import click

from harness.commands.arguments import SUITE, GroupedCommand, with_options
from harness.commands.cli import examples
from harness.settings.claims import INSTALLED
from harness.settings.options import OPTIONS, by_name, resolve, resolve_some

if TYPE_CHECKING:
    from harness.commands.doctor_output import JudgedSuite
    from harness.settings.settings import Settings

_USED = ("backend", "proxy", "dns", "control-plane", "controller", "kubeconfig", "context", "topology", "families",
         "allow-disruptive", "kind-image", "mode", "feature-gates", "profile", "supported-features",
         "exempt-features")  # fmt: skip
_OF_CLUSTERS = ("kubeconfig", "context", "allow_disruptive")


@click.command(
    cls=GroupedCommand,
    epilog=examples("doctor", "doctor --proxy mine.yaml", "doctor --backend kubeconfig", "doctor --context production"),
)
@with_options([each for each in OPTIONS if each.name in _USED])
@SUITE
@click.option("-v", "--verbose", is_flag=True, help="List each requirement that cannot be judged.")
def doctor(*, suite: str, verbose: bool, **options: Any) -> int:
    """Check this machine or a cluster before a run. Shows what is missing, which requirements this affects, and the
    fix.

    The default is --backend netns, as for `trafficdist run`. If --kubeconfig, --context, --allow-disruptive or --proxy
    installed is given, the default is --backend kubeconfig. Environment variables TRAFFICDIST_<OPTION> apply as for
    `trafficdist run`. Writes nothing.

    Exits with 0 if nothing is missing, 11 if some requirements cannot be judged, and 12 if a run is not possible.
    """
    from harness.checks.check import CheckState, exit_code
    from harness.commands.console import console
    from harness.commands.doctor_output import JudgedSuite, matters, show
    from harness.run.plan import check_claims
    from harness.run.prerequisites import examine_run
    from harness.run.suite_files import SUITE as PUBLISHED

    given = resolve_some({key: options[key] for key in ("proxy", *_OF_CLUSTERS)})  # also from the environment
    of_cluster = any(given[key] for key in _OF_CLUSTERS) or (given["proxy"] and given["proxy"].kind == INSTALLED)
    settings = resolve(by_name(options), backend="kubeconfig" if of_cluster else "netns")
    if suite == PUBLISHED:  # a run collects another suite first, which may have features of its own
        check_claims(settings)
    found, counted = examine_run(settings), JudgedSuite()
    if any(each.state is CheckState.LACKS for each in found):
        counted = _suite(settings, suite, verbose=verbose)
        found = [each for each in found if matters(each, counted)]
    show(found, counted, console())
    return int(exit_code(found))


def _suite(settings: "Settings", suite: str, *, verbose: bool) -> "JudgedSuite":
    from harness.commands.doctor_output import JudgedSuite
    from harness.model import needs
    from harness.plugin.suite import catalogue
    from harness.run.plan import reason_to_skip
    from harness.run.suite_files import place_of

    judged = [each for each in catalogue(suite) if reason_to_skip(each, settings) == ("", "")]
    return JudgedSuite(judged, needs.read(place_of(suite)), sorted({each.profile for each in judged}), verbose)
