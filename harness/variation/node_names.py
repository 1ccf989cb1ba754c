"""Other names for the nodes and zones of scenarios. A faulty component may confuse these names with one another."""

import itertools
from collections.abc import Iterator

from harness.api.name_translation import NameTranslation
from harness.model.topology import Topology

MAX_NODE_NAME = 253  # characters of a DNS subdomain
MAX_ZONE = 63  # characters of a label value


def cloud_names(topology: Topology) -> NameTranslation:
    nodes = dict(zip([node.name for node in topology.nodes], _nodes(), strict=False))
    hostnames = {name: f"host-{number}.example" for number, name in enumerate(nodes, 1)}
    if len(nodes) > 2:  # the hostname label of one node is the name of another
        hostnames[list(nodes)[2]] = list(nodes.values())[1]
    return NameTranslation(nodes, dict(zip(topology.zones, _zones(), strict=False)), hostnames)


def _nodes() -> Iterator[str]:
    longest = _long_name("node-1", MAX_NODE_NAME)
    yield from (longest, "node-1", "node-10", longest[:-1] + "y", "node-1.us-east-1.compute.internal")
    yield from (f"node-1{number}" for number in itertools.count(1))


def _zones() -> Iterator[str]:
    yield from ("us-east-1a", "us-east-1", "US-East-1a", _long_name("us-east-1a", MAX_ZONE))
    yield from (f"us-east-1a.{number}" for number in itertools.count(1))


def _long_name(begin: str, length: int) -> str:
    """Return a name of this length whose labels have at most 63 characters."""
    rest = length - len(begin)
    return begin + "".join("." if number % 60 == 0 and number < rest - 1 else "x" for number in range(rest))
