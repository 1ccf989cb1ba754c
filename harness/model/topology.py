"""The zones and nodes of a cluster. A node's name contains its zone: `a1` is node 1 of zone a."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError

ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
HOSTNAME_LABEL = "kubernetes.io/hostname"

MAX_NODES = 255
"""The maximum number of nodes that a run creates, which is the size of the embedded cluster's address plan."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with its zone ("" without a zone label) and its allocatable CPU in millicores."""

    name: str
    zone: str
    cpu_milli: int = 4000


@dataclass(frozen=True, slots=True)
class Topology:
    name: str
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        names = [node.name for node in self.nodes]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated or not names:
            raise UsageError(f"topology {self.name!r} needs nodes with unique names; repeated: {repeated or 'none'}")

    def __str__(self) -> str:
        return self.name

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.zone for node in self.nodes if node.zone))

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise UsageError(f"topology {self.name!r} has no node {name!r}: it has {', '.join(n.name for n in self.nodes)}")


def grid(name: str, nodes_per_zone: Mapping[str, int]) -> Topology:
    """Return a topology with the given number of nodes per zone: `{"a": 2, "b": 1}` yields a1 a2 b1."""
    for zone, count in nodes_per_zone.items():
        if not re.fullmatch(r"[a-z]{1,40}", zone) or count < 1:
            why = f"zone {zone[:100]!r} with {count} nodes: expected up to 40 letters a-z, and at least 1 node"
            raise UsageError(f"topology {name[:100]!r}: {why}")
    nodes = (Node(f"{zone}{i}", zone) for zone, count in nodes_per_zone.items() for i in range(1, count + 1))
    return Topology(name, tuple(nodes))


THREE_ZONES = grid("three_zones", {"a": 2, "b": 2, "c": 1})
ONE_ZONE = grid("one_zone", {"a": 2})

TOPOLOGIES: Mapping[str, Topology] = {each.name: each for each in (THREE_ZONES, ONE_ZONE)}


def parse_topology(text: str) -> Topology:
    """Parse a name ("three_zones") or node counts by zone ("a=2,b=2,c=1"). Raises `UsageError`."""
    if text in TOPOLOGIES:
        return TOPOLOGIES[text]
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(zone and sign and re.fullmatch(r"\d{1,20}", count, re.ASCII) for zone, sign, count in pairs):
        raise UsageError(
            f"unknown topology {text[:100]!r}: expected {', '.join(TOPOLOGIES)}, or node counts like a=2,b=2,c=1"
        )
    if len({zone for zone, _, _ in pairs}) < len(pairs):
        raise UsageError(f"topology {text[:100]!r} names a zone twice")
    nodes = sum(int(count) for _, _, count in pairs)
    if nodes > MAX_NODES:
        raise UsageError(f"topology {text[:100]!r} has {nodes:,} nodes: expected at most {MAX_NODES}")
    return grid(text, {zone: int(count) for zone, _, count in pairs})
