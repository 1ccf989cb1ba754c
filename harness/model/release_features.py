"""The features that a Kubernetes release lacks, by its version and feature gates. A run does not judge them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.release import API_SERVER, CONTROLLER, PROXY, Component

NEWEST = 1000  # newer than any version in this table

GATES: Mapping[str, tuple[int, int]] = {
    "AllowServiceExternalIPs": (0, 0),
    "ProxyTerminatingEndpoints": (22, 26),
    "ServiceInternalTrafficPolicy": (21, 22),
    "TopologyAwareHints": (21, 24),
    "KubeProxyDrainingTerminatingNodes": (28, 30),
    "LoadBalancerIPMode": (29, 30),
    "ServiceTrafficDistribution": (30, 31),
    "PreferSameTrafficDistribution": (33, 34),
    "NodeLevelTopology": (26, NEWEST),  # never released
}
"""The first minor version in which each gate can be set, and the first in which it is on by default."""

_OFF_AGAIN = {"AllowServiceExternalIPs": 40}
"""The minor version from which a gate is disabled by default, because its behavior is given up."""


@dataclass(frozen=True, slots=True)
class Since:
    """The condition for a feature: Kubernetes 1.`minor` or newer, with at least one of the gates (if any) on."""

    gates: tuple[str, ...] = ()
    minor: int = 0

    def holds(self, minor: int, gates: Mapping[str, bool]) -> bool:
        return minor >= self.minor and (not self.gates or any(is_on(each, minor, gates) for each in self.gates))


def is_on(gate: str, minor: int, gates: Mapping[str, bool]) -> bool:
    """Return whether a gate is enabled in a component of version 1.`minor`. `gates` has the gates that are set."""
    introduced, on = GATES[gate]
    off_again = minor < NEWEST and minor >= _OFF_AGAIN.get(gate, NEWEST)
    return minor >= introduced and gates.get(gate, minor >= on and not off_again)


_INTERNAL = Since(("ServiceInternalTrafficPolicy",))
_DISTRIBUTION = Since(("ServiceTrafficDistribution",))
_SAME = Since(("PreferSameTrafficDistribution",))
_MODE = Since(("TopologyAwareHints",), minor=27)  # the annotation had another name before
_NODE_LEVEL = Since(("NodeLevelTopology", "PreferSameTrafficDistribution"))  # the API server stores hints for nodes

_FEATURES: Mapping[Component | None, Mapping[str, Since]] = {
    PROXY: {
        "ExternalIPs": Since(("AllowServiceExternalIPs",)),
        "InternalTrafficPolicy": _INTERNAL,
        "LoadBalancerIPMode": Since(("LoadBalancerIPMode",)),
        "NodeHints": _SAME,
        "NodeLevelTopology": _NODE_LEVEL,
        "ProxyHealth": Since(("KubeProxyDrainingTerminatingNodes",)),
        "TerminatingEndpoints": Since(("ProxyTerminatingEndpoints",)),
        "ZoneHints": _DISTRIBUTION,  # with any annotations of the Service
    },
    CONTROLLER: {
        **dict.fromkeys(("PreferClose", "TrafficDistributionConditions"), _DISTRIBUTION),
        **dict.fromkeys(("PreferSameNode", "PreferSameZone"), _SAME),
        **{
            f"NodeLevelTopology{each}": _NODE_LEVEL
            for each in ("Automatic", "ByDaemonSet", "ByNodes", "Manual", "OptIn", "OptOut")
        },
        **dict.fromkeys(("TopologyMode", "TopologyModeEvents"), _MODE),
    },
    API_SERVER: {
        "DeprecationWarnings": Since(minor=35),
        "DomainValues": _DISTRIBUTION,
        "HintsField": Since(("TopologyAwareHints",)),
        "NodeHintsField": _SAME,
        "NodePortAllocation": Since(minor=28),
        "PreferSameValues": _SAME,
        "TrafficDistributionField": _DISTRIBUTION,
        "TrafficPolicyFields": _INTERNAL,
    },
    None: {  # features of the whole cluster
        **dict.fromkeys(
            ("DomainHeuristics", "HonoredCondition", "Outage", "PreferNextZone", "TrafficDistributionRouting"),
            _DISTRIBUTION,
        ),
        "PreferSameRouting": _SAME,
        "TopologyModeRouting": _MODE,
    },
}


def lacking(version: str, gates: Mapping[str, bool], *components: Component) -> tuple[str, ...]:
    """Return the features that a release of these components lacks. An empty or invalid version is the latest."""
    minor = minor_of(version)
    return tuple(
        sorted(
            name
            for component, features in _FEATURES.items()
            if not components or component in components
            for name, since in features.items()
            if not since.holds(minor, gates)
        )
    )


def minor_of(version: str) -> int:
    """Return the minor version, 31 for "1.31", or `NEWEST` for other texts."""
    match = re.fullmatch(r"v?1\.(\d+)(\..+)?", version)
    return int(match[1]) if match else NEWEST
