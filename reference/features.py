"""Kubernetes versions and feature gates, with the defaults of each release, for components of any version."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OLDEST = (1, 17)
NEWEST = (1, 37)
"""The latest final release, which is the default."""
LAST = (1, 40)
"""The newest known version. The gates of 1.38 are from its beta; the changes in 1.39 and 1.40 are only announced."""

Version = tuple[int, int]
Reading = Literal["kep", "released"]


@dataclass(frozen=True, slots=True)
class Gate:
    """The minor versions in which a gate changed. An `on_request` gate can still be set after its removal."""

    introduced: int
    on_by_default: int | None = None
    locked: int | None = None
    removed: int | None = None
    on_request: bool = False
    off_by_default: int | None = None

    def exists(self, minor: int) -> bool:
        return self.introduced <= minor and (self.removed is None or minor < self.removed)

    def can_be_set(self, minor: int) -> bool:
        return self.exists(minor) or (self.on_request and self.introduced <= minor)


GATES: Mapping[str, Gate] = {
    "ServiceTopology": Gate(17, removed=22, on_request=True),
    "PodLocator": Gate(17, removed=17, on_request=True),  # in no release; the beta of ServiceTopology in KEP-536
    "TopologyAwareHints": Gate(21, on_by_default=24, locked=33, removed=36),
    "ServiceInternalTrafficPolicy": Gate(21, on_by_default=22, locked=26),
    "ProxyTerminatingEndpoints": Gate(22, on_by_default=26, locked=28),
    "ServiceTrafficDistribution": Gate(30, on_by_default=31, locked=33, removed=36),
    "PreferSameTrafficDistribution": Gate(33, on_by_default=34, locked=35, removed=38),
    "NFTablesProxyMode": Gate(29, on_by_default=31, locked=33, removed=38),
    "KubeProxyNFTablesLocalhostNodePorts": Gate(37, on_by_default=38),  # KEP-6032
    "KubeProxyIPVS": Gate(37, on_by_default=37, off_by_default=40),  # KEP-5495
    "AllowServiceExternalIPs": Gate(36, on_by_default=36, off_by_default=40),  # KEP-5707
    "NodeLevelTopology": Gate(26, removed=26, on_request=True),  # in no release; the KEP text is from the time of 1.26
}


def parse_version(text: str) -> Version:
    """Parse "1.34", "v1.34.2" or "1.34.0-rc.1" as (1, 34). Raises `ValueError`, which lists the known versions."""
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.\d+(?:[-+][\w.+-]+)?)?", text)
    version = (int(match[1]), int(match[2])) if match else None
    if version is None or not OLDEST <= version <= LAST:
        raise ValueError(
            f"unknown Kubernetes version {text!r}: known versions are "
            f"{OLDEST[0]}.{OLDEST[1]} to {LAST[0]}.{LAST[1]}, in the form 1.34"
        )
    return version


@dataclass(frozen=True, slots=True)
class Features:
    """A Kubernetes version and explicitly set gates. Raises `ValueError` if a gate is unknown or locked.

    `follows` selects the behaviour where the text of a KEP and released Kubernetes contradict each other.
    """

    version: Version = NEWEST
    gates: Mapping[str, bool] = field(default_factory=dict)
    follows: Reading = "kep"
    asked_for: frozenset[str] = field(init=False, repr=False, compare=False)
    """The gates that are set although this release does not have them."""

    def __post_init__(self) -> None:
        minor = self.version[1]
        for name, value in self.gates.items():
            gate = GATES.get(name)
            if gate is None or not gate.can_be_set(minor):
                known = [name for name, each in GATES.items() if each.exists(minor)]
                others = [name for name, each in GATES.items() if each.can_be_set(minor) and name not in known]
                listed = "; on request ".join(", ".join(sorted(names)) for names in (known, others) if names)
                raise ValueError(f"feature gate {name!r} does not exist in Kubernetes 1.{minor}, which has {listed}")
            if gate.locked is not None and minor >= gate.locked and not value:
                raise ValueError(f"feature gate {name} is locked to true since Kubernetes 1.{gate.locked}")
        absent = frozenset(name for name in self.gates if not GATES[name].exists(minor))
        object.__setattr__(self, "asked_for", absent)

    def enabled(self, name: str) -> bool:
        """Return whether the behaviour of gate `name` is enabled: explicitly, by default, or permanently."""
        if name in self.gates:
            return self.gates[name]
        gate, minor = GATES[name], self.version[1]
        if gate.locked is not None and minor >= gate.locked:
            return True
        if not gate.exists(minor) or gate.on_by_default is None:
            return False
        return gate.on_by_default <= minor < (gate.off_by_default or minor + 1)

    def at_least(self, minor: int) -> bool:
        return self.version >= (1, minor)
