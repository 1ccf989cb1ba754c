"""Proxies that start when Services of every kind already exist, or after objects were deleted while no proxy ran."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from conformance.features import CLUSTER_IP, EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES, ZONE_HINTS
from conformance.live_changes.snapshots import NOBODY, as_now, by_all, expect_now, ports_of
from trafficdist import (
    MUST,
    NO_ANSWER,
    PROXY,
    TCP,
    UDP,
    AddressKind,
    Cluster,
    ExpectedTraffic,
    Port,
    Service,
    Traffic,
    endpoint,
    external_client,
    requirement,
    same_zone,
)


@requirement(
    "CHANGES/restarted-proxies-know-every-kind",
    "After a restart, proxies route traffic as before to existing Services with a node port, internalTrafficPolicy "
    "Local, externalTrafficPolicy Local, or hints.",
    level=MUST,
    features={EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES, ZONE_HINTS},
    source="core/v1 ServiceSpec.internalTrafficPolicy, externalTrafficPolicy, type (NodePort); KEP-4444, PreferClose",
    kills={"starts-without-external-policies", "starts-without-internal-policies"},
)
def test_restarted_proxies_know_every_kind(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    near, far = external_client("a1"), external_client("c1")
    questions = []
    for port in (TCP, UDP):
        plain = three_zones.create_service(ports=[port], type="NodePort")
        inside = three_zones.create_service(ports=[port], internal_traffic_policy="Local")
        outside = three_zones.create_service(ports=[port], type="NodePort", external_traffic_policy="Local")
        hinted = three_zones.create_service(ports=[port], traffic_distribution="PreferClose")
        for each in (plain, inside, outside):
            three_zones.publish(each, [endpoint(a1), endpoint(b1)])
        three_zones.publish(hinted, [same_zone(a1), same_zone(b1)])
        of = port.protocol
        questions += [
            ExpectedTraffic(f"node port, {of}", plain, by_all(a1, b1, of=[near, far]), to="node-port"),
            ExpectedTraffic(f"internal Local, {of}", inside, {"a1": {a1}, "c1": NO_ANSWER}),
            ExpectedTraffic(f"external Local, {of}", outside, {near: {a1}, far: NO_ANSWER}, to="node-port"),
            ExpectedTraffic(f"external Local, from inside, {of}", outside, by_all(a1, b1)),
            ExpectedTraffic(f"hints, {of}", hinted, {"a2": {a1}, "b2": {b1}, "c1": {a1, b1}}),
        ]
    expect_now(three_zones, *questions)

    three_zones.restart(PROXY)

    expect_now(three_zones, *questions)


@requirement(
    "CHANGES/restarted-proxies-know-what-went",
    "When Services, node ports, ports, slices, endpoints and hints are removed and policies are changed while no proxy "
    "runs on a node, a proxy that is then started on the node routes traffic according to the current objects and "
    "serves nothing that was removed.",
    level=MUST,
    features={CLUSTER_IP, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES, ZONE_HINTS},
    source="core/v1 Service; discovery/v1 EndpointSlice (must be joined to produce the full set of endpoints)",
    kills={"keeps-what-went-while-it-was-away"},
)
def test_restarted_proxies_know_what_went(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    both, near = by_all(a1, b1), by_all(a1)
    outside: Traffic = {external_client("a1"): {a1, b1}}
    nobody_outside: Traffic = dict.fromkeys(outside, NO_ANSWER)
    situations: list[tuple[str, Service, AddressKind, Traffic, Traffic]] = []
    changes: list[Callable[[], Any]] = []
    for protocol in ("TCP", "UDP"):
        stays, goes = Port(80, protocol, "stays"), Port(81, protocol, "goes")
        deleted, hidden = (three_zones.create_service(ports=[stays], type="NodePort") for _ in range(2))
        sliced, emptied, limited = (three_zones.create_service(ports=[stays]) for _ in range(3))
        several = three_zones.create_service(ports=[stays, goes])
        hinted = three_zones.create_service(ports=[stays], traffic_distribution="PreferClose")
        for each in (deleted, hidden, sliced, emptied, limited, several):
            three_zones.publish(each, [endpoint(a1)])
            three_zones.publish(each, [endpoint(b1)], name="goes")
        three_zones.publish(hinted, [same_zone(a1), same_zone(b1)])
        situations += [
            (f"deleted Service, {protocol}", deleted, "cluster-ip", both, NOBODY),
            (f"node port of a deleted Service, {protocol}", deleted, "node-port", outside, nobody_outside),
            (f"removed node port, {protocol}", as_now(hidden), "node-port", outside, nobody_outside),
            (f"Service without its node port, {protocol}", hidden, "cluster-ip", both, both),
            (f"removed port, {protocol}", as_now(several, goes), "cluster-ip", both, NOBODY),
            (f"port beside a removed one, {protocol}", as_now(several, stays), "cluster-ip", both, both),
            (f"deleted slice, {protocol}", sliced, "cluster-ip", both, near),
            (f"emptied slice, {protocol}", emptied, "cluster-ip", both, near),
            (f"policy that became Local, {protocol}", limited, "cluster-ip", both, {"a1": {a1}, "c1": NO_ANSWER}),
            (f"removed hints, {protocol}", hinted, "cluster-ip", {"a1": {a1}, "b1": {b1}}, by_all(a1, b1)),
        ]
        changes += [
            partial(three_zones.delete_service, deleted),
            partial(three_zones.patch_service, hidden, {"spec": {"type": "ClusterIP"}}),
            partial(three_zones.patch_service, several, ports_of([stays])),
            partial(three_zones.unpublish, sliced, "goes"),
            partial(three_zones.publish, emptied, [], name="goes"),
            partial(three_zones.patch_service, limited, {"spec": {"internalTrafficPolicy": "Local"}}),
            partial(three_zones.publish, hinted, [endpoint(a1), endpoint(b1)]),
        ]
    expect_now(
        three_zones, *(ExpectedTraffic(what, service, seen, to=kind) for what, service, kind, seen, _ in situations)
    )

    three_zones.stop(PROXY, on=["a1"])
    for change in changes:
        change()
    three_zones.restart(PROXY, on=["a1"])

    expect_now(
        three_zones, *(ExpectedTraffic(what, service, seen, to=kind) for what, service, kind, _, seen in situations)
    )
