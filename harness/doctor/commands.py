"""What `trafficdist doctor` does, but for the words of its options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from harness import needs
from harness.doctor import cluster, machine
from harness.doctor.check import Check, State, exit_code
from harness.doctor.cluster import Asked
from harness.doctor.report import Suite, show
from harness.requirements import Profile
from harness.suite import catalogue, place_of

if TYPE_CHECKING:
    from rich.console import Console

_PROFILES = (Profile.SERVICE_PROXY, Profile.ENDPOINTSLICE_CONTROLLER, Profile.API_SERVER)

Say = Callable[[str], None]


def diagnose(
    backend: str, asked: Asked, *, profiles: Collection[str], suite: str, verbose: bool, console: Console, say: Say
) -> int:
    """Look, print what was found, and give the exit code. Raises `UsageError`."""
    looks: Mapping[str, Callable[[], list[Check]]] = {
        "netns": machine.examine_netns,
        "kind": lambda: machine.examine_kind(asked.topology),
        "kubeconfig": lambda: cluster.examine(asked, say),
    }
    checks = looks[backend]()
    show(checks, _suite(checks, profiles, suite, verbose=verbose), console)
    return int(exit_code(checks))


def _suite(checks: Collection[Check], profiles: Collection[str], suite: str, *, verbose: bool) -> Suite:
    """The requirements: only where something lacks, since collecting them takes seconds."""
    if not any(check.state is State.LACKS for check in checks):
        return Suite()
    chosen = tuple(Profile(each) for each in profiles) or _PROFILES
    return Suite(catalogue(suite), needs.read(place_of(suite)), chosen, verbose)
