"""KEP-2433, EndpointSlice Controller: allocation of endpoints to zones across slices, ports and IP families."""

from __future__ import annotations

from conformance.features import DUAL_STACK_SLICES, MINIMAL_API_CALLS, TOPOLOGY_MODE
from conformance.kep_2433_topology_aware_hints.zones import (
    AUTO,
    MODE,
    WEB,
    create_auto,
    create_pods,
    own_zones,
    size_zones,
    unhinted,
)
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Port,
    Service,
    expect_eventually,
    expect_hint_counts,
    expect_hints,
    requirement,
)

PORTS = {"a": 8080, "b": 9090, "c": 9191}


@requirement(
    "KEP-2433/unready-endpoints-do-not-count",
    "An endpoint that is not ready has no hints, and the allocation of endpoints to zones does not count it until it "
    "is ready.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Assumptions (service capacity); released since 1.23",
    as_="released",
    kills={"counts-unready-endpoints"},
)
def test_unready_endpoints_do_not_count(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "abc")
    three_zones.create_pod("p4", "a1", labels=WEB, ready=False)
    service = create_auto(three_zones)
    expect_hints(three_zones, service, {**own_zones("abc"), "p4": None})

    three_zones.set_ready("p4", True)
    expect_hints(three_zones, service, unhinted("abca"))
    three_zones.set_ready("p4", False)
    expect_hints(three_zones, service, {**own_zones("abc"), "p4": None})


@requirement(
    "KEP-2433/endpoint-without-zone-ends-hints",
    "While an endpoint is on a node without a zone, its Service gets no hints.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Kube-Proxy (all endpoints for the Service have zone hints); released since 1.21",
    as_="released",
    kills={"guesses-unknown-zones"},
)
def test_endpoint_without_zone_ends_hints(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    three_zones.nodes.create("x1", "", ready=False)
    create_pods(three_zones, "abcabx")
    service = create_auto(three_zones)

    expect_hints(three_zones, service, dict.fromkeys(f"p{number}" for number in range(1, 7)))


@requirement(
    "KEP-2433/slices-are-shared-out-together",
    "The endpoints in all slices of a Service are allocated to zones together.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, EndpointSlice Controller (how many endpoints should be available for each zone)",
    kills={"shares-out-each-slice", "hints-one-slice-only"},
)
def test_endpoints_of_all_slices_are_shared_out_together(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    for zone, number in PORTS.items():
        name = f"p{'abc'.index(zone) + 1}"
        three_zones.create_pod(name, f"{zone}1", labels=WEB, container_ports=[("web", number, "TCP")])
    service = create_auto(three_zones, ports=[Port(80, target="web")])

    written = expect_hints(three_zones, service, own_zones("abc"))
    slices = len({name for each in written.values() for name in each.slices})
    three_zones.expect_equal(f"slices of service {service.name}, one a port number", expected=3, observed=slices)


@requirement(
    "KEP-2433/endpoints-count-once",
    "The allocation of endpoints to zones counts each endpoint once, however many ports its Service has.",
    level=MUST,
    features={TOPOLOGY_MODE},
    source="KEP-2433, EndpointSlice Controller (how many endpoints should be available for each zone)",
    kills={"counts-endpoints-by-port"},
)
def test_endpoint_of_several_ports_counts_once(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8)
    ports = [Port(80, name="web"), Port(443, name="tls")]
    service = create_auto(three_zones, ports=ports)
    create_pods(three_zones, "a")
    expect_hints(three_zones, service, unhinted("a"))

    create_pods(three_zones, "b", first=2)
    expect_hints(three_zones, service, own_zones("ab"))


@requirement(
    "KEP-2433/hints-need-no-new-slice",
    "When a Service gets or loses hints, the number of its slices does not increase.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={TOPOLOGY_MODE},
    source="KEP-2433, Goals (minimize the number of new EndpointSlices required)",
    kills={"a-slice-for-each-zone"},
)
def test_hints_need_no_new_slice(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aaaabb")
    service = three_zones.create_service(selector=WEB)
    expect_hints(three_zones, service, unhinted("aaaabb"))
    before = len(three_zones.slices(service))

    three_zones.patch_service(service, {"metadata": {"annotations": AUTO}})
    expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 2})
    _expect_slices(three_zones, service, most=before)
    three_zones.patch_service(service, {"metadata": {"annotations": {MODE: None}}})
    expect_hints(three_zones, service, unhinted("aaaabb"))
    _expect_slices(three_zones, service, most=before)


def _expect_slices(cluster: Cluster, service: Service, *, most: int) -> None:
    expect_eventually(
        cluster,
        f"slices of service {service.name} are {most} at most",
        lambda: len(cluster.slices(service)) <= most,
        expected=True,
        explain=lambda: f"there are {len(cluster.slices(service))}",
    )


@requirement(
    "KEP-2433/both-families-are-shared-out",
    "The endpoints of a dual-stack Service are allocated to zones separately for each IP family.",
    level=MUST,
    features={TOPOLOGY_MODE, DUAL_STACK_SLICES},
    source="KEP-2433, EndpointSlice Controller",
    kills={"hints-in-one-family"},
)
def test_endpoints_of_both_families_are_shared_out(three_zones: Cluster) -> None:
    size_zones(three_zones, a=8, b=8, c=8)
    create_pods(three_zones, "aaaabb")
    service = create_auto(three_zones, dual_stack=True)

    for family in ("IPv4", "IPv6"):
        expect_hint_counts(three_zones, service, {"a": 2, "b": 2, "c": 2}, family=family)
