import re

from harness.model.topology import THREE_ZONES, grid
from harness.variation.node_names import MAX_NODE_NAME, MAX_ZONE, cloud_names

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def test_names_are_valid_and_unique() -> None:
    names = cloud_names(grid("large", {"a": 30, "b": 30, "c": 30, "d": 30, "e": 1}))
    assert len(set(names.nodes.values())) == 121
    assert all(SUBDOMAIN.fullmatch(each) and len(each) <= MAX_NODE_NAME for each in names.nodes.values())
    assert all(max(map(len, each.split("."))) <= 63 for each in names.nodes.values())
    assert len(set(names.zones.values())) == 5
    assert len(set(names.hostnames.values())) == 121
    for each in (*names.zones.values(), *names.hostnames.values()):
        assert LABEL_VALUE.fullmatch(each)
        assert len(each) <= MAX_ZONE


def test_names_of_the_usual_topology_are_easily_confused() -> None:
    names = cloud_names(THREE_ZONES)
    a, b, c = names.zones.values()
    assert a.startswith(b)
    assert a.lower() == c.lower()
    assert names.nodes["b1"].startswith(names.nodes["a2"])
    long, twin = names.nodes["a1"], names.nodes["b2"]
    assert (len(long), long[:-1]) == (MAX_NODE_NAME, twin[:-1])
    assert names.hostnames["b1"] == names.nodes["a2"]
    assert all(names.hostnames[node] != names.nodes[node] for node in names.nodes)
