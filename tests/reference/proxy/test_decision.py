"""The endpoints that a node uses, as tables of literal cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reference.features import Features
from reference.proxy.decision import (
    Action,
    Behaviour,
    Decision,
    Drop,
    Endpoint,
    Forward,
    OwnNode,
    Reject,
    ServicePort,
    decide,
)

A1 = OwnNode("a1", "a")
CLUSTER = ServicePort("default", "web", "http", "TCP", 80, cluster_ips=("10.96.0.1",))
NODE_PORT = replace(CLUSTER, node_port=30080)


def endpoint(spec: str) -> Endpoint:
    """Parse text such as "1@a1 zone=a,b node=a1 terminating": last part of the address, node, hints and state."""
    place, *words = spec.split()
    number, node = place.split("@")
    hints = {word.split("=")[0]: frozenset(word.split("=")[1].split(",")) for word in words if "=" in word}
    terminating = "terminating" in words
    ready = not terminating and "unready" not in words
    serving = "unready" not in words
    return Endpoint(
        f"10.244.0.{number}", 8080, ready, serving, terminating, node, hints.get("zone", frozenset()),
        hints.get("node", frozenset()),
    )  # fmt: skip


def shown(action: Action | None) -> str:
    match action:
        case Forward(endpoints):
            return " ".join(sorted(each.address.rpartition(".")[2] for each in endpoints))
        case Drop():
            return "drop"
        case Reject():
            return "reject"
    return "-"


def decided(specs: str, port: ServicePort = CLUSTER, place: OwnNode = A1, features: Features | None = None) -> Decision:
    endpoints = [endpoint(spec) for spec in specs.split(" | ")] if specs else []
    return decide(port, endpoints, place, Behaviour.of(features or Features()))


@pytest.mark.parametrize(
    ("specs", "mode", "expected"),
    [
        ("1@a1 | 2@b1", "", "1 2"),
        ("1@a1 zone=a | 2@b1 zone=b", "PreferSameZone", "1"),
        ("1@a1 zone=b | 2@b1 zone=a", "PreferSameZone", "2"),
        ("1@a1 zone=b | 2@b1 zone=b", "", "1 2"),
        ("1@a1 zone=a | 2@b1", "", "1 2"),
        ("1@a1 zone=a | 2@b1 unready", "PreferSameZone", "1"),
        ("1@a1 zone=a unready | 2@b1 zone=b", "", "2"),
        ("1@a1 zone=a terminating | 2@b1 zone=b", "", "2"),
        ("1@b1 zone=b,a | 2@b1 zone=b", "PreferSameZone", "1"),
        ("1@a1 zone=a node=a1 | 2@a2 zone=a node=a2", "PreferSameNode", "1"),
        ("1@a2 zone=a node=a2 | 2@b1 zone=b node=b1", "PreferSameZone", "1"),
        ("1@b1 zone=b node=b1 | 2@b1 zone=b node=b1", "", "1 2"),
        ("1@b1 zone=b node=a1 | 2@a1 zone=a node=b1", "PreferSameNode", "1"),
        ("1@a1 zone=a node=a1 | 2@a2 zone=a", "PreferSameZone", "1 2"),
        ("1@a1 node=a1 | 2@a2 node=a2", "PreferSameNode", "1"),
        ("1@b1 node=b1 | 2@b2 node=b2", "", "1 2"),
        ("1@a1 node=a1 | 2@a2 zone=a", "", "1 2"),
        ("1@b1 node=b1,a1 | 2@b2 node=b2", "PreferSameNode", "1"),
        ("1@a1 zone=a node=a1 terminating | 2@a2 zone=a node=a2", "PreferSameZone", "2"),
    ],
)
def test_hints_choose_the_cluster_list(specs: str, mode: str, expected: str) -> None:
    decision = decided(specs)

    assert (decision.mode, shown(decision.cluster_ip)) == (mode, expected)


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ("", "reject"),
        ("1@a1 unready", "reject"),
        ("1@a1 unready terminating", "reject"),
        ("1@b1 terminating", "1"),
        ("1@b1 terminating zone=b | 2@a1 terminating zone=a", "1 2"),
        ("1@b1 terminating | 2@b1 unready", "1"),
        ("1@b1 terminating | 2@b1", "2"),
    ],
)
def test_terminating_endpoints_serve_only_when_nothing_is_ready(specs: str, expected: str) -> None:
    assert shown(decided(specs).cluster_ip) == expected


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ("1@a1 | 2@b1", "1"),
        ("1@a1 zone=b | 2@b1 zone=a", "1"),
        ("1@a1 terminating | 2@b1", "1"),
        ("1@a1 terminating | 2@a1", "2"),
        ("1@a1 unready | 2@b1", "drop"),
        ("2@b1", "drop"),
        ("2@b1 terminating", "drop"),
        ("2@b1 unready", "reject"),
        ("1@a1 unready", "reject"),
        ("", "reject"),
    ],
)
def test_internal_local_policy_uses_this_node_or_drops(specs: str, expected: str) -> None:
    decision = decided(specs, replace(CLUSTER, internal_local=True))

    assert (decision.mode, shown(decision.cluster_ip), decision.outside) == ("", expected, None)


# Columns: decision at the cluster IP, at external addresses for external clients, at external addresses for pods.
@pytest.mark.parametrize(
    ("policies", "specs", "expected"),
    [
        ("", "1@a1 zone=a | 2@b1 zone=b", ("1", "1", "1")),
        ("", "2@b1", ("2", "2", "2")),
        ("", "", ("reject", "reject", "reject")),
        ("external", "1@a1 zone=a | 2@b1 zone=b", ("1", "1", "1")),
        ("external", "1@a1 zone=b | 2@b1 zone=a", ("2", "1", "2")),
        ("external", "2@b1", ("2", "drop", "2")),
        ("external", "1@a1 terminating | 2@b1", ("2", "1", "2")),
        ("external", "2@b1 unready", ("reject", "reject", "reject")),
        ("internal", "1@a1 zone=b | 2@b1 zone=a", ("1", "2", "2")),
        ("internal", "2@b1", ("drop", "2", "2")),
        ("internal external", "1@a1 zone=b | 2@b1 zone=a", ("1", "1", "2")),
        ("internal external", "2@b1", ("drop", "drop", "2")),
        ("internal external", "2@b1 terminating", ("drop", "drop", "2")),
        ("internal external", "", ("reject", "reject", "reject")),
    ],
)
def test_policies_choose_the_list_by_direction(policies: str, specs: str, expected: tuple[str, ...]) -> None:
    port = replace(NODE_PORT, internal_local="internal" in policies, external_local="external" in policies)

    decision = decided(specs, port)

    assert tuple(map(shown, (decision.cluster_ip, decision.outside, decision.inside))) == expected


def test_external_policy_is_ignored_for_a_service_without_external_address() -> None:
    decision = decided("2@b1", replace(CLUSTER, external_local=True))

    assert (shown(decision.cluster_ip), decision.outside) == ("2", None)


@pytest.mark.parametrize("address", [{"node_port": 30080}, {"load_balancer_ips": ("x",)}, {"external_ips": ("x",)}])
def test_each_external_address_makes_a_service_externally_accessible(address: dict[str, object]) -> None:
    decision = decided("2@b1", replace(CLUSTER, external_local=True, **address))

    assert shown(decision.outside) == "drop"


def test_same_endpoint_in_two_slices_is_one_and_the_local_one_wins() -> None:
    local = replace(CLUSTER, internal_local=True)

    assert shown(decided("1@b1 | 1@a1 | 1@b1", local).cluster_ip) == "1"
    assert shown(decided("1@a1 | 1@b1", local).cluster_ip) == "1"


# One address in two endpoints: that of the pod that has it now, and another one (kubernetes#135266).
OTHERS = {
    "ends, elsewhere": "1@b1 terminating unready",
    "ends and serves, elsewhere": "1@b1 terminating",
    "ends, on the client's node": "1@a1 terminating unready",
    "is not ready in an older slice": "1@b2 unready",
    "is not ready, on the client's node": "1@a1 unready",
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("ready_first", [False, True])
def test_ready_endpoint_counts_wherever_another_has_its_address(other: str, ready_first: bool) -> None:
    now = endpoint("1@b2 zone=a")
    both = [now, endpoint(other)] if ready_first else [endpoint(other), now]

    for place in (A1, OwnNode("b2", "b")):
        decision = decide(CLUSTER, both, place)
        assert isinstance(decision.cluster_ip, Forward)
        assert decision.cluster_ip.endpoints == (now,)
    assert shown(decide(replace(CLUSTER, internal_local=True), both, A1).cluster_ip) == "drop"
    assert shown(decide(replace(CLUSTER, internal_local=True), both, OwnNode("b2", "b")).cluster_ip) == "1"


@pytest.mark.parametrize(
    ("specs", "place", "expected"),
    [
        ("1@a1 terminating unready | 1@b1 terminating", "b1", "1"),
        ("1@b1 terminating | 1@a1 terminating unready", "a1", "drop"),
        ("1@a1 terminating | 1@b1 terminating | 1@c1 terminating unready", "a1", "1"),
        ("1@a1 terminating | 1@b1 unready", "a1", "reject"),
        ("1@b1 unready | 1@a1 terminating", "b1", "reject"),
    ],
)
def test_without_a_ready_endpoint_the_one_that_stays_counts_then_the_one_that_serves(
    specs: str, place: str, expected: str
) -> None:
    local = replace(CLUSTER, internal_local=True)
    assert shown(decided(specs, local, OwnNode(place, "a")).cluster_ip) == expected


def test_same_address_with_another_port_is_another_endpoint() -> None:
    first = endpoint("1@a1")

    decision = decide(CLUSTER, [first, first._replace(port=9090)], A1)

    assert isinstance(decision.cluster_ip, Forward)
    assert [each.port for each in decision.cluster_ip.endpoints] == [8080, 9090]


def test_node_without_zone_uses_everything_but_a_hint_with_the_empty_name_matches_it() -> None:
    place = OwnNode("a1")

    assert shown(decided("1@a1 zone=a | 2@b1 zone=b", place=place).cluster_ip) == "1 2"
    named = [endpoint("1@a1")._replace(zone_hints=frozenset({""})), endpoint("2@b1 zone=b")]
    assert shown(decide(CLUSTER, named, place).cluster_ip) == "1"


def test_ready_is_checked_before_terminating() -> None:
    published = endpoint("1@b1")._replace(terminating=True)

    assert shown(decide(CLUSTER, [published, endpoint("2@b1 terminating")], A1).cluster_ip) == "1"


@pytest.mark.parametrize(
    ("specs", "place", "expected"),
    [
        ("1@a1 zone=a | 5@b1", A1, "hints set aside: endpoint 10.244.0.5 has no zone hint"),
        (
            "1@a1 zone=a node=a1 | 5@b1",
            A1,
            "endpoint 10.244.0.5 has no node hint; endpoint 10.244.0.5 has no zone hint",
        ),
        ("5@b1 zone=b node=b1", A1, "no endpoint is hinted for node a1; no endpoint is hinted for zone a"),
        ("5@b1 zone=b", OwnNode("a1"), "no endpoint is hinted for zone (none)"),
        ("5@b1", A1, "no endpoint has hints"),
        ("5@b1 node=a1", A1, "hints name node a1"),
        ("5@b1 zone=a", A1, "hints name zone a"),
        ("5@b1 terminating", A1, "cluster IP: forward to 10.244.0.5 (no endpoint is ready; terminating, but still"),
        ("5@b1 unready", A1, "cluster IP: reject (no endpoint of 1 is ready"),
        ("", A1, "cluster IP: reject (no endpoint at all)"),
    ],
)
def test_reasons_state_the_deciding_rule(specs: str, place: OwnNode, expected: str) -> None:
    assert expected in "\n".join(decided(specs, place=place).reasons)


def test_reason_of_a_drop_names_policy_and_node() -> None:
    reasons = decided("2@b1", replace(NODE_PORT, external_local=True)).reasons

    assert (
        "external addresses, from external clients: drop (externalTrafficPolicy Local: no usable endpoint on node a1"
        in ("\n".join(reasons))
    )


HINTED = "1@a1 zone=a node=a1 | 2@a2 zone=a node=a2 | 3@b1 zone=b node=b1"


@pytest.mark.parametrize(
    ("version", "gates", "annotation", "zone", "expected"),
    [
        (20, {}, "Auto", "a", "1 2 3"),
        (23, {}, "Auto", "a", "1 2 3"),
        (23, {"TopologyAwareHints": True}, "Auto", "a", "1 2"),
        (24, {}, "Auto", "a", "1 2"),
        (24, {}, "anything", "a", "1 2 3"),
        (24, {}, "", "a", "1 2 3"),
        (29, {}, "anything", "a", "1 2"),
        (29, {}, "disabled", "a", "1 2 3"),
        (29, {}, "Auto", "", "1 2 3"),
        (30, {}, "", "a", "1 2 3"),
        (30, {"ServiceTrafficDistribution": True}, "", "a", "1 2"),
        (31, {}, "", "a", "1 2"),
        (31, {"TopologyAwareHints": False}, "", "a", "1 2 3"),
        (33, {}, "", "a", "1 2"),
        (33, {"PreferSameTrafficDistribution": True}, "", "a", "1"),
        (34, {}, "", "a", "1"),
        (34, {"PreferSameTrafficDistribution": False}, "", "a", "1 2"),
    ],
)
def test_hints_are_read_as_by_each_release(
    version: int, gates: dict[str, bool], annotation: str, zone: str, expected: str
) -> None:
    port = replace(CLUSTER, topology_annotation=annotation)

    decision = decided(HINTED, port, OwnNode("a1", zone), Features((1, version), gates))

    assert shown(decision.cluster_ip) == expected


def test_releases_without_the_gate_do_not_fall_back_to_terminating_endpoints() -> None:
    assert shown(decided("1@a1 terminating", features=Features((1, 25))).cluster_ip) == "reject"
    assert shown(decided("1@a1 terminating", features=Features((1, 26))).cluster_ip) == "1"


def test_releases_without_the_gate_ignore_the_internal_policy() -> None:
    port = replace(CLUSTER, internal_local=True)

    assert shown(decided("1@a1 | 2@b1", port, features=Features((1, 21))).cluster_ip) == "1 2"
    assert shown(decided("1@a1 | 2@b1", port, features=Features((1, 22))).cluster_ip) == "1"


NODE_LEVEL = [Features((1, 26), {"NodeLevelTopology": True}), Features((1, 32), {"NodeLevelTopology": True})]
ON_TWO_NODES = "1@a1 node=a1 zone=a | 2@b1 node=b1 zone=b"


@pytest.mark.parametrize("features", NODE_LEVEL)
@pytest.mark.parametrize("place", [A1, OwnNode("a1")])
def test_node_level_hints_need_no_annotation_and_no_zone(features: Features, place: OwnNode) -> None:
    assert shown(decided(ON_TWO_NODES, place=place, features=features).cluster_ip) == "1"


@pytest.mark.parametrize(
    ("features", "annotation", "expected"),
    [
        (NODE_LEVEL[0], "Node", "1 2"),
        (NODE_LEVEL[0], "Auto", "1"),
        (NODE_LEVEL[1], "", "1"),
    ],
)
def test_other_hints_apply_without_a_local_endpoint(features: Features, annotation: str, expected: str) -> None:
    port = replace(CLUSTER, topology_annotation=annotation)
    assert shown(decided(ON_TWO_NODES, port, OwnNode("a2", "a"), features).cluster_ip) == expected


def test_node_hints_are_ignored_without_their_gate() -> None:
    features = Features((1, 32), {"NodeLevelTopology": False})
    assert shown(decided("1@a1 node=a1 | 2@b1 node=b1", features=features).cluster_ip) == "1 2"
