"""Addresses that a network gives to a new pod while the pod that had them is still terminating."""

from __future__ import annotations

from typing import Any

from conformance.features import CLUSTER_IP, INTERNAL_POLICY, UDP_SERVICES
from conformance.service_addresses.test_endpoints import RATES, TWICE
from trafficdist import (
    MUST,
    NO_ANSWER,
    Cluster,
    Endpoint,
    ExpectedTraffic,
    Pod,
    Port,
    Traffic,
    endpoint,
    expect_concurrent_traffic,
    expect_no_loss,
    expect_traffic,
    requirement,
)

TCP, UDP = Port(80, name="tcp"), Port(80, protocol="UDP", name="udp")
SOURCE = f"discovery/v1 EndpointConditions (ready, terminating); KEP-1669, Proposal; {TWICE}"

# If none of the endpoints with an address is terminating, no specification says which one a proxy uses.
STATES: dict[str, dict[str, Any]] = {
    "ends": {"serving": False},
    "ends and serves": {"serving": True},
    "ends, with serving unset": {"serving": None},
}


def _former(pod: Pod, **fields: Any) -> Endpoint:
    """Return the terminating endpoint of an earlier pod on node a1 that has the same address as `pod`."""
    known = {"name": "former", "uid": "11111111-1111-1111-1111-111111111111"}
    fields = {"serving": False, "extra": {"targetRef": {"kind": "Pod", **known}}, **fields}
    return endpoint(pod, ready=False, terminating=True, node="a1", zone="a", **fields)


@requirement(
    "SERVICE/address-of-a-ready-and-a-terminating-endpoint",
    "If a ready endpoint and a terminating endpoint have the same address, the proxy uses the ready one, in whatever "
    "order they are listed, in one slice or in two.",
    level=MUST,
    features={CLUSTER_IP, INTERNAL_POLICY, UDP_SERVICES},
    source=SOURCE,
    kills={
        "first-endpoint-of-an-address-counts",
        "last-endpoint-of-an-address-counts",
        "local-endpoint-of-an-address-counts",
    },
)
def test_ready_endpoint_is_used_beside_a_terminating_one_of_its_address(three_zones: Cluster) -> None:
    (b2,) = three_zones.run_servers(on=["b2"])
    questions: list[ExpectedTraffic] = []

    def ask(what: str, slices: list[list[Endpoint]], expected: Traffic, **fields: Any) -> None:
        service = three_zones.create_service(ports=[TCP, UDP], **fields)
        for number, endpoints in enumerate(slices):
            three_zones.publish(service, endpoints, name=f"part{number}")
        questions.extend(
            ExpectedTraffic(f"{what}, {port.protocol}", service, expected, port=port) for port in service.ports
        )

    everywhere: Traffic = {"a1": {b2}, "b2": {b2}, "c1": {b2}}
    for state, fields in STATES.items():
        both = [_former(b2, **fields), endpoint(b2)]
        ask(f"it {state} and is first", [both], everywhere)
        ask(f"it {state} and is last", [both[::-1]], everywhere)
    for order in (1, -1):
        both = [_former(b2), endpoint(b2)][::order]
        where = "older" if order == 1 else "newer"
        ask(f"it is in the {where} slice", [[each] for each in both], everywhere)
        local: Traffic = {"b2": {b2}, "a1": NO_ANSWER}
        ask(
            f"it is in the {where} slice, with Local", [[each] for each in both], local, internal_traffic_policy="Local"
        )
    expect_concurrent_traffic(three_zones, questions, rates=RATES)


@requirement(
    "CHANGES/an-address-goes-to-another-pod",
    "When a new pod gets the address of a terminating pod, the Service uses the new pod, and loses no connection when "
    "the former endpoint is removed.",
    level=MUST,
    features={CLUSTER_IP},
    source=SOURCE,
    kills={"first-endpoint-of-an-address-counts", "one-deletion-takes-an-address"},
)
def test_address_that_goes_to_another_pod(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    (b2,) = three_zones.run_servers(on=["b2"])
    answers: Traffic = {"a1": {b2}, "b2": {b2}, "c1": {b2}}

    three_zones.publish(service, [endpoint(b2, node="a1", zone="a")], name="former")
    expect_traffic(three_zones, service, answers, rates=RATES)
    three_zones.publish(service, [_former(b2)], name="former")
    expect_traffic(three_zones, service, dict.fromkeys(answers, NO_ANSWER), rates=RATES)
    three_zones.publish(service, [endpoint(b2)], name="new")
    expect_traffic(three_zones, service, answers, rates=RATES)
    with expect_no_loss(three_zones, service, from_=list(answers), allowed={b2}):
        three_zones.unpublish(service, "former")
        expect_traffic(three_zones, service, answers, rates=RATES)
