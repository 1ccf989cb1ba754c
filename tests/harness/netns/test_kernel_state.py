"""Tests that the kernel's state is read with pyroute2. A single thread opens, uses and closes it."""

from __future__ import annotations

from typing import Any

from pyroute2 import IPRoute

from harness.eventually import eventually
from harness.netns import kernel_state
from harness.netns.fabric import Network
from harness.netns.namespace import Namespace

BLACKHOLE = 6


def names(namespace: Namespace) -> dict[str, int]:
    with namespace.entered(), IPRoute() as ip:
        return {link.get_attr("IFLA_IFNAME"): link["index"] for link in ip.get_links()}


def addresses(namespace: Namespace) -> set[tuple[int, str]]:
    with namespace.entered(), IPRoute() as ip:
        return {(each["index"], f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}") for each in ip.get_addr()}


def routes(namespace: Namespace, table: int) -> set[tuple[str, int, int | None, str | None]]:
    """Return destination, type, link and gateway of each route in a table."""
    with namespace.entered(), IPRoute() as ip:
        return {described(each) for each in ip.get_routes(table=table) if each["type"] in {1, BLACKHOLE}}


def described(route: Any) -> tuple[str, int, int | None, str | None]:
    to = f"{route.get_attr('RTA_DST') or 'default'}/{route['dst_len']}"
    link = None if route["type"] == BLACKHOLE else route.get_attr("RTA_OIF")  # IPv6 puts blackhole routes on lo
    return to, route["type"], link, route.get_attr("RTA_GATEWAY")


def test_node_links_are_named_after_their_pods(network: Network) -> None:
    network.add_pod("a1")
    network.add_pod("a1", name="server")
    network.add_pod("a1", name="name-of-more-than-15-letters")
    assert names(network.nodes["a1"].namespace) == {"lo": 1, "eth0": 2, "a1-2": 1002, "server": 1003, "pod4": 1004}


def test_fabric_has_a_link_for_each_node_and_the_external_client(network: Network) -> None:
    assert names(network.fabric) == {"lo": 1, "external": 2, "a1": 101, "b1": 102}


def test_pod_has_its_addresses_and_loopback_and_no_other(network: Network) -> None:
    pod = network.add_pod("b1")
    expected = {(1, "127.0.0.1/8"), (1, "::1/128"), (2, "10.244.2.2/32"), (2, "fd00:10:244:2::2/128")}
    assert addresses(pod.namespace) == expected


def test_pod_sends_everything_to_its_node(network: Network) -> None:
    pod = network.add_pod("b1")
    expected = {("default/0", 1, 2, "169.254.1.1"), ("default/0", 1, 2, "fe80::1")}
    assert {each for each in routes(pod.namespace, 254) if each[3]} == expected


def test_node_drops_what_goes_to_pods_it_does_not_have(network: Network) -> None:
    network.add_pod("a1")
    found = routes(network.nodes["a1"].namespace, 254)
    assert {("10.244.1.0/24", BLACKHOLE, None, None), ("10.244.1.2/32", 1, 1002, None)} <= found
    assert {("fd00:10:244:1::/64", BLACKHOLE, None, None), ("fd00:10:244:1::2/128", 1, 1002, None)} <= found


def test_fabric_routes_virtual_addresses_only_in_the_external_clients_table(network: Network) -> None:
    assert routes(network.fabric, 100) == {
        (f"{prefix}{number}{rest}", 1, 100 + number, gateway)
        for number in (1, 2)
        for prefix, rest, gateway in (
            ("198.18.", ".0/24", f"10.0.0.{number + 1}"),
            ("198.19.", ".0/24", f"10.0.0.{number + 1}"),
            ("fd00:198:18:", "::/64", f"fd00:10::{number}"),
            ("fd00:198:19:", "::/64", f"fd00:10::{number}"),
        )
    }
    assert not [to for to, *_ in routes(network.fabric, 254) if to.startswith(("198.", "fd00:198"))]


def test_removed_pod_leaves_neither_link_nor_route(network: Network) -> None:
    node = network.nodes["a1"].namespace
    before = names(node), routes(node, 254)
    network.remove_pod(network.add_pod("a1"))
    assert (names(node), routes(node, 254)) == before


def test_kernel_state_of_a_node_is_shown_one_object_per_line(network: Network) -> None:
    network.add_pod("a1")

    def lines() -> list[str]:
        return kernel_state.as_text(network.nodes["a1"].namespace).splitlines()

    links = [
        "link lo up mtu 65536 state UNKNOWN index 1",
        "link eth0 up arp off mtu 1500 state UP index 2",  # the kernel sets the state later than the flag
        "link a1-2 up arp off mtu 1500 state UP index 1002",
    ]
    eventually(lambda: [each for each in lines() if each.startswith("link ")] == links, describe="links that are up")
    assert {
        "address fd00:10::1/128 dev eth0",
        "route default via 169.254.1.1 dev eth0 src 10.0.0.2",
        "route blackhole 10.244.1.0/24 metric 1024",
        "route 10.244.1.2 dev a1-2 src 10.0.0.2",
        "route fd00:10:244:1::2 dev a1-2 src fd00:10::1 metric 1024",
        "rule IPv4 32766: from all lookup 254",
    } <= set(lines())


def test_cut_off_node_and_known_neighbour_are_shown(network: Network) -> None:
    network.disconnect("a1")
    with network.fabric.entered(), IPRoute() as ip:
        ip.neigh("add", dst="10.0.0.9", lladdr="02:00:00:00:00:09", ifindex=101, state="permanent")
    text = kernel_state.as_text(network.fabric)
    assert "\nrule IPv4 50: from all iif a1 blackhole\n" in text
    assert "\nrule IPv6 50: from all iif a1 blackhole\n" in text
    assert "\nneighbour 10.0.0.9 dev a1 lladdr 02:00:00:00:00:09 PERMANENT\n" in text


def test_link_without_carrier_is_distinguished_from_link_down(network: Network) -> None:
    with network.nodes["a1"].namespace.entered(), IPRoute() as ip:
        ip.link("set", index=2, state="down")
    assert "link a1 no-carrier arp off " in kernel_state.as_text(network.fabric)
    assert "link eth0 down arp off " in kernel_state.as_text(network.nodes["a1"].namespace)
