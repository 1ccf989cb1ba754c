from __future__ import annotations

import ipaddress
import itertools

import pytest

from harness.errors import UsageError
from harness.netns.addresses import (
    EXTERNAL_CLIENT,
    FAMILIES,
    POD_CIDRS,
    SERVICE_CIDRS,
    NodeAddresses,
    families_of,
    family_of,
)

PLANS = [NodeAddresses(number) for number in range(1, 256)]


def test_third_node_is_named_in_all_its_addresses() -> None:
    plan = NodeAddresses(3)
    assert plan.addresses == {"IPv4": "10.0.0.4", "IPv6": "fd00:10::3"}
    assert plan.pod_cidrs == {"IPv4": "10.244.3.0/24", "IPv6": "fd00:10:244:3::/64"}
    assert plan.pod(5) == {"IPv4": "10.244.3.5", "IPv6": "fd00:10:244:3::5"}
    assert plan.virtual("load-balancer", 7) == {"IPv4": "198.18.3.7", "IPv6": "fd00:198:18:3::7"}
    assert plan.virtual("external-ip", 7) == {"IPv4": "198.19.3.7", "IPv6": "fd00:198:19:3::7"}


@pytest.mark.parametrize("family", FAMILIES)
def test_ranges_of_all_nodes_do_not_overlap(family: str) -> None:
    ranges = [POD_CIDRS[family], SERVICE_CIDRS[family], EXTERNAL_CLIENT[family]]
    for plan in PLANS:
        ranges += [plan.addresses[family], *(each for each in plan.virtual_cidrs if family_of(each) == family)]
    ordered = sorted((ipaddress.ip_network(each) for each in ranges), key=lambda each: each.network_address)
    assert not [pair for pair in itertools.pairwise(ordered) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize("family", FAMILIES)
def test_pod_ranges_of_all_nodes_are_in_the_cluster_range(family: str) -> None:
    for plan in PLANS:
        of_node = ipaddress.ip_network(plan.pod_cidrs[family])
        assert of_node.subnet_of(ipaddress.ip_network(POD_CIDRS[family]))
        assert ipaddress.ip_address(plan.pod(254)[family]) in of_node


@pytest.mark.parametrize("number", [0, 256, -1])
def test_node_number_outside_the_plan_is_refused(number: int) -> None:
    with pytest.raises(UsageError, match=f"node number {number}: an embedded cluster has 1 to 255 nodes"):
        NodeAddresses(number)


@pytest.mark.parametrize("names", [(), ("IPv5",), ("IPv4", "IPv4"), ("ipv4",)])
def test_unknown_repeated_or_no_families_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="expected IPv4, IPv6 or both, each once"):
        families_of(names)


def test_families_keep_their_order() -> None:
    assert families_of(["IPv6", "IPv4"]) == ("IPv6", "IPv4")
