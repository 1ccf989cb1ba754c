"""What is known of a cluster, and what may be done on it, before anything is made there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.api.client import Api
from harness.api.kubeconfig import find
from harness.backends.any_cluster.names import Names
from harness.model.abilities import Ability
from harness.model.topology import Node, Topology

ALWAYS = frozenset({Ability.PROXY_METRICS, Ability.EXTERNAL_CLIENT, Ability.UNDISTURBED})
"""What a client pod on the host's network can do: it is outside for the node ports of any other node."""


def abilities(*, disruptive: bool, equal_nodes: bool) -> frozenset[Ability]:
    """What can be done on a cluster of somebody else's, whose components stay as they are."""
    return (
        ALWAYS
        | (frozenset({Ability.CHANGE_NODES}) if disruptive else frozenset())
        | (frozenset({Ability.EQUAL_NODES}) if equal_nodes else frozenset())
    )


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of a cluster before anything is made on it. `topology` has the nodes that were found."""

    kubeconfig: str
    context: str
    run_id: str
    names: Names
    topology: Topology
    abilities: frozenset[Ability]
    registry: str = ""
    backend: str = "kubeconfig"

    def plain_api(self) -> Api:
        """Open the API in which nodes and zones have the cluster's own names."""
        return Api(find(self.kubeconfig, context=self.context))

    def to_json(self) -> dict[str, Any]:
        """Plain values, to hand over to a worker."""
        return {**asdict(self), "abilities": sorted(map(str, self.abilities))}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Target:
        """The inverse of `to_json`."""
        topology = values["topology"]
        made = {
            "names": Names(**values["names"]),
            "topology": Topology(topology["name"], tuple(Node(**each) for each in topology["nodes"])),
            "abilities": frozenset(map(Ability, values["abilities"])),
        }
        return cls(**{**values, **made})
