"""Fields of an existing Service that decide which clients its load balancer addresses answer on the nodes."""

from __future__ import annotations

from ipaddress import ip_network

from conformance.features import IP_MODE, IPV6_SERVICES, LOAD_BALANCER, SOURCE_RANGES
from conformance.live_changes.snapshots import by_all, expect_now
from trafficdist import (
    NO_ANSWER,
    SHOULD,
    Client,
    ClientRef,
    Cluster,
    Expected,
    ExpectedTraffic,
    Probing,
    Traffic,
    endpoint,
    expect_no_loss,
    external_client,
    pod_client,
    requirement,
)


@requirement(
    "CHANGES/ip-mode-of-a-service",
    "While the ipMode of a load balancer address is Proxy, nodes leave in-cluster traffic to the load balancer, and "
    "while it is VIP, nodes handle that traffic; no connection to another Service with ipMode VIP is lost.",
    level=SHOULD,  # the KEP is about kube-proxy; core/v1 says that implementations may use the field
    must_if=IP_MODE,
    features={LOAD_BALANCER},
    source="KEP-1860, Proposal (Proxy would be used in order to disable the shortcut)",
    since="1.30",
    kills={"ip-mode-is-frozen", "ip-mode-of-all-addresses", "ignores-ip-mode"},
)
def test_ip_mode_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="LoadBalancer")
    beside = three_zones.create_service(type="LoadBalancer")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    for each in (service, beside):
        three_zones.publish(each, [endpoint(a1), endpoint(b1)])
    everybody = by_all(a1, b1)

    def expect_modes(**modes: str) -> None:
        """Set the mode of each node's addresses, and expect answers only for clients on nodes with mode VIP."""
        ingress = [
            {"ip": ip, "ipMode": mode}
            for node, mode in modes.items()
            for ip in service.virtual["load-balancer", node].values()
        ]
        status = {"status": {"loadBalancer": {"ingress": ingress}}}
        three_zones.api.patch("services", three_zones.namespace, service.name, status, subresource="status")
        seen: Traffic = {node: everybody[node] if mode == "VIP" else NO_ANSWER for node, mode in modes.items()}
        expect_now(three_zones, ExpectedTraffic(f"ipMode {modes}", service, seen, to="load-balancer"))

    expect_modes(a1="VIP", c1="VIP")
    with expect_no_loss(three_zones, beside, from_=["a2", "c1"], allowed={a1, b1}, to="load-balancer"):
        expect_modes(a1="Proxy", c1="VIP")
        expect_modes(a1="Proxy", c1="Proxy")
        expect_modes(a1="VIP", c1="Proxy")
        expect_modes(a1="VIP", c1="VIP")


@requirement(
    "CHANGES/source-ranges-of-a-service",
    "Once loadBalancerSourceRanges are set or changed, a load balancer address answers only clients in these ranges, "
    "and once they are removed, it answers all clients; no connection to the cluster IP is lost.",
    level=SHOULD,  # "if specified and supported by the platform", and about the provider's load balancer
    must_if=SOURCE_RANGES,
    features={LOAD_BALANCER},
    source="core/v1 ServiceSpec.loadBalancerSourceRanges; e2e test of load balancer source ranges",
    kills={"source-ranges-are-frozen", "source-ranges-outlive-their-removal", "source-ranges-of-whole-octets"},
)
def test_source_ranges_of_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="LoadBalancer", ipFamilies=["IPv4"])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    outside, inside = external_client("c1"), pod_client("a2")
    from_outside, from_inside = (_address_of(three_zones, each, "IPv4") for each in (outside, inside))
    only_outside, only_inside = f"{from_outside}/32", f"{from_inside}/32"
    everybody = by_all(a1, b1, of=[outside, inside])
    nobody_else: dict[ClientRef, Expected] = dict.fromkeys(everybody, NO_ANSWER)
    expect_now(three_zones, ExpectedTraffic("no ranges", service, everybody, to="load-balancer"))

    with expect_no_loss(three_zones, service, from_=["a2", "c1"], allowed={a1, b1}):
        for ranges, clients in (
            (["192.0.2.0/24", only_outside], [outside]),
            ([only_inside], [inside]),
            (["0.0.0.0/0"], [outside, inside]),
            (_all_except(from_inside), [outside]),
            (_all_except(from_outside), [inside]),
            ([only_outside], [outside]),
            (None, [outside, inside]),
        ):
            three_zones.patch_service(service, {"spec": {"loadBalancerSourceRanges": ranges}})
            seen: Traffic = {**nobody_else, **by_all(a1, b1, of=clients)}
            expect_now(three_zones, ExpectedTraffic(_shown(ranges), service, seen, to="load-balancer"))


def _address_of(cluster: Cluster, client: Client, family: str) -> str:
    return cluster.backend.part(Probing, client=client).client_address(client, family)


def _all_except(address: str) -> list[str]:
    """Return the ranges that contain all addresses of a family except this one: one range of each prefix length."""
    alone = ip_network(address)
    others = (alone.supernet(new_prefix=length - 1) for length in range(1, alone.max_prefixlen + 1))
    return [str(next(half for half in each.subnets() if alone[0] not in half)) for each in others]


def _shown(ranges: list[str] | None) -> str:
    """Return text about the ranges, for messages. A long list is the output of `_all_except`."""
    return f"ranges {ranges}" if len(ranges or ()) < 4 else f"{len(ranges or ())} ranges, which exclude one address"


@requirement(
    "CHANGES/source-ranges-of-both-families",
    "The load balancer addresses of a dual-stack Service answer, in each IP family, only clients in "
    "loadBalancerSourceRanges of that family: a range of one family allows no client of the other.",
    level=SHOULD,  # the field is optional (see above), and no specification covers ranges of only one family
    must_if=SOURCE_RANGES,
    features={LOAD_BALANCER, IPV6_SERVICES},
    source="core/v1 ServiceSpec.loadBalancerSourceRanges (restricted to the specified client IPs)",
    kills={"source-ranges-of-ipv4-alone"},
)
def test_source_ranges_of_both_families(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="LoadBalancer", dual_stack=True)
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    outside, inside = external_client("c1"), pod_client("a2")
    outside_v4 = f"{_address_of(three_zones, outside, 'IPv4')}/32"
    from_inside = _address_of(three_zones, inside, "IPv6")
    inside_v6 = f"{from_inside}/128"

    def expect(ranges: list[str] | None, **clients: list[Client]) -> None:
        three_zones.patch_service(service, {"spec": {"loadBalancerSourceRanges": ranges}})
        nobody: Traffic = {outside: NO_ANSWER, inside: NO_ANSWER}
        expect_now(
            three_zones,
            *(
                ExpectedTraffic(
                    f"{family}, {_shown(ranges)}",
                    service,
                    {**nobody, **by_all(a1, b1, of=of)},
                    to="load-balancer",
                    family=family,
                )
                for family, of in clients.items()
            ),
        )

    expect(None, IPv4=[outside, inside], IPv6=[outside, inside])
    expect([outside_v4, inside_v6], IPv4=[outside], IPv6=[inside])
    expect(["203.0.113.0/24", "::/0"], IPv4=[], IPv6=[outside, inside])
    expect([outside_v4, *_all_except(from_inside)], IPv4=[outside], IPv6=[outside])
