"""Properties of every plan, for any Service, pods and slices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reference.client import Object
from reference.endpointslice.endpoints import EndpointCache, address_types, desired_endpoints, identity, port_key
from reference.endpointslice.hints import endpoint_hints, mechanism
from reference.features import Features
from tests.reference.endpointslice.objects import (
    NODES,
    apply,
    endpoints,
    make_node,
    make_pod,
    make_service,
    plan,
    slices_for,
)

VALUES = (None, "PreferClose", "PreferSameZone", "PreferSameNode", "unknown")
PORTS = (
    [],
    [{"port": 80, "targetPort": 8080}],
    [{"name": "a", "port": 80, "targetPort": "web"}, {"name": "b", "port": 81, "protocol": "UDP"}],
)


@dataclass(frozen=True)
class GeneratedCluster:
    service: Object
    pods: list[Object]
    max_endpoints: int


SERVICES = tuple(
    make_service(
        ipFamilies=families,
        clusterIP=cluster_ip,
        publishNotReadyAddresses=publish,
        ports=ports,
        labels=labels,
        **({} if value is None else {"trafficDistribution": value}),
    )
    for families, cluster_ip, publish, ports, labels, value in product(
        (["IPv4"], ["IPv6"], ["IPv4", "IPv6"]), ("10.96.0.1", "None"), (False, True), PORTS, ({}, {"x": "1"}), VALUES
    )
)
KINDS = tuple(
    product(
        ("a1", "b1", "gone"),
        ((), ("10.244.1.1",), ("10.244.2.{}",), ("fd00::{}",), ("10.244.2.{}", "fd00::{}")),
        (True, False),
        (True, False),
        (8080, 8081, None),
    )
)


def make_kind(number: int, kind: Any) -> Object:
    node, ips, ready, terminating, port = kind
    ports = [{"name": "web", "containerPort": port}] if port else []
    addresses = [ip.format(number) for ip in ips]
    return make_pod(f"p{number:02}", node, ips=addresses, ready=ready, terminating=terminating, ports=ports)


pod_lists = st.dictionaries(st.integers(1, 30), st.sampled_from(KINDS), max_size=12).map(
    lambda kinds: [make_kind(number, kind) for number, kind in kinds.items()]
)
histories = st.integers(1, 4).flatmap(
    lambda most: st.lists(
        st.builds(GeneratedCluster, st.sampled_from(SERVICES), pod_lists, st.just(most)), min_size=1, max_size=3
    )
)


def live_through(worlds: list[GeneratedCluster]) -> list[Object]:
    existing: list[Object] = []
    for world in worlds:
        existing = sync(world, existing)
    return existing


def sync(world: GeneratedCluster, existing: list[Object]) -> list[Object]:
    return slices_for(world.service, world.pods, existing, max_endpoints=world.max_endpoints)


def wanted(world: GeneratedCluster) -> Counter[str]:
    """Return all desired endpoints with family, port set and hints."""
    decided_by = mechanism(world.service, Features())
    found: Counter[str] = Counter()
    for family in address_types(world.service):
        for key, group in desired_endpoints(world.service, world.pods, NODES, family).groups.items():
            found.update(row(family, key, each, endpoint_hints(each, decided_by)) for each in group.endpoints.values())
    return found


def held(slices: list[Object]) -> Counter[str]:
    return Counter(
        row(each["addressType"], port_key(each["ports"]), endpoint, endpoint.get("hints"))
        for each in slices
        for endpoint in each["endpoints"]
    )


def row(family: str, ports: object, endpoint: Object, hints: Object | None) -> str:
    said = sorted((key, value) for key, value in endpoint.items() if key != "hints")
    return repr((family, ports, said, hints))


@given(histories)
def test_applied_plan_leaves_exactly_the_desired_endpoints_with_their_hints(worlds: list[GeneratedCluster]) -> None:
    assert held(live_through(worlds)) == wanted(worlds[-1])


@given(histories)
def test_planning_again_writes_nothing(worlds: list[GeneratedCluster]) -> None:
    existing = live_through(worlds)
    assert plan(worlds[-1].service, worlds[-1].pods, existing, max_endpoints=worlds[-1].max_endpoints).is_empty


@given(histories)
def test_no_slice_holds_more_than_the_maximum(worlds: list[GeneratedCluster]) -> None:
    assert all(len(each["endpoints"]) <= worlds[-1].max_endpoints for each in live_through(worlds))


@given(histories)
def test_every_family_has_a_slice_and_no_endpoint_is_in_two(worlds: list[GeneratedCluster]) -> None:
    existing = live_through(worlds)
    assert {each["addressType"] for each in existing} == set(address_types(worlds[-1].service))
    found = Counter((each["addressType"], identity(endpoint)) for each in existing for endpoint in each["endpoints"])
    assert not found or max(found.values()) == 1


@given(histories, st.randoms(use_true_random=False))
def test_order_of_pods_and_slices_does_not_matter(worlds: list[GeneratedCluster], random: Any) -> None:
    last, existing = worlds[-1], live_through(worlds[:-1])
    pods_otherwise = random.sample(last.pods, len(last.pods))
    slices_otherwise = random.sample(existing, len(existing))
    other = plan(last.service, pods_otherwise, slices_otherwise, max_endpoints=last.max_endpoints)
    this = plan(last.service, last.pods, existing, max_endpoints=last.max_endpoints)
    assert (other.create, other.update, other.delete) == (this.create, this.update, this.delete)


@given(histories)
def test_hints_depend_only_on_the_endpoint_and_the_service(worlds: list[GeneratedCluster]) -> None:
    decided_by = mechanism(worlds[-1].service, Features())
    for endpoint in endpoints(live_through(worlds)):
        bare = {key: value for key, value in endpoint.items() if key != "hints"}
        assert endpoint.get("hints") == endpoint_hints(bare, decided_by)


@given(histories)
def test_node_hints_accompany_zone_hints_on_ready_endpoints_only(worlds: list[GeneratedCluster]) -> None:
    for endpoint in endpoints(live_through(worlds)):
        hints = endpoint.get("hints", {})
        assert not hints or endpoint["conditions"]["ready"]
        assert "forNodes" not in hints or "forZones" in hints or "zone" not in endpoint


@given(pod_lists, st.data())
def test_one_changed_pod_costs_one_write_in_each_family(pods_before: list[Object], data: st.DataObject) -> None:
    service = make_service(trafficDistribution="PreferSameZone")
    alive = [pod for pod in pods_before if pod["spec"]["nodeName"] in NODES]
    existing = sync(GeneratedCluster(service, alive, 4), [])
    if not alive:
        return
    number = data.draw(st.integers(0, len(alive) - 1))
    changed = {**alive[number], "metadata": {**alive[number]["metadata"], "deletionTimestamp": "now"}}
    planned = plan(service, [*alive[:number], changed, *alive[number + 1 :]], existing, max_endpoints=4)
    assert len(planned.create) + len(planned.update) + len(planned.delete) <= 1


@given(histories)
def test_plan_is_the_same_without_the_memo(worlds: list[GeneratedCluster]) -> None:
    existing: list[Object] = []
    memo = EndpointCache()
    for world in chain.from_iterable((each, each) for each in worlds):
        options: Any = {"max_endpoints": world.max_endpoints}
        planned = plan(world.service, world.pods, existing, memo=memo, **options)
        assert planned == plan(world.service, world.pods, existing, **options)
        existing = apply(planned, existing)


@given(pod_lists, st.permutations(["a", "b", ""]))
def test_memo_detects_new_zones_and_pod_versions(pods: list[Object], zones: list[str]) -> None:
    memo, service = EndpointCache(), make_service(trafficDistribution="PreferSameNode")
    for zone in zones:
        nodes = {"a1": make_node("a1", zone)}
        pods = [{**pod, "metadata": {**pod["metadata"], "uid": zone}} for pod in pods[:-1]] + pods[-1:]
        assert plan(service, pods, nodes=nodes, memo=memo) == plan(service, pods, nodes=nodes)
