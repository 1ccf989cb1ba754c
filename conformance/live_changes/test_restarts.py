"""Proxies that start when Services of every kind already exist."""

from __future__ import annotations

from conformance.features import EXTERNAL_POLICY, INTERNAL_POLICY, NODE_PORT, UDP_SERVICES, ZONE_HINTS
from conformance.live_changes.snapshots import by_all, expect_now
from trafficdist import (
    MUST,
    NO_ANSWER,
    PROXY,
    TCP,
    UDP,
    Cluster,
    Question,
    endpoint,
    external_client,
    requirement,
    same_zone,
)


@requirement(
    "CHANGES/restarted-proxies-know-every-kind",
    "Proxies that start after the Services were created (with a node port, internalTrafficPolicy Local, "
    "externalTrafficPolicy Local, or hints) route each Service as before.",
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
            Question(f"node port, {of}", plain, by_all(a1, b1, of=[near, far]), to="node-port"),
            Question(f"internal Local, {of}", inside, {"a1": {a1}, "c1": NO_ANSWER}),
            Question(f"external Local, {of}", outside, {near: {a1}, far: NO_ANSWER}, to="node-port"),
            Question(f"external Local, from inside, {of}", outside, by_all(a1, b1)),
            Question(f"hints, {of}", hinted, {"a2": {a1}, "b2": {b1}, "c1": {a1, b1}}),
        ]
    expect_now(three_zones, *questions)

    three_zones.restart(PROXY)

    expect_now(three_zones, *questions)
