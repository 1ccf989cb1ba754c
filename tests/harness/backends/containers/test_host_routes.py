"""Tests the routes from the external client to a cluster whose nodes are containers."""

from __future__ import annotations

from pathlib import Path

from harness.backends.containers.netns_lookup import plans, route
from harness.netns import kernel_state, rtnetlink, sysctls
from harness.netns.fabric import NetworkPeer
from harness.netns.namespace import Namespace


def test_virtual_addresses_and_pods_are_routed_to_their_node(netns_allowed: None) -> None:
    with Namespace.create() as place, Namespace.create() as bridge:
        ends = [rtnetlink.veth("eth0", 2, bridge, peer_name="port", peer_index=3), *rtnetlink.address(2, "172.18.0.9")]
        rtnetlink.execute(place, ends)
        rtnetlink.execute(bridge, [rtnetlink.up(3)])
        nodes = {
            "a1": NetworkPeer("a1", place, {"IPv4": "172.18.0.3"}),
            "a2": NetworkPeer("a2", place, {"IPv4": "172.18.0.4"}),
        }
        virtual = {name: list(plan.virtual_cidrs) for name, plan in plans(list(nodes), 0).items()}
        route(place, nodes, {**virtual, "a1": [*virtual["a1"], "10.244.1.0/24"]})
        told = kernel_state.as_text(place)
    for behind in ("198.18.1.0/24 via 172.18.0.3", "198.19.2.0/24 via 172.18.0.4", "10.244.1.0/24 via 172.18.0.3"):
        assert f"route {behind} dev eth0" in told
    assert "fd00:" not in told  # the node has no IPv6 address


def test_workers_share_no_virtual_address() -> None:
    nodes = ["a1", "a2", "b1", "b2", "c1"]
    every = [cidr for worker in range(9) for plan in plans(nodes, worker).values() for cidr in plan.virtual_cidrs]
    assert len(set(every)) == len(every) == 9 * 5 * 4
    assert plans(nodes, 100)  # a high worker number still gets addresses, although they may repeat


def test_client_ignores_icmp_redirects(netns_allowed: None) -> None:
    with Namespace.create() as place:
        rtnetlink.execute(place, [rtnetlink.up(1)])
        sysctls.apply(place, sysctls.ignoring_redirects(["IPv4", "IPv6"], "lo"))
        with place.entered():
            told = [Path(f"/proc/sys/net/{each}/conf/lo/accept_redirects") for each in ("ipv4", "ipv6")]
            assert [each.read_text() for each in told] == ["0\n", "0\n"]
