"""Fields of an existing Service that determine its slices. Some tests check the controller only, some also packets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from conformance.features import DUAL_STACK_SLICES, ENDPOINT_SLICES, ROUTING
from conformance.live_changes.snapshots import NOBODY, UNUSED, by_all, expect_now, ports_of
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    ExpectedTraffic,
    Port,
    Service,
    endpoint,
    expect_conditions,
    expect_eventually,
    expect_hints,
    expect_no_loss,
    requirement,
)

WEB = {"app": "web"}
OTHER = {"app": "other"}
BY_NUMBER, BY_OTHER_NUMBER = Port(80, name="http", target=8080), Port(80, name="http", target=9090)
BY_NAME, MORE = Port(80, name="http", target="alt"), Port(81, name="more", target="web")


@requirement(
    "CHANGES/slices-follow-the-ports",
    "The ports of a Service's slices are updated when the number or name of a target port, or the protocol or name of "
    "a port, changes and changes back, and when ports are added and removed.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointPort.port (must be set to the service's target port), name, protocol",
    kills={"protocols-of-slices-are-frozen", "target-ports-are-frozen"},
)
def test_slices_follow_the_ports(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, ports=[BY_NUMBER])
    three_zones.create_pod("p1", "a1", labels=WEB, container_ports=[("web", 8080, "TCP"), ("alt", 9090, "TCP")])
    renamed, over_udp = Port(80, name="renamed", target=8080), Port(80, "UDP", "http", 8080)
    steps: Sequence[tuple[list[Port], list[tuple[object, ...]]]] = (
        ([BY_NUMBER], [("http", 8080, "TCP")]),
        ([BY_OTHER_NUMBER], [("http", 9090, "TCP")]),
        ([BY_NUMBER], [("http", 8080, "TCP")]),
        ([BY_NAME], [("http", 9090, "TCP")]),
        ([BY_NUMBER, MORE], [("http", 8080, "TCP"), ("more", 8080, "TCP")]),
        ([renamed], [("renamed", 8080, "TCP")]),
        ([over_udp], [("http", 8080, "UDP")]),
        ([BY_NUMBER], [("http", 8080, "TCP")]),
    )
    for ports, expected in steps:
        three_zones.patch_service(service, ports_of(ports))
        what = f"ports in the slices of service {service.name}"
        look = partial(_ports, three_zones, service)
        expect_eventually(three_zones, what, look, expected=expected, stays=True)


def _ports(cluster: Cluster, service: Service) -> list[tuple[object, ...]]:
    ports = [port for each in cluster.slices(service) if each.get("endpoints") for port in each["ports"]]
    return sorted({(port.get("name") or "", port["port"], port.get("protocol") or "TCP") for port in ports})


@requirement(
    "CHANGES/slices-follow-the-families",
    "A Service that becomes dual-stack gets slices for its second IP family too, and the endpoints in both families "
    "follow the pods.",
    level=MUST,
    features={ENDPOINT_SLICES, DUAL_STACK_SLICES},
    source="discovery/v1 EndpointSlice.addressType; core/v1 ServiceSpec.ipFamilies (adding a secondary IP family)",
    kills={"families-are-frozen", "second-family-is-frozen"},
)
def test_slices_follow_the_families(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, ipFamilies=["IPv4"])
    for name in ("goes", "changes"):
        three_zones.create_pod(name, "a1", labels=WEB)
    expect_hints(three_zones, service, {"goes": None, "changes": None})

    three_zones.patch_service(service, {"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}})
    for family in ("IPv4", "IPv6"):
        expect_hints(three_zones, service, {"goes": None, "changes": None}, family=family)

    three_zones.api.delete("pods", three_zones.namespace, "goes", grace_seconds=0)
    three_zones.create_pod("comes", "b1", labels=WEB)
    three_zones.set_ready("changes", False)
    for family in ("IPv4", "IPv6"):
        expect_hints(three_zones, service, {"changes": None, "comes": None}, family=family)
        conditions = {"changes": (False, False, False), "comes": (True, True, False)}
        expect_conditions(three_zones, service, conditions, family=family)


@requirement(
    "CHANGES/slices-go-with-their-family",
    "A dual-stack Service that becomes single-stack again has no endpoints of the removed family.",
    level=SHOULD,  # no KEP covers slices of a family that a Service no longer has
    features={ENDPOINT_SLICES, DUAL_STACK_SLICES},
    source="discovery/v1 EndpointSlice.addressType; core/v1 ServiceSpec.ipFamilies (removing a secondary IP family)",
    kills={"families-are-frozen"},
)
def test_slices_go_with_their_family(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, dual_stack=True)
    first, second = service.object["spec"]["ipFamilies"]
    three_zones.create_pod("p1", "a1", labels=WEB)
    for family in (first, second):
        expect_hints(three_zones, service, {"p1": None}, family=family)

    three_zones.patch_service(service, {"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": [first]}})
    expect_hints(three_zones, service, {}, family=second)
    expect_hints(three_zones, service, {"p1": None}, family=first)


@requirement(
    "CHANGES/slices-follow-the-selector",
    "The endpoints of a Service follow changes to its selector, and their readiness follows changes to "
    "publishNotReadyAddresses, in both directions.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector, publishNotReadyAddresses",
    kills={"selector-is-frozen", "publishing-is-frozen"},
)
def test_slices_follow_the_selector(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("web", "a1", labels=WEB)
    three_zones.create_pod("starting", "a1", labels=OTHER, ready=False)
    for selector, pod in ((WEB, "web"), (OTHER, "starting"), (WEB, "web"), (OTHER, "starting")):
        three_zones.patch_service(service, {"spec": {"selector": selector}})
        expect_hints(three_zones, service, {pod: None})
    for publishes in (False, True, False):
        three_zones.patch_service(service, {"spec": {"publishNotReadyAddresses": publishes}})
        expect_conditions(three_zones, service, {"starting": (publishes, False, False)})


@requirement(
    "CHANGES/target-port-reaches-the-packets",
    "Traffic to an existing Service goes to its current target port, on the pods that its selector matches and on the "
    "endpoints of another manager's slice while that slice exists; no connection is lost when such a slice is added or "
    "removed.",
    level=MUST,
    features={ROUTING},
    source="core/v1 ServicePort.targetPort; discovery/v1, label managed-by (different entities in one cluster)",
    kills={"target-ports-are-frozen", "freezes-slice-ports", "first-manager-alone"},
    fixes={"owner": "the sentence is about several managers"},
)
def test_target_port_reaches_the_packets(three_zones: Cluster) -> None:
    right, wrong = Port(80, name="web"), Port(80, name="web", target=UNUSED)
    moved, merged = (three_zones.create_service(selector=WEB, ports=[right]) for _ in range(2))
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    (c1,) = three_zones.run_servers(["c1"])
    own = by_all(a1, b1)
    expect_now(three_zones, ExpectedTraffic("target port", moved, own), ExpectedTraffic("one manager", merged, own))

    with expect_no_loss(three_zones, merged, from_=["a2"], allowed={a1, b1, c1}):
        three_zones.patch_service(moved, ports_of([wrong]))
        three_zones.publish(merged, [endpoint(c1)])
        together = ExpectedTraffic("two managers", merged, by_all(a1, b1, c1))
        expect_now(three_zones, ExpectedTraffic("unused target port", moved, NOBODY), together)
        three_zones.patch_service(moved, ports_of([right]))
        three_zones.unpublish(merged)
        expect_now(three_zones, ExpectedTraffic("target port", moved, own), ExpectedTraffic("one manager", merged, own))
