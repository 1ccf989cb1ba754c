"""Explanations: the first safeguard that failed, and what each node does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from reference.client import Object
from reference.endpointslice.zones import ZoneShares
from reference.explanation import explain, overload_percent
from reference.features import Features

AUTO = {"service.kubernetes.io/topology-mode": "Auto"}
ZONE = "topology.kubernetes.io/zone"
ZONES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}


def _service(annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    port = {"port": 80, "protocol": "TCP", "targetPort": 8080}
    return {
        "metadata": {"name": "web", "namespace": "shop", "annotations": dict(annotations or {})},
        "spec": {
            "clusterIP": "10.96.0.9",
            "clusterIPs": ["10.96.0.9"],
            "ipFamilies": ["IPv4"],
            "ports": [port],
            **spec,
        },
    }


def _nodes(zones: Mapping[str, str] = ZONES) -> list[Object]:
    return [
        {
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone} if zone else {}},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for name, zone in zones.items()
    ]


def _slice(*endpoints: Object) -> Object:
    return {
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"port": 8080, "protocol": "TCP", "name": ""}],
        "endpoints": list(endpoints),
    }


def _endpoint(number: int, node: str, *, zones: Sequence[str] = (), nodes: Sequence[str] = ()) -> Object:
    hints = {"forZones": [{"name": each} for each in zones], "forNodes": [{"name": each} for each in nodes]}
    endpoint: Object = {"addresses": [f"10.244.0.{number}"], "nodeName": node, "conditions": {"ready": True}}
    if ZONES.get(node):
        endpoint["zone"] = ZONES[node]
    if zones or nodes:
        endpoint["hints"] = {kind: names for kind, names in hints.items() if names}
    return endpoint


def _safeguard(
    service: Object, endpoints: Sequence[Object], nodes: Sequence[Object] | None = None, **features: Any
) -> str:
    slices = [_slice(*endpoints)] if endpoints else []
    return explain(service, slices, _nodes() if nodes is None else nodes, Features(**features)).safeguard


def test_nothing_is_missing_where_every_zone_has_its_endpoint() -> None:
    endpoints = [_endpoint(1, "a1", zones="a"), _endpoint(2, "b1", zones="b"), _endpoint(3, "c1", zones="c")]
    assert _safeguard(_service(trafficDistribution="PreferClose"), endpoints) == ""


def test_topology_keys_decide_where_their_gate_is_on() -> None:
    service, slices = _service(topologyKeys=[ZONE]), [_slice(_endpoint(1, "a1"), _endpoint(2, "b1"))]
    explained = explain(service, slices, _nodes(), Features(gates={"ServiceTopology": True}))
    assert explained.safeguard == f"topology keys decide, and hints do not count: {ZONE}"
    assert [(each.node, each.tier, each.used) for each in explained.tiers] == [
        ("a1", "keys", 1), ("a2", "keys", 1), ("b1", "keys", 1), ("b2", "keys", 1), ("c1", "nowhere", 0),
        ("c2", "nowhere", 0),
    ]  # fmt: skip
    assert {each.tier for each in explain(service, slices, _nodes(), Features()).tiers} == {"anywhere"}


def test_zone_without_endpoint_is_named() -> None:
    endpoints = [_endpoint(1, "a1", zones="a"), _endpoint(2, "b1", zones="b")]
    assert _safeguard(_service(trafficDistribution="PreferClose"), endpoints).startswith("zone c has no endpoint")


def test_node_without_zone_label_is_named() -> None:
    endpoints = [_endpoint(1, "a1", zones="a"), _endpoint(2, "b1", zones="b"), _endpoint(3, "c1", zones="c")]
    nodes = _nodes({**ZONES, "b2": ""})
    assert _safeguard(_service(trafficDistribution="PreferClose"), endpoints, nodes).startswith("node b2 has no zone")


def test_endpoint_without_hints_is_named() -> None:
    endpoints = [_endpoint(1, "a1", zones="a"), _endpoint(2, "b1")]
    assert _safeguard(_service(trafficDistribution="PreferClose"), endpoints).startswith(
        "endpoint 10.244.0.2 has no hints"
    )


@pytest.mark.parametrize("said", [{"conditions": {"ready": None}}, {"conditions": {}}, {"conditions": None}, {}])
def test_endpoint_that_does_not_say_whether_it_is_ready_is_ready(said: Object) -> None:
    endpoints = [_endpoint(number, f"{zone}1", zones=zone) for number, zone in enumerate("abc", 1)]
    for each in endpoints:
        del each["conditions"]
    service = _service(trafficDistribution="PreferClose")
    assert _safeguard(service, [{**each, **said} for each in endpoints]) == ""


def test_endpoint_on_a_node_without_zone_is_named_with_its_node() -> None:
    nodes = _nodes({**ZONES, "d1": ""})
    said = _safeguard(_service(trafficDistribution="PreferClose"), [_endpoint(1, "d1")], nodes)
    assert said == "endpoint 10.244.0.1 has no zone: node d1 has no zone label"


def test_service_that_asks_for_nothing_is_told_so() -> None:
    assert "neither trafficDistribution nor" in _safeguard(_service(), [_endpoint(1, "a1")])


def test_value_that_the_release_does_not_know_is_named() -> None:
    said = _safeguard(_service(trafficDistribution="PreferSameNode"), [_endpoint(1, "a1")], version=(1, 32))
    assert "PreferSameNode means nothing" in said


def test_policy_local_comes_before_hints() -> None:
    service = _service(trafficDistribution="PreferClose", internalTrafficPolicy="Local")
    assert "Local" in _safeguard(service, [_endpoint(1, "a1", zones="a")])


def test_headless_service_has_no_proxy() -> None:
    assert "headless" in _safeguard(_service(clusterIP="None"), [_endpoint(1, "a1")])


def test_service_without_slices_is_told_so() -> None:
    assert "no EndpointSlice" in _safeguard(_service(trafficDistribution="PreferClose"), [])


@pytest.mark.parametrize(
    ("count", "said"),
    [(2, "2 endpoints are fewer than 3 zones"), (4, "4 endpoints over 3 zones would overload by 33 %")],
)
def test_refusal_of_the_heuristic_says_the_numbers(count: int, said: str) -> None:
    endpoints = [_endpoint(number, list(ZONES)[number]) for number in range(count)]
    assert _safeguard(_service(AUTO), endpoints, follows="released") == said


EXACTLY = "6 endpoints over 3 zones would overload by exactly 20 %"
ON_THE_EDGE = f"{EXACTLY}, which may be; kube-controller-manager's floating point takes it for more, and gives no hints"


@pytest.mark.parametrize(
    ("cores", "follows", "said"),
    [
        ((20, 16, 14), "kep", EXACTLY),
        ((20, 16, 14), "released", ON_THE_EDGE),
        ((2001, 1600, 1399), "released", "6 endpoints over 3 zones would overload by 20.1 %"),
    ],
)
def test_exactly_twenty_percent_is_told_from_more(cores: Sequence[int], follows: str, said: str) -> None:
    nodes = _nodes({f"{zone}1": zone for zone in "abc"})
    for node, count in zip(nodes, cores, strict=True):
        node["status"]["allocatable"] = {"cpu": str(count)}
    endpoints = [_endpoint(number, "a1") for number in range(6)]
    assert _safeguard(_service(AUTO), endpoints, nodes, follows=follows) == said


def test_heuristic_names_the_node_that_it_knows_too_little_of() -> None:
    nodes = _nodes()
    del nodes[3]["status"]["allocatable"]
    said = _safeguard(_service(AUTO), [_endpoint(1, "a1")], nodes, follows="released")
    assert said == "node b2 does not say how much CPU it has"


def test_each_node_has_its_tier() -> None:
    endpoints = [_endpoint(1, "a1", zones="a", nodes=["a1"]), _endpoint(2, "b1", zones="b", nodes=["b1"])]
    found = explain(_service(trafficDistribution="PreferSameNode"), [_slice(*endpoints)], _nodes(), Features())
    tiers = {each.node: (each.tier, each.used) for each in found.tiers}
    assert {node: tiers[node] for node in ("a1", "b1")} == {"a1": ("node", 1), "b1": ("node", 1)}
    assert {node: tiers[node] for node in ("a2", "b2")} == {"a2": ("zone", 1), "b2": ("zone", 1)}
    assert {node: tiers[node] for node in ("c1", "c2")} == {"c1": ("anywhere", 2), "c2": ("anywhere", 2)}


def test_nodes_do_nothing_for_a_slice_that_no_proxy_can_read() -> None:
    odd = {**_endpoint(1, "a1", zones="a"), "addresses": ["010.244.0.1"]}
    assert explain(_service(trafficDistribution="PreferClose"), [_slice(odd)], _nodes(), Features()).tiers == ()


@pytest.mark.parametrize(
    ("weights", "endpoints", "percent"),
    [({"a": 1, "b": 1, "c": 1}, 3, 0), ({"a": 1, "b": 1, "c": 1}, 4, 33), ({"a": 2, "b": 1, "c": 1}, 4, 0)],
)
def test_overload_is_that_of_the_best_distribution(weights: Mapping[str, int], endpoints: int, percent: int) -> None:
    assert int(overload_percent(ZoneShares(weights, sum(weights.values())), endpoints)) == percent
