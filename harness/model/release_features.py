"""The features that a release lacks because of its version and feature gates. A run does not judge these features."""

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
"""The first minor version in which each gate can be set, and the first in which it is enabled by default."""

_OFF_AGAIN = {"AllowServiceExternalIPs": 40}
"""The minor version from which a gate is disabled by default, because the feature is deprecated."""


@dataclass(frozen=True, slots=True)
class ReleaseCondition:
    """The condition for a feature: Kubernetes 1.`minor` or newer, with at least one of the gates, if any, enabled."""

    gates: tuple[str, ...] = ()
    minor: int = 0

    def holds(self, minor: int, gates: Mapping[str, bool]) -> bool:
        return minor >= self.minor and (not self.gates or any(is_on(each, minor, gates) for each in self.gates))


def is_on(gate: str, minor: int, gates: Mapping[str, bool]) -> bool:
    """Return whether a gate is enabled in a component of version 1.`minor`. `gates` lists the values that were set."""
    introduced, on = GATES[gate]
    off_again = minor < NEWEST and minor >= _OFF_AGAIN.get(gate, NEWEST)
    return minor >= introduced and gates.get(gate, minor >= on and not off_again)


_INTERNAL = ReleaseCondition(("ServiceInternalTrafficPolicy",))
_DISTRIBUTION = ReleaseCondition(("ServiceTrafficDistribution",))
_SAME = ReleaseCondition(("PreferSameTrafficDistribution",))
_MODE = ReleaseCondition(("TopologyAwareHints",), minor=27)  # the annotation had another name before
_NODE_LEVEL = ReleaseCondition(("NodeLevelTopology", "PreferSameTrafficDistribution"))  # for node hints in the API

_FEATURES: Mapping[Component | None, Mapping[str, ReleaseCondition]] = {
    PROXY: {
        "ExternalIPs": ReleaseCondition(("AllowServiceExternalIPs",)),
        "InternalTrafficPolicy": _INTERNAL,
        "LoadBalancerIPMode": ReleaseCondition(("LoadBalancerIPMode",)),
        "NodeHints": _SAME,
        "NodeLevelTopology": _NODE_LEVEL,
        "ProxyHealth": ReleaseCondition(("KubeProxyDrainingTerminatingNodes",)),
        "TerminatingEndpoints": ReleaseCondition(("ProxyTerminatingEndpoints",)),
        "ZoneHints": _DISTRIBUTION,  # whatever annotations the Service has
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
        "DeprecationWarnings": ReleaseCondition(minor=35),
        "DomainValues": _DISTRIBUTION,
        "HintsField": ReleaseCondition(("TopologyAwareHints",)),
        "NodeHintsField": _SAME,
        "NodePortAllocation": ReleaseCondition(minor=28),
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
    """Return the features that a release of these components lacks. An empty or invalid version means the latest."""
    minor = minor_of(version)
    return tuple(
        sorted(
            name
            for component, features in _FEATURES.items()
            if not components or component in components
            for name, condition in features.items()
            if not condition.holds(minor, gates)
        )
    )


def minor_of(version: str) -> int:
    """Return the number of the minor version (31 for "1.31"), or `NEWEST` for any other string."""
    match = re.fullmatch(r"v?1\.(\d+)(\..+)?", version)
    return int(match[1]) if match else NEWEST
