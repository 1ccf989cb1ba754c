"""Changes to the EndpointSlices of an existing Service: ports, addresses, nodes, zones, and the set of slices."""

from __future__ import annotations

import pytest

from conformance.features import (
    CLUSTER_IP,
    EVEN_SHARES,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    NODE_NAMES,
    NODE_PORT,
    SLICE_LABELS,
    ZONE_HINTS,
)
from conformance.live_changes.snapshots import NOBODY, UNUSED, by_all, expect_now
from trafficdist import (
    MUST,
    NO_ANSWER,
    SHOULD,
    TCP,
    Cluster,
    ExpectedTraffic,
    Hints,
    Pod,
    Port,
    Service,
    Traffic,
    endpoint,
    expect_even_shares,
    expect_no_loss,
    external_client,
    placeless,
    requirement,
    same_zone,
)

THEIRS = {"endpointslice.kubernetes.io/managed-by": "somebody-else.example.org"}
"""The managed-by label of slices that the tests write."""


@requirement(
    "CHANGES/ports-of-slices",
    "When the port number in a slice or the address of an endpoint changes, and changes back, connections go to the "
    "current port and address; when the slice's port name no longer matches the Service, the Service has no "
    "endpoints.",
    level=MUST,
    features={CLUSTER_IP},
    source="core/v1 ServicePort.name (must match the 'name' field in the EndpointPort); discovery/v1 EndpointPort.port",
    kills={"freezes-slice-ports", "slice-port-names-are-frozen", "addresses-of-endpoints-are-frozen"},
)
def test_ports_of_slices(three_zones: Cluster) -> None:
    web = Port(80, name="web")
    number, name, address, beside = (three_zones.create_service(ports=[web]) for _ in range(4))
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])

    def publish(at: Port, named: Port, pod: Pod) -> None:
        three_zones.publish(number, [endpoint(a1)], ports=[at])
        three_zones.publish(name, [endpoint(a1)], ports=[named])
        three_zones.publish(address, [endpoint(pod, node="a1", zone="a")])

    def expect(numbered: Traffic, named: Traffic, pod: Pod) -> None:
        expect_now(
            three_zones,
            ExpectedTraffic("port number", number, numbered),
            ExpectedTraffic("port name", name, named),
            ExpectedTraffic("address", address, by_all(pod)),
        )

    three_zones.publish(beside, [endpoint(a1)])
    publish(web, web, a1)
    expect(by_all(a1), by_all(a1), a1)
    with expect_no_loss(three_zones, beside, from_=["a2"], allowed={a1}):
        publish(Port(80, name="web", target=UNUSED), Port(80, name="other"), b1)
        expect(NOBODY, NOBODY, b1)
        publish(web, web, a1)
        expect(by_all(a1), by_all(a1), a1)


@requirement(
    "CHANGES/slices-of-a-service",
    "A Service uses the current endpoints of all its slices, including slices that are emptied and filled again and "
    "slices with another managed-by label; no connection is lost when a slice is replaced by an equal one.",
    level=MUST,
    features={CLUSTER_IP},
    source="discovery/v1 EndpointSlice (must be joined to produce the full set of endpoints)",
    kills={"emptied-slices-keep-their-pods", "one-deletion-takes-an-address", "first-manager-alone"},
)
def test_slices_of_a_live_service(three_zones: Cluster) -> None:
    emptied, replaced, managed = (three_zones.create_service() for _ in range(3))
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(emptied, [placeless(a1)], name="stays")
    three_zones.publish(emptied, [placeless(b1)], name="changes")
    three_zones.publish(replaced, [placeless(a1), placeless(b1)], name="first")
    three_zones.publish(managed, [placeless(a1)])

    def expect(of_emptied: set[Pod], of_managed: set[Pod]) -> None:
        expect_now(
            three_zones,
            ExpectedTraffic("a slice is emptied", emptied, by_all(*of_emptied)),
            ExpectedTraffic("a slice of another manager", managed, by_all(*of_managed)),
        )

    expect({a1, b1}, {a1})
    with expect_no_loss(three_zones, replaced, from_=["a2"], allowed={a1, b1}):
        three_zones.publish(emptied, [], name="changes")
        three_zones.publish(replaced, [placeless(a1), placeless(b1)], name="second")
        three_zones.publish(managed, [placeless(b1)], name="theirs", labels=THEIRS)
        expect({a1}, {a1, b1})

        three_zones.publish(emptied, [placeless(b1)], name="changes")
        three_zones.unpublish(replaced, "first")
        three_zones.unpublish(managed, "theirs")
        expect({a1, b1}, {a1})
        expect_now(three_zones, ExpectedTraffic("a slice has another name", replaced, by_all(a1, b1)))

    for name in ("stays", "changes"):
        three_zones.publish(emptied, [], name=name)
    expect_now(three_zones, ExpectedTraffic("all slices are emptied", emptied, NOBODY))


