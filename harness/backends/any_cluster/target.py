"""Determines a cluster's abilities before a run, and matches its nodes to the nodes of the topology."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.api.client import Api, Object
from harness.api.connection import find
from harness.api.name_translation import NameTranslation
from harness.backends.any_cluster.node_evidence import KUBE_PROXY, ProxySelector
from harness.model.abilities import Ability
from harness.model.cluster_options import AGNHOST
from harness.model.manifests import takes_pods, zone_of
from harness.model.topology import THREE_ZONES, Node, Topology

ALWAYS = frozenset({Ability.PROXY_METRICS, Ability.EXTERNAL_CLIENT, Ability.UNDISTURBED})
"""The abilities of every cluster. A host-network pod can be the external client for node ports of other nodes."""


def abilities(*, disruptive: bool, equal_nodes: bool) -> frozenset[Ability]:
    return (
        ALWAYS
        | (frozenset({Ability.CHANGE_NODES}) if disruptive else frozenset())
        | (frozenset({Ability.EQUAL_NODES}) if equal_nodes else frozenset())
    )


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """The cluster of a run. `topology` contains only nodes that match a node of the cluster. `proxies` select the pods
    whose logs are evidence. The fields in `services` are added to each Service of the run.
    """

    kubeconfig: str
    context: str
    run_id: str
    names: NameTranslation
    topology: Topology
    abilities: frozenset[Ability]
    registry: str = ""
    backend: str = "kubeconfig"
    probes: str = AGNHOST
    proxies: tuple[ProxySelector, ...] = (KUBE_PROXY,)
    services: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def plain_api(self) -> Api:
        return Api(find(self.kubeconfig, context=self.context))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "abilities": sorted(map(str, self.abilities))}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ClusterTarget":
        topology = values["topology"]
        made = {
            "names": NameTranslation(**values["names"]),
            "topology": Topology(topology["name"], tuple(Node(**each) for each in topology["nodes"])),
            "abilities": frozenset(map(Ability, values["abilities"])),
            "proxies": tuple(ProxySelector(**each) for each in values["proxies"]),
        }
        return cls(**{**values, **made})


def match_nodes(topology: Topology, nodes: Sequence[Object]) -> NameTranslation:
    """Choose a ready cluster node for each node of the topology, zone by zone. Prefer nodes with the same name."""
    by_zone: dict[str, list[str]] = {}
    for node in nodes:
        zone = zone_of(node)
        if zone and takes_pods(node):
            by_zone.setdefault(zone, []).append(str(node["metadata"]["name"]))
    wanted = {zone: [node.name for node in topology.nodes if node.zone == zone] for zone in topology.zones}
    zones = _pairs(list(wanted), sorted(by_zone, key=lambda zone: (-len(by_zone[zone]), _natural(zone))))
    found: dict[str, str] = {}
    for ours, theirs in zones.items():
        found |= _pairs(wanted[ours], sorted(by_zone[theirs], key=_natural))
    return NameTranslation(found, zones)


def are_equal(topology: Topology, names: NameTranslation, nodes: list[Object]) -> bool:
    """Return whether the schedulable nodes are exactly those of `THREE_ZONES`, with the same CPU ratios."""
    working = {str(each["metadata"]["name"]): each for each in nodes if takes_pods(each)}
    if topology != THREE_ZONES or working.keys() != {names.nodes.get(node.name) for node in topology.nodes}:
        return False
    cpus = [(_milli(working[names.nodes[node.name]]), node.cpu_milli) for node in topology.nodes]
    return all(found > 0 and found * cpus[0][1] == cpus[0][0] * wanted for found, wanted in cpus)


def _milli(node: Object) -> int:
    cpu = ((node.get("status") or {}).get("allocatable") or {}).get("cpu")
    found = re.fullmatch(r"([0-9]{1,12})(m?)", str(cpu))
    return int(found[1]) * (1 if found[2] else 1000) if found else 0


def described(node: Node, played_by: Object, real: str) -> dict[str, str]:
    """Return the facts about a node of the topology for the report. `real` is the node's name in the cluster."""
    info = (played_by.get("status") or {}).get("nodeInfo") or {}
    facts = {
        "kernel": info.get("kernelVersion"),
        "os": info.get("osImage") or info.get("operatingSystem"),
        "kubelet": info.get("kubeletVersion"),
        "kubeProxy": info.get("kubeProxyVersion"),
        "nodeName": real if real != node.name else None,
    }
    return {"name": node.name, "zone": node.zone, **{key: str(value) for key, value in facts.items() if value}}


def _pairs(ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str]:
    same = [name for name in ours if name in theirs]
    rest = iter([name for name in theirs if name not in same])
    pairs = {name: name if name in same else next(rest, "") for name in ours}
    return {name: other for name, other in pairs.items() if other}


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders numbers by value: worker, worker2, worker10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]
