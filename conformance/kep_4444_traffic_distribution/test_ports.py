"""Services with several ports, and endpoints at different ports of one pod: each port follows its own hints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.features import CLUSTER_IP, EVEN_SHARES, UDP_SERVICES, ZONE_HINTS
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    ExpectedTraffic,
    Pod,
    Port,
    Rates,
    Traffic,
    at_port,
    endpoint,
    expect_concurrent_traffic,
    manifests,
    requirement,
    same_zone,
)

FEW = Rates(leak=0.1)  # for the check after a few endpoints have changed
NUMBERS = range(9000, 9100)
FOR_A, FOR_B = NUMBERS[-10:], NUMBERS[-14:-10]
"""Twelve pods listen on each target port. Endpoints at ten ports are hinted for zone a, those at four for zone b."""


@requirement(
    "KEP-4444/each-port-follows-its-own-hints",
    "When the slices of two ports have the same pods with different hints, each port follows the hints of its own "
    "slice, and a port without hints uses all endpoints.",
    level=MUST,
    features={CLUSTER_IP, UDP_SERVICES, ZONE_HINTS},
    source="KEP-4444, PreferClose; discovery/v1 EndpointSlice.ports; KEP-2433, Kube-Proxy",
    kills={"hints-of-the-first-port", "ignores-zone-hints"},
)
def test_each_port_follows_the_hints_of_its_own_slice(three_zones: Cluster) -> None:
    web, admin, dns = Port(80, name="web"), Port(81, name="admin"), Port(53, "UDP", "dns")
    service = three_zones.create_service(ports=[web, admin, dns], traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    slices = {
        web: [same_zone(a1), same_zone(b1)],
        admin: [endpoint(a1, zones=["b"]), endpoint(b1, zones=["a"])],
        dns: [endpoint(a1), endpoint(b1)],
    }
    for port, endpoints in slices.items():
        three_zones.publish(service, endpoints, name=port.name, ports=[port])

    expected: Mapping[Port, Traffic] = {
        web: {"a2": {a1}, "b2": {b1}},
        admin: {"a2": {b1}, "b2": {a1}},
        dns: {"a2": {a1, b1}, "b2": {a1, b1}},
    }
    questions = [ExpectedTraffic(port.name, service, traffic, port=port) for port, traffic in expected.items()]
    expect_concurrent_traffic(three_zones, questions)


def _zone_of(number: int) -> str:
    return "a" if number in FOR_A else "b" if number in FOR_B else "c"


def _slice(pods: Sequence[Pod], number: int, zone: str) -> dict[str, Any]:
    endpoints = [endpoint(each, zones=[zone]) for each in pods]
    return manifests.endpoint_slice(f"many-{number}", "many", endpoints, ports=[Port(target=number)])


def _at(pods: Sequence[Pod], numbers: Sequence[int]) -> set[Pod]:
    return {at_port(pod, number) for pod in pods for number in numbers}


@requirement(
    "KEP-4444/every-hinted-endpoint-of-many-is-used",
    "Clients in a zone use exactly those of a Service's 1,200 endpoints that are hinted for the zone, 120 in one zone "
    "and 48 in another; when the hints of a few endpoints change, traffic follows the new hints.",
    level=SHOULD,
    must_if=EVEN_SHARES,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-4444, PreferClose; Default (equal distribution)",
    kills={
        "deaf-to-changes-among-a-thousand",
        "first-hundred-of-those-hinted",
        "hints-of-the-first-hundred",
        "ignores-zone-hints",
    },
    fixes={"ports": "the scenario writes slices of its own", "family": "the scenario writes IPv4 slices"},
)
def test_every_hinted_endpoint_of_many_is_used(three_zones: Cluster) -> None:
    named = [(f"p{number}", number, "TCP") for number in NUMBERS]
    pods = three_zones.run_servers(["a1", "b1", "c1"] * 4, container_ports=named, tells_port=True)
    for number in NUMBERS:  # create slices before their Service: a proxy then reads many slices at once
        written = _slice(pods, number, _zone_of(number))
        three_zones.api.create("endpointslices", three_zones.namespace, written)
    service = three_zones.create_service("many", ports=[Port(80, target="web")], traffic_distribution="PreferClose")

    near: Traffic = {"a2": _at(pods, FOR_A), "b1": _at(pods, FOR_B)}
    expect_concurrent_traffic(three_zones, [ExpectedTraffic("1,200 endpoints", service, near)])

    for number, zone in ((NUMBERS[0], "b"), (FOR_B[0], "c")):
        three_zones.api.replace("endpointslices", three_zones.namespace, _slice(pods, number, zone))
    changed: Traffic = {"b1": _at(pods, [NUMBERS[0], *FOR_B[1:]])}
    expect_concurrent_traffic(three_zones, [ExpectedTraffic("a few of 1,200 changed", service, changed)], rates=FEW)