@pytest.mark.takes(6)
@requirement(
    "CHANGES/shares-stay-even",
    "After endpoints are added, removed and added again, every endpoint gets an equal share of a client's connections.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP},
    source="KEP-4444, Default (equal distribution of traffic across endpoints)",
    kills={"shares-pile-up"},
)
def test_shares_after_changes(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    for present in ({a1}, {a1, b1}, {a1}, {a1, c1}, {a1, b1, c1}):
        three_zones.publish(service, [endpoint(pod) for pod in (a1, b1, c1) if pod in present])
        expect_now(three_zones, ExpectedTraffic("endpoints come and go", service, by_all(*present)))

    expect_even_shares(three_zones, service, {"a1": {a1, b1, c1}})


@requirement(
    "CHANGES/local-endpoints-are-replaced",
    "With externalTrafficPolicy Local, an endpoint that replaces another one on its node gets all traffic that "
    "external clients send to that node, and its share of the in-cluster traffic.",
    level=MUST,
    features={EXTERNAL_POLICY, NODE_PORT},
    source="core/v1 ServiceSpec.externalTrafficPolicy (Local); discovery/v1 EndpointSlice",
    kills={"local-lists-of-one-length"},
)
def test_local_endpoints_are_replaced(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    first, second, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    for present in (first, second, first):
        three_zones.publish(service, [endpoint(present), endpoint(b1)])
        expect_now(
            three_zones,
            ExpectedTraffic("from outside", service, {external_client("a1"): {present}}, to="node-port"),
            ExpectedTraffic("from inside", service, by_all(present, b1)),
        )


@requirement(
    "CHANGES/a-slice-of-another-service",
    "When the service-name label of a slice changes or is removed, its endpoints leave the former Service and move to "
    "the Service that the label names, if any, and return when the label is restored.",
    level=SHOULD,  # the label states the Service of a slice; no specification covers a change of the label
    must_if=SLICE_LABELS,
    features={CLUSTER_IP},
    source="discovery/v1 EndpointSlice (slices whose service-name label contains the service's name)",
    kills={"relabelled-slices-stay", "relabelled-slices-are-of-both", "slices-without-service-stay"},
    fixes={"slices": "the scenario patches one slice"},
)
def test_slice_of_another_service(three_zones: Cluster) -> None:
    web = Port(80, name="web")  # both Services have the port name that the slice has
    giving, taking = three_zones.create_service(ports=[web]), three_zones.create_service(ports=[web])
    a1, b1, c1 = three_zones.run_servers(on=["a1", "b1", "c1"])
    three_zones.publish(giving, [endpoint(a1)])
    three_zones.publish(giving, [endpoint(b1)], name="changes")
    three_zones.publish(taking, [endpoint(c1)])

    own = (giving.name, {a1, b1}, {c1})
    for holder, given, taken in (own, (taking.name, {a1}, {b1, c1}), own, (None, {a1}, {c1}), own):
        _relabel(three_zones, giving, "kubernetes.io/service-name", holder)
        expect_now(
            three_zones,
            ExpectedTraffic("the former Service", giving, by_all(*given)),
            ExpectedTraffic("the other Service", taking, by_all(*taken)),
        )


def _relabel(cluster: Cluster, service: Service, label: str, value: str | None) -> None:
    """Set or remove a label of the slice whose name contains "changes"."""
    name = f"{service.name}-changes-{service.object['spec']['ipFamilies'][0].lower()}"
    cluster.api.patch("endpointslices", cluster.namespace, name, {"metadata": {"labels": {label: value}}})


@requirement(
    "CHANGES/a-slice-becomes-headless",
    "A Service loses the endpoints of a slice that gets the label service.kubernetes.io/headless, and gets them back "
    "when the label is removed.",
    level=SHOULD,  # controllers write the label, and no specification requires proxies to read it
    features={CLUSTER_IP},
    source="Kubernetes, Well-Known Labels: service.kubernetes.io/headless; e2e test of that label on an EndpointSlice",
    kills={"headless-slices-stay"},
    fixes={"slices": "the scenario patches one slice"},
)
def test_slice_becomes_headless(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    three_zones.publish(service, [endpoint(b1)], name="changes")
    for value, seen in ((None, {a1, b1}), ("", {a1}), (None, {a1, b1})):
        _relabel(three_zones, service, "service.kubernetes.io/headless", value)
        expect_now(three_zones, ExpectedTraffic(f"label {value!r}", service, by_all(*seen)))


@requirement(
    "CHANGES/an-address-in-two-slices",
    "When one of two slices with the same address is deleted, the address keeps the port number and hints from the "
    "other slice.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="discovery/v1 EndpointSlice (must be joined to produce the full set of endpoints)",
    kills={
        "drops-without-hinted-endpoint",
        "first-word-on-an-address-counts",
        "ignores-zone-hints",
        "one-deletion-takes-an-address",
    },
)
def test_address_in_two_slices(three_zones: Cluster) -> None:
    numbered = three_zones.create_service()
    hinted = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(numbered, [endpoint(a1)], name="right")
    three_zones.publish(hinted, [same_zone(a1)], name="own")
    three_zones.publish(hinted, [same_zone(b1)])

    def expect(told: str, near: Traffic) -> None:
        expect_now(
            three_zones,
            ExpectedTraffic(f"port number, {told}", numbered, by_all(a1)),
            ExpectedTraffic(f"hints, {told}", hinted, near),
        )

    expect("one slice", {"a2": {a1}, "b2": {b1}})
    three_zones.publish(numbered, [endpoint(a1)], name="wrong", ports=[Port(80, target=UNUSED)])
    three_zones.publish(hinted, [endpoint(a1, zones=["b"])], name="other")
    three_zones.settle()
    three_zones.unpublish(numbered, "wrong")
    three_zones.unpublish(hinted, "own")
    expect("the first is deleted", {"b2": {a1, b1}, "a2": {a1, b1}})

    three_zones.publish(hinted, [same_zone(a1)], name="own")
    three_zones.settle()
    three_zones.unpublish(hinted, "other")
    expect("the second is deleted", {"a2": {a1}, "b2": {b1}})


@requirement(
    "CHANGES/empty-hints-and-another-zone",
    "Hints that become an empty object count as no hints, and a change to only an endpoint's zone does not change "
    "where traffic goes.",
    level=MUST,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Kube-Proxy; discovery/v1 EndpointHints.forZones (the zones this endpoint should be consumed by)",
    kills={"empty-hints-change-nothing", "ignores-zone-hints", "new-zone-becomes-the-hint"},
)
def test_empty_hints_and_another_zone(three_zones: Cluster) -> None:
    emptied = three_zones.create_service(traffic_distribution="PreferClose")
    moved = three_zones.create_service(traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])

    def expect(hints: Hints | None, zones: tuple[str, str], near: Traffic) -> None:
        own = [same_zone(pod) if hints is None else endpoint(pod, hints=hints) for pod in (a1, b1)]
        three_zones.publish(emptied, own)
        three_zones.publish(moved, [same_zone(pod, zone=zone) for pod, zone in zip((a1, b1), zones, strict=True)])
        expect_now(
            three_zones,
            ExpectedTraffic(f"hints {hints}", emptied, near),
            ExpectedTraffic(f"zones {zones}", moved, {"a2": {a1}, "b2": {b1}}),
        )

    expect(None, ("a", "b"), {"a2": {a1}, "b2": {b1}})
    with expect_no_loss(three_zones, moved, from_=["a2"], allowed={a1}):
        expect(Hints(), ("b", "a"), {"a2": {a1, b1}, "b2": {a1, b1}})
        expect(None, ("a", "b"), {"a2": {a1}, "b2": {b1}})


@requirement(
    "CHANGES/node-name-of-an-endpoint",
    "With internalTrafficPolicy Local, an endpoint counts as local to a node exactly while its slice names that node "
    "as the endpoint's nodeName.",
    level=SHOULD,  # nodeName "can be used to determine endpoints local to a Node"
    must_if=NODE_NAMES,
    features={CLUSTER_IP, INTERNAL_POLICY},
    source="discovery/v1 Endpoint.nodeName",
    kills={"endpoints-without-node-are-local", "ignores-internal-local", "node-names-are-frozen"},
    fixes={"protocol": "the slice has a TCP port"},
)
def test_node_name_of_an_endpoint(three_zones: Cluster) -> None:
    service = three_zones.create_service(internal_traffic_policy="Local")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for node, seen in (("a1", {a1}), (None, NO_ANSWER), ("a1", {a1})):
        three_zones.publish(service, [endpoint(a1, node=node), endpoint(b1)], ports=[TCP])
        expect_now(three_zones, ExpectedTraffic(f"nodeName {node}", service, {"a1": seen, "b1": {b1}}))


@requirement(
    "CHANGES/local-endpoints-are-those-of-the-node",
    "With both traffic policies set to Local, once the nodeName of an endpoint is corrected, the endpoint serves "
    "in-cluster clients on its node and external clients that connect to its node, and no others.",
    level=MUST,
    features={CLUSTER_IP, EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT},
    source="core/v1 ServiceSpec.internalTrafficPolicy, externalTrafficPolicy; discovery/v1 Endpoint.nodeName",
    kills={"node-names-are-frozen"},
)
def test_local_endpoints_are_those_of_the_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(
        type="NodePort", internal_traffic_policy="Local", external_traffic_policy="Local"
    )
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    right: Traffic = {"a1": {a1}, "a2": NO_ANSWER, "b1": {b1}, "c1": NO_ANSWER}
    beside: Traffic = {"b1": {b1}}
    # While a slice has the wrong node, a proxy may know the right one from other objects, so the test uses other nodes.
    for node, seen in (("a2", beside), ("a1", right), ("c1", beside), ("a1", right)):
        three_zones.publish(service, [endpoint(a1, node=node), endpoint(b1)])
        outside: Traffic = {external_client(str(client)): pods for client, pods in seen.items()}
        expect_now(
            three_zones,
            ExpectedTraffic(f"inside, nodeName {node}", service, seen),
            ExpectedTraffic(f"outside, nodeName {node}", service, outside, to="node-port"),
        )
