"""The components of a cluster that a scenario can stop, start and change, and their releases."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UsageError


class Component(enum.StrEnum):
    """A component that a scenario stops and starts. All except the PodLocator controller have a version."""

    API_SERVER = "api-server"
    CONTROLLER = "endpointslice-controller"
    PROXY = "service-proxy"
    LOCATOR_CONTROLLER = "pod-locator-controller"


API_SERVER, CONTROLLER, PROXY = Component.API_SERVER, Component.CONTROLLER, Component.PROXY
LOCATOR_CONTROLLER = Component.LOCATOR_CONTROLLER

DNS_SERVER = "dns-server"  # name of the cluster's DNS server, which scenarios observe but do not restart


@dataclass(frozen=True, slots=True)
class Release:
    """A Kubernetes version ("1.30", or "" for the latest), and the feature gates that differ from its defaults. Where
    the KEPs and released Kubernetes differ, `follows` ("kep" or "released") decides. `node_level` is how the controller
    chooses Services for node-level topology (KEP-3015, version of 2022), or "" for its default.
    """

    version: str = ""
    gates: Mapping[str, bool] = field(default_factory=dict)
    follows: str = "kep"
    node_level: str = ""

    def __str__(self) -> str:
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(self.gates.items()))
        return " ".join(filter(None, (self.version or "newest", gates, self.node_level)))

    def to_json(self) -> dict[str, Any]:
        chosen = {"nodeLevel": self.node_level} if self.node_level else {}
        return {"version": self.version, "gates": dict(self.gates), "follows": self.follows, **chosen}


def release(version: str = "", /, *, node_level: str = "", **gates: bool) -> Release:
    """Return a release, in the notation of scenarios: `release("1.30", ServiceTrafficDistribution=True)`."""
    return Release(version, gates, node_level=node_level)


def parse_gates(texts: tuple[str, ...]) -> dict[str, bool]:
    """Parse gates like "Name=true", as in Kubernetes' --feature-gates. Raises `UsageError`."""
    gates = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign or value.lower() not in ("true", "false"):
            raise UsageError(f"feature gate {text[:100]!r}: expected Name=true or Name=false")
        gates[name] = value.lower() == "true"
    return gates
