"""The abilities that any other cluster lacks for scenarios, in groups with a common remedy. Pure."""

from __future__ import annotations

from collections.abc import Collection

from harness.doctor.check import Check, CheckState, ok
from harness.model.abilities import EVERYTHING, Ability
from harness.model.needs import Needs

_KIND = "--backend kind or netns does"
_NETNS = "--backend netns has it"
_PACKETS = "--backend netns has it, and so has root on the machine whose containers the nodes are (docs/kind.md)"

_GROUPS: tuple[tuple[str, str, frozenset[Ability]], ...] = (
    (
        "nothing may restart or change its components, or switch nodes off",
        _KIND,
        frozenset(
            {
                Ability.RESTART_API_SERVER,
                Ability.RESTART_CONTROLLER,
                Ability.RESTART_PROXY,
                Ability.CHANGE_RELEASE,
                Ability.STOP_NODES,
            }
        ),
    ),
    (
        "labels and taints of its nodes stay as they are",
        "--allow-disruptive, with role trafficdist-disruptive, changes them and puts them back",
        frozenset({Ability.CHANGE_NODES}),
    ),
    (
        "nodes and pods are what their kubelets report",
        _NETNS,
        frozenset({Ability.REPORT_NODES, Ability.CREATE_NODES, Ability.EQUAL_NODES, Ability.REPORT_PODS}),
    ),
    (
        "kernels of its nodes refuse once a second (net.ipv4.icmp_ratemask), so that silence may be a refusal",
        "--backend kind or netns lets them refuse whenever they are asked",
        frozenset({Ability.EVERY_REFUSAL}),
    ),
    (
        "no address of choice is routed to a node",
        _PACKETS,
        frozenset({Ability.LOAD_BALANCER, Ability.EXTERNAL_IPS}),
    ),
    (
        "a server has a container for each of its ports",
        _PACKETS,
        frozenset({Ability.MANY_PORTS}),
    ),
    (
        "servers of a run keep off the addresses of nodes",
        _NETNS,
        frozenset({Ability.HOST_NETWORK}),
    ),
    (
        "its API server does not tell who has read what",
        _NETNS,
        frozenset({Ability.API_READS}),
    ),
    (
        "client pods only ask, they keep no connection and no socket",
        _PACKETS,
        frozenset({Ability.OPEN_CONNECTIONS, Ability.SOURCE_PORTS, Ability.HTTP}),
    ),
)


def checks(offered: Collection[Ability]) -> list[Check]:
    """Return a check for each group with a missing ability, and one for all other missing abilities."""
    lacks = EVERYTHING - frozenset(offered)
    if not lacks:
        return [ok("abilities", "all that scenarios use")]
    found = [_check(why, remedy, lacks & group) for why, remedy, group in _GROUPS if lacks & group]
    rest = lacks - frozenset[Ability]().union(*(group for _, _, group in _GROUPS))
    return found + ([_check("it is not part of a cluster, or not reached there", _NETNS, rest)] if rest else [])


def _check(why: str, remedy: str, lacks: frozenset[Ability]) -> Check:
    names = ", ".join(sorted(lacks))
    return Check("abilities", CheckState.LACKS, f"no {names}: {why}", remedy, Needs(frozenset(map(str, lacks))))
