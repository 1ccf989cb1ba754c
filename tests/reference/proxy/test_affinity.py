"""Session affinity with real packets.

A client keeps its endpoint until the timeout, and moves when the endpoint is removed.
"""

from __future__ import annotations

import itertools
import socket
import time
from typing import Any

import pytest

from harness.eventually import eventually
from reference.client import Object
from reference.proxy.netlink import NftSocket
from tests.reference.proxy.conftest import FAMILIES, Cluster, Content, read_back
from tests.reference.proxy.test_routing import LOCAL, PROTOCOLS, cluster_ip, node_port

ALL = ("a1-2", "a1-3", "a2-2", "b1-2")
PODS = set(ALL)


def sticky(cluster: Cluster, *endpoints: str, seconds: int = 600, **spec: Any) -> Object:
    config = {"clientIP": {"timeoutSeconds": seconds}}
    return cluster.service(*endpoints, sessionAffinity="ClientIP", sessionAffinityConfig=config, **spec)


def remembered(cluster: Cluster, node: str, address: str) -> Content:
    """Return the clients of an IPv4 address in the affinity map of a node."""
    with cluster.hosts[node].namespace.entered():
        nft = NftSocket()
    content = read_back(nft, "IPv4", "affinity") or {}
    nft.close()
    return {key: value for key, value in content.items() if key[4:8] == socket.inet_aton(address)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_keeps_its_endpoint_of_a_cluster_ip(cluster: Cluster, family: str, protocol: str) -> None:
    address = cluster_ip(sticky(cluster, *ALL), family)

    for client in ("a1-2", "a1-3", "b1-2", "b1"):
        assert cluster.ask(client, address, protocol=protocol, count=40) in PODS


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_a_client_keeps_its_endpoint_of_external_addresses(
    cluster: Cluster, family: Any, protocol: str, policy: str
) -> None:
    plan, node = cluster.network.plan("a1"), cluster.hosts["a1"].addresses[family]
    number = 50 + 4 * FAMILIES.index(family) + 2 * PROTOCOLS.index(protocol) + (policy == "Local")
    balanced, external = plan.virtual("load-balancer", number)[family], plan.virtual("external-ip", number)[family]
    status = {"loadBalancer": {"ingress": [{"ip": balanced}]}}
    exposed = {"type": "LoadBalancer", "externalTrafficPolicy": policy, "externalIPs": [external], "status": status}
    service = sticky(cluster, *ALL, **exposed)
    allowed = {"a1-2", "a1-3"} if policy == "Local" else PODS

    for address, port in ((node, node_port(service, protocol)), (balanced, 80), (external, 80)):
        assert cluster.ask("external", address, port, protocol=protocol, count=30) in allowed
        assert cluster.ask("a2-2", address, port, protocol=protocol, count=30) in PODS


def test_each_client_has_its_own_endpoint(cluster: Cluster) -> None:
    services = [cluster_ip(sticky(cluster, *ALL), "IPv4") for _ in range(12)]

    chosen = [{cluster.ask(client, each, count=3) for each in services} for client in ("a1-2", "a1-3")]

    assert all(len(each) > 1 and each <= PODS for each in chosen)


def test_client_of_a_removed_endpoint_moves_to_another_and_stays(cluster: Cluster) -> None:
    service = sticky(cluster, *ALL)
    address, usable = cluster_ip(service, "IPv4"), list(ALL)

    while len(usable) > 1:
        usable.remove(cluster.ask("a1-3", address, count=10))
        cluster.endpoints(service, *usable)

    assert cluster.ask("a1-3", address, count=10) == usable[0]
    cluster.endpoints(service, *ALL)
    assert cluster.ask("a1-3", address, count=40) == usable[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_adding_and_removing_other_endpoints_moves_no_client(cluster: Cluster, protocol: str) -> None:
    service = sticky(cluster, *ALL)
    address = cluster_ip(service, "IPv6")
    mine = cluster.ask("a1-3", address, protocol=protocol)
    others = sorted(PODS - {mine})

    for count in (2, 1, 0, 3):
        for order in itertools.permutations(others[:count]):
            cluster.endpoints(service, *order, mine)
            assert cluster.ask("a1-3", address, protocol=protocol, count=8) == mine


def test_clients_return_to_a_terminating_endpoint_only_if_no_other_is_ready(cluster: Cluster) -> None:
    service = sticky(cluster, "a1-2", "b1-2")
    address = cluster_ip(service, "IPv4")
    mine = cluster.ask("a1-3", address)
    other = "b1-2" if mine == "a1-2" else "a1-2"

    cluster.endpoints(service, f"{mine} terminating", other)
    assert cluster.ask("a1-3", address) == other

    cluster.endpoints(service, f"{mine} terminating")
    assert cluster.ask("a1-3", address) == mine


def test_affinity_works_within_what_topology_allows(cluster: Cluster) -> None:
    service = sticky(cluster, "a1-2 zone=a", "a2-2 zone=a", "b1-2 zone=b")
    address = cluster_ip(service, "IPv4")
    in_zone = cluster.ask("a1-3", address, count=30)
    assert in_zone in {"a1-2", "a2-2"}

    cluster.endpoints(service, "b1-2 zone=a", "a1-2 zone=b", "a2-2 zone=b")

    assert cluster.ask("a1-3", address, count=30) == "b1-2"


def test_affinity_of_an_internal_client_does_not_bypass_policy_local(cluster: Cluster) -> None:
    """For an external address, a node has one list of endpoints for internal clients and one for external clients."""
    service = sticky(cluster, "b1-2", "a1-2", type="NodePort", **LOCAL)
    port, node = node_port(service), cluster.hosts["a1"].addresses["IPv4"]

    assert cluster.ask("external", node, port, count=20) == "a1-2"
    assert cluster.ask("a2", node, port, count=20) == "a1-2"
    assert cluster.ask("a2-2", node, port, count=20) in {"a1-2", "b1-2"}


def test_client_is_forgotten_after_its_timeout(cluster: Cluster) -> None:
    address = cluster_ip(sticky(cluster, "a1-2", seconds=1), "IPv4")
    cluster.ask("a1-3", address)
    assert len(remembered(cluster, "a1", address)) == 1

    eventually(lambda: not remembered(cluster, "a1", address), describe="forgetting")


def test_each_connection_restarts_the_timeout(cluster: Cluster) -> None:
    address = cluster_ip(sticky(cluster, *ALL, seconds=1), "IPv4")
    since = used = time.monotonic()
    chosen: set[object] = set()

    while used - since < 2.5:
        chosen.add(cluster.ask("a1-3", address, count=2))
        is_remembered = remembered(cluster, "a1", address)
        now = time.monotonic()
        if now - used > 0.9:  # on a busy machine the entry may expire unused after its second
            since, chosen = now, set()
        else:
            assert is_remembered
        used = now

    assert len(chosen) == 1


def test_timeout_is_at_most_a_day_and_three_hours_by_default(cluster: Cluster) -> None:
    sticky(cluster, "a1-2", seconds=86_400)
    cluster.service("a1-2", sessionAffinity="ClientIP")

    text = cluster.proxies["a1"].ruleset_text()

    assert "timeout 1d : meta mark" in text
    assert "timeout 3h : meta mark" in text


def test_enabling_and_disabling_affinity_takes_effect(cluster: Cluster) -> None:
    service = cluster.service(*ALL)
    address = cluster_ip(service, "IPv4")
    assert len(cluster.ask("a1-3", address, count=60).split()) == 4

    for affinity, most in (("ClientIP", 1), ("None", 4)):
        spec = {**service["spec"], "sessionAffinity": affinity}
        current = cluster.api.get("services", "default", service["metadata"]["name"])["metadata"]
        cluster.api.update("services", "default", {**service, "metadata": current, "spec": spec})
        cluster.settle()
        assert len(cluster.ask("a1-3", address, count=60).split()) == most


def test_restarted_proxy_keeps_the_clients_of_the_former_one(cluster: Cluster) -> None:
    services = [cluster_ip(sticky(cluster, *ALL), family) for family in FAMILIES for _ in range(4)]
    before = [cluster.ask("a1-3", each) for each in services]

    cluster.proxies["a1"].stop()
    cluster.start_proxy("a1")
    cluster.settle()

    assert [cluster.ask("a1-3", each) for each in services] == before
