"""Many changes, rapid changes, and deletions during a component's downtime: the final state takes effect."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from conformance.features import CLUSTER_IP, IPV6_SERVICES, NODE_PORT, OUTAGE, UDP_FLOWS, UDP_SERVICES
from conformance.live_changes.snapshots import NOBODY, UNUSED, as_now, by_all, expect_now, ports_of
from trafficdist import (
    API_SERVER,
    MUST,
    PROXY,
    SHOULD,
    UDP,
    ClientRef,
    Cluster,
    ExpectedTraffic,
    Pod,
    Port,
    Service,
    endpoint,
    expect_flow_answered,
    expect_flow_moves,
    expect_no_loss,
    external_client,
    placeless,
    requirement,
)

WEB, OTHER = Port(80, name="web"), Port(81, name="web")


@pytest.mark.takes(5)
@requirement(
    "CHANGES/a-thousandth-change",
    "The hundredth and the thousandth change to a Service and its slices take effect like the first one, and another "
    "Service loses no connection in the meantime.",
    level=MUST,
    features={CLUSTER_IP},
    source="core/v1 Service; discovery/v1 EndpointSlice (must be joined to produce the full set of endpoints)",
    kills={"freezes-after-fifty-changes", "freezes-after-nine-hundred-changes"},
    fixes={
        "address=node-port": "the node port does not depend on the number that changes",
        "slices": "the scenario patches one slice",
    },
)
def test_thousandth_change_takes_effect(three_zones: Cluster) -> None:
    service, beside = three_zones.create_service(ports=[WEB]), three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for each in (service, beside):
        three_zones.publish(each, [endpoint(a1)])
    first, moved = as_now(service), as_now(service, OTHER)
    expect_now(three_zones, ExpectedTraffic("port 80", first, by_all(a1)))

    with expect_no_loss(three_zones, beside, from_=["c1"], allowed={a1}):
        for changes, port, pod, now, before in ((101, OTHER, b1, moved, first), (897, WEB, a1, first, moved)):
            _flap(three_zones, service, pod, times=changes)
            three_zones.patch_service(service, ports_of([port]))
            three_zones.publish(service, [endpoint(pod)])
            expect_now(
                three_zones,
                ExpectedTraffic(f"after {changes} changes", now, by_all(pod)),
                ExpectedTraffic(f"before {changes} changes", before, NOBODY),
            )


def _flap(cluster: Cluster, service: Service, pod: Pod, *, times: int) -> None:
    """Annotate the Service and its slice alternately, and change the readiness of the endpoint every tenth time.

    Annotations do not change the rules of a proxy, so most of the changes are cheap.
    """
    family = service.object["spec"]["ipFamilies"][0]
    objects = (("endpointslices", f"{service.name}-slice-{family.lower()}"), ("services", service.name))
    for number in range(times):
        change: dict[str, object] = {"metadata": {"annotations": {"example.org/number": str(number)}}}
        if number % 10 == 0:
            change["endpoints"] = [endpoint(pod, ready=number % 20 == 0).manifest(family)]
        resource, name = objects[number % 2]
        cluster.api.patch(resource, cluster.namespace, name, change)


@requirement(
    "CHANGES/a-storm-of-changes",
    "After Services and slices are changed, deleted and recreated in quick succession, traffic follows the last "
    "version that was written.",
    level=MUST,
    features={CLUSTER_IP},
    source="core/v1 Service; discovery/v1 EndpointSlice (must be joined to produce the full set of endpoints)",
    kills={"first-of-a-burst-counts", "second-of-a-name-is-missed"},
    fixes={"address=node-port": "the node port does not depend on the number that changes"},
)
def test_storm_of_changes_ends_right(three_zones: Cluster) -> None:
    anew, turned, gone, emptied = (three_zones.create_service(ports=[WEB]) for _ in range(4))
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for each in (anew, turned, gone, emptied):
        three_zones.publish(each, [endpoint(a1)])
    first = as_now(turned)
    expect_now(three_zones, *(ExpectedTraffic(each.name, each, by_all(a1)) for each in (anew, turned, gone, emptied)))

    cluster_ip = anew.object["spec"]["clusterIP"]
    for _ in range(8):
        for port, pods in ((WEB, [a1]), (OTHER, [b1])):
            three_zones.delete_service(anew)
            three_zones.unpublish(anew)
            anew = three_zones.create_service(anew.name, ports=[WEB], clusterIP=cluster_ip)
            three_zones.publish(anew, [endpoint(each) for each in pods])
            three_zones.publish(turned, [endpoint(each) for each in pods])
            three_zones.patch_service(turned, ports_of([port]))
            three_zones.publish(emptied, [endpoint(each) for each in pods])
            three_zones.publish(gone, [endpoint(each) for each in pods])
    three_zones.publish(emptied, [])
    three_zones.delete_service(gone)
    expect_now(
        three_zones,
        ExpectedTraffic("recreated", anew, by_all(b1)),
        ExpectedTraffic("changed", as_now(turned, OTHER), by_all(b1)),
        ExpectedTraffic("before the change", first, NOBODY),
        ExpectedTraffic("deleted", gone, NOBODY),
        ExpectedTraffic("emptied", emptied, NOBODY),
    )


@requirement(
    "CHANGES/deletions-while-a-component-is-away",
    "A proxy stops serving a Service and a slice that were deleted while the proxy was down, or immediately after the "
    "API server restarted; a Service that was not deleted loses no connection.",
    level=MUST,
    features={OUTAGE},
    source="KEP-4444, Monitoring Requirements (successfully establishes routing rules based on those EndpointSlices)",
    kills={"keeps-what-went-while-it-was-away", "misses-deletions-at-a-return"},
)
def test_deletions_while_a_component_is_away(three_zones: Cluster) -> None:
    stays, *others = (three_zones.create_service() for _ in range(5))
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for each in (stays, *others):
        three_zones.publish(each, [placeless(a1)])
        three_zones.publish(each, [placeless(b1)], name="goes")
    expect_now(three_zones, *(ExpectedTraffic(each.name, each, by_all(a1, b1)) for each in (stays, *others)))

    with expect_no_loss(three_zones, stays, from_=["a1"], allowed={a1, b1}):
        three_zones.stop(PROXY, on=["a1"])
        _delete(three_zones, *others[:2])
        three_zones.restart(PROXY, on=["a1"])
        three_zones.stop(API_SERVER)
        three_zones.restart(API_SERVER)
        _delete(three_zones, *others[2:])
        expect_now(
            three_zones,
            *(ExpectedTraffic(f"Service {each.name} deleted", each, NOBODY) for each in others[::2]),
            *(ExpectedTraffic(f"slice of {each.name} deleted", each, by_all(a1)) for each in others[1::2]),
        )


@requirement(
    "CHANGES/udp-flow-of-an-endpoint-that-went-unseen",
    "A UDP client that keeps sending to a cluster IP or a node port from one source port reaches a remaining endpoint "
    "after its previous endpoint was removed, or got another target port, while the proxy of the client's node was "
    "down.",
    level=SHOULD,  # the KEPs cover only new queries, also for a proxy that keeps running
    must_if=UDP_FLOWS,
    features={CLUSTER_IP, NODE_PORT, UDP_SERVICES},
    source="KEP-3015, User Stories, DNS; Kubernetes, kube-proxy: stale UDP flows are removed",
    kills={"looks-for-no-older-flows", "looks-for-no-older-flows-over-ipv6"},
)
def test_udp_flow_of_an_endpoint_that_went_unseen_moves(three_zones: Cluster) -> None:
    both = three_zones.claims(IPV6_SERVICES)
    removed, renumbered = (three_zones.create_service(ports=[UDP], type="NodePort", dual_stack=both) for _ in range(2))
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(removed, [placeless(a1)])
    three_zones.publish(renumbered, [placeless(a1)], ports=[Port(80, "UDP", target=UNUSED)])
    asked: list[tuple[ClientRef, dict[str, Any]]] = [
        ("a2", {"to": "cluster-ip"}),
        (external_client("a2"), {"to": "node-port"}),
    ]
    if both:
        asked += [("a2", {"to": "cluster-ip", "family": family}) for family in ("IPv4", "IPv6")]
    with ExitStack() as flows:
        for client, at in asked:
            flows.enter_context(expect_flow_moves(three_zones, removed, client, before=a1, after=b1, **at))
            flows.enter_context(expect_flow_answered(three_zones, renumbered, client, {a1}, **at))
        three_zones.stop(PROXY, on=["a2"])
        three_zones.publish(removed, [placeless(b1)])
        three_zones.publish(renumbered, [placeless(a1)], ports=[UDP])
        three_zones.restart(PROXY, on=["a2"])


def _delete(cluster: Cluster, service: Service, other: Service) -> None:
    cluster.delete_service(service)
    cluster.unpublish(other, "goes")
