"""Topology keys in a proxy: precedence over other fields, and changes of Nodes and Services."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reference.client import Object
from reference.features import Features
from reference.proxy.decision import Behaviour, Decision, Drop, Endpoint, Forward, OwnNode, Reject, ServicePort, decide
from reference.proxy.node_labels import NodeLabels
from reference.proxy.state import State

GATE = {"ServiceTopology": True}
ON, OFF = (Behaviour.of(Features(gates=gates)) for gates in (GATE, {}))
LABELS = {
    "a1": {"host": "a1", "rack": "r1", "zone": "a"},
    "a2": {"host": "a2", "rack": "r2", "zone": "a"},
    "b1": {"host": "b1", "rack": "r2", "zone": "b"},
}
A1 = OwnNode("a1", "a", frozenset(LABELS["a1"].items()))
PORT = ServicePort("default", "web", "", "TCP", 80, cluster_ips=("10.96.0.1",))
NODE_PORT = replace(PORT, node_port=30080)
NAMED: dict[str, Any] = {"ready": {}, "leaving": {"ready": False, "terminating": True}, "starting": {"ready": False}}
NAMED["starting"] |= {"serving": False}


def endpoint(spec: str) -> Endpoint:
    """Parse "a1", "a1:leaving" or "a1:starting" into an endpoint on node a1, with hints for node b1 and zone b."""
    node, _, state = spec.partition(":")
    hints: dict[str, Any] = {"zone_hints": frozenset("b"), "node_hints": frozenset({"b1"})}
    labels = frozenset(LABELS.get(node, {}).items())
    return Endpoint(f"10.244.0.{1 + sorted(LABELS).index(node)}", 80, node=node, labels=labels, **hints)._replace(
        **NAMED[state or "ready"]
    )


def decided(keys: str, specs: str, port: ServicePort = PORT, behaviour: Behaviour = ON) -> Decision:
    return decide(replace(port, topology_keys=tuple(keys.split())), map(endpoint, specs.split()), A1, behaviour)


def shown(action: object) -> str:
    match action:
        case Forward(endpoints):
            return " ".join(each.node for each in endpoints)
        case Drop() | Reject():
            return type(action).__name__.lower()
    return "-"


@pytest.mark.parametrize(
    ("keys", "endpoints", "expected"),
    [
        ("", "a1 a2 b1", "a1 a2 b1"),
        ("host", "a1 a2 b1", "a1"),
        ("host zone", "a2 b1", "a2"),
        ("host zone", "b1", "reject"),
        ("host *", "a2 b1", "a2 b1"),
        ("zone", "a2:starting b1", "reject"),
        ("zone", "a2:leaving b1", "a2"),
        ("host zone", "a1:leaving a2 b1", "a2"),
        ("host *", "a1:leaving b1", "b1"),
        ("zone", "a2:leaving b1:leaving", "a2"),
        ("zone", "b1:leaving", "reject"),
        ("zone", "b1:starting", "reject"),
        ("zone", "", "reject"),
    ],
)
def test_keys_choose_among_usable_endpoints(keys: str, endpoints: str, expected: str) -> None:
    assert shown(decided(keys, endpoints).cluster_ip) == expected


@pytest.mark.parametrize(
    ("gates", "expected"), [({}, "a1 a2 b1"), ({"ServiceTopology": False}, "a1 a2 b1"), (GATE, "a1")]
)
@pytest.mark.parametrize("version", [20, 37])
def test_keys_apply_while_their_gate_is_on(version: int, gates: dict[str, bool], expected: str) -> None:
    behaviour = Behaviour.of(Features((1, version), gates))
    assert shown(decided("host", "a1 a2 b1", behaviour=behaviour).cluster_ip) == expected


def test_keys_come_before_hints_which_count_where_there_are_no_keys() -> None:
    hinted = [
        endpoint(each)._replace(zone_hints=frozenset({"a" if each == "b1" else "b"})) for each in ("a1", "a2", "b1")
    ]
    keyed = decide(replace(PORT, topology_keys=("zone",)), hinted, A1, ON)
    assert (keyed.mode, shown(keyed.cluster_ip)) == ("TopologyKeys", "a1 a2")
    assert "hints not used" in keyed.hints
    assert shown(decide(PORT, hinted, A1, ON).cluster_ip) == "b1"


# Columns: decision at the cluster IP, at external addresses for external clients, at external addresses for pods.
@pytest.mark.parametrize(
    ("policies", "keys", "endpoints", "expected"),
    [
        ("", "zone", "a1 a2 b1", ("a1 a2", "a1 a2", "a1 a2")),
        ("", "zone", "b1", ("reject", "reject", "reject")),
        ("internal", "zone", "a1 a2 b1", ("a1", "a1 a2", "a1 a2")),
        ("internal", "rack", "a1 b1", ("a1", "a1", "a1")),
        ("internal", "missing", "a1 b1", ("a1", "reject", "reject")),
        ("internal", "zone *", "a2 b1", ("drop", "a2", "a2")),
        ("external", "zone", "a1 a2 b1", ("a1 a2", "a1", "a1 a2")),
        ("external", "zone", "b1", ("reject", "drop", "reject")),
    ],
)
def test_policy_local_comes_before_keys(policies: str, keys: str, endpoints: str, expected: tuple[str, ...]) -> None:
    port = replace(NODE_PORT, internal_local="internal" in policies, external_local="external" in policies)
    decision = decided(keys, endpoints, port)
    assert tuple(map(shown, (decision.cluster_ip, decision.outside, decision.inside))) == expected


def test_released_proxy_ignores_policies_and_hints_while_the_gate_is_on() -> None:
    released = Behaviour.of(Features(gates=GATE, follows="released"))
    local = replace(NODE_PORT, internal_local=True)
    keyed = decided("zone", "a1 a2 b1", local, released)
    assert (shown(keyed.cluster_ip), shown(keyed.outside)) == ("a1 a2", "a1 a2")
    plain = decided("", "a1 a2 b1", local, released)
    assert (plain.mode, shown(plain.cluster_ip)) == ("", "a1 a2 b1")
    assert plain.hints == "hints not used: the ServiceTopology gate is enabled"
    off = Behaviour.of(Features(follows="released"))
    assert shown(decided("zone", "a1 a2 b1", local, off).cluster_ip) == "a1"


@pytest.mark.parametrize(
    ("keys", "endpoints", "said"),
    [
        ("host zone", "a2 b1", "topology key zone: ready endpoints on zone=a: 1 of 2"),
        ("host *", "b1", "topology key *: ready endpoints on any node: 1 of 1"),
        ("host zone", "b1", "no endpoint for topology keys host, zone, others: 1"),
    ],
)
def test_reasons_name_the_key_that_decided(keys: str, endpoints: str, said: str) -> None:
    assert said in decided(keys, endpoints).reasons[1]


# Cached decisions


def node(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": LABELS.get(name, {}) | labels}, "spec": {}}


class CountingState(State):
    """A state that counts its decisions."""

    def __init__(self, behaviour: Behaviour = ON) -> None:
        self.decided = 0
        super().__init__("a1", behaviour, decide=self._count)

    def _count(self, *arguments: Any) -> Decision:
        self.decided += 1
        return decide(*arguments)


def keyed(state: State, *keys: str, name: str = "web") -> None:
    spec = {"clusterIP": "10.96.0.1", "ports": [{"port": 80, "protocol": "TCP"}], "topologyKeys": list(keys)}
    state.receive("services", {"metadata": {"namespace": "default", "name": name}, "spec": spec}, deleted=False)


def started(*keys: str, nodes: tuple[str, ...] = ("a1", "a2", "b1"), behaviour: Behaviour = ON) -> CountingState:
    """Return a proxy on a1 that knows these Nodes, and a Service with an endpoint on each of a1, a2 and b1."""
    state = CountingState(behaviour)
    for each in nodes:
        state.receive("nodes", node(each), deleted=False)
    keyed(state, *keys)
    metadata = {"namespace": "default", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}}
    endpoints = [{"addresses": [f"10.244.0.{i}"], "nodeName": each} for i, each in enumerate(sorted(LABELS), 1)]
    ports = [{"name": "", "port": 8080, "protocol": "TCP"}]
    slice_ = {"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints}
    state.receive("endpointslices", slice_, deleted=False)
    state.compute()
    return state


def reached(state: State) -> str:
    """Return the nodes of the endpoints that the current rules use."""
    state.compute()
    (action,) = state.ruleset("IPv4", ()).services.values()
    places = {f"10.244.0.{i}": each for i, each in enumerate(sorted(LABELS), 1)}
    return action if isinstance(action, str) else " ".join(sorted(places[address] for address, _ in action))


def test_labels_come_from_the_nodes_of_the_endpoints() -> None:
    assert reached(started("host")) == "a1"
    assert reached(started("rack")) == "a1"
    assert reached(started("zone")) == "a1 a2"
    assert reached(started("zone", behaviour=OFF)) == "a1 a2 b1"


def test_keys_of_a_live_service_can_be_changed_and_removed() -> None:
    state = started("host")
    seen = []
    for keys in (("zone",), ("none", "*"), ("none",), (), ("host",)):
        keyed(state, *keys)
        seen.append(reached(state))
    assert seen == ["a1 a2", "a1 a2 b1", "reject", "a1 a2 b1", "a1"]


@pytest.mark.parametrize(
    ("relabelled", "expected"),
    [
        (node("a1", rack="r2"), "a1 a2 b1"),
        (node("b1", rack="r1"), "a1 b1"),
        (node("a1", rack="r9"), "a1"),
    ],
)
def test_changed_label_of_any_node_takes_effect(relabelled: Object, expected: str) -> None:
    state = started("rack")
    state.receive("nodes", relabelled, deleted=False)
    assert reached(state) == expected


def test_endpoint_matches_once_its_node_exists() -> None:
    state = started("zone", nodes=("a1",))
    assert reached(state) == "a1"
    state.receive("nodes", node("a2"), deleted=False)
    assert reached(state) == "a1 a2"
    state.receive("nodes", node("a2"), deleted=True)
    assert reached(state) == "a1"


def test_proxy_with_an_unknown_node_matches_only_the_star() -> None:
    assert reached(started("zone", nodes=("a2", "b1"))) == "reject"
    assert reached(started("zone", "*", nodes=("a2", "b1"))) == "a1 a2 b1"


def test_proxy_with_a_deleted_node_uses_its_last_labels() -> None:
    state = started("zone")
    state.receive("nodes", node("a1"), deleted=True)
    assert reached(state) == "a2"


def test_only_services_with_the_changed_key_are_decided_again() -> None:
    state = started("zone")
    before = state.decided
    for relabelled in (node("a2"), node("a2", rack="r9"), node("a1", rack="r9"), node("c1", rack="r1")):
        state.receive("nodes", relabelled, deleted=False)
        state.compute()
    assert state.decided == before
    state.receive("nodes", node("b1", zone="a"), deleted=False)
    state.compute()
    assert state.decided == before + 1


def test_label_changes_have_no_effect_without_topology_keys() -> None:
    state = started()
    before = state.decided
    state.receive("nodes", node("b1", zone="a"), deleted=False)
    state.compute()
    assert state.decided == before


def test_label_changes_are_reported_by_key() -> None:
    labels = NodeLabels()
    assert labels.receive(node("a1")) == {"host", "rack", "zone"}
    assert labels.receive(node("a1")) == set()
    assert labels.receive(node("a1", rack="r9", more="x")) == {"rack", "more"}
    assert labels.of_endpoint({"nodeName": "a1"}) == {("host", "a1"), ("rack", "r9"), ("zone", "a"), ("more", "x")}
    assert labels.receive(node("a1"), deleted=True) == {"host", "rack", "zone", "more"}
    assert labels.of_endpoint({"nodeName": "a1"}) == labels.of_endpoint({}) == frozenset()
