"""Real connections through the rules of every node, over both IP families and both protocols."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.outcomes import REFUSED, TIMED_OUT, Reached
from reference.client import Object
from tests.reference.proxy.conftest import FAMILIES, Cluster

PROTOCOLS = ("TCP", "UDP")
LOCAL = {"externalTrafficPolicy": "Local"}


def cluster_ip(service: Object, family: str) -> str:
    return str(service["spec"]["clusterIPs"][FAMILIES.index(family)])


def node_port(service: Object, protocol: str = "TCP") -> int:
    return int(service["spec"]["ports"][PROTOCOLS.index(protocol)]["nodePort"])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cluster_ip_reaches_every_endpoint_from_pods_and_nodes(cluster: Cluster, family: str, protocol: str) -> None:
    address = cluster_ip(cluster.service("a1-2", "a2-2", "b1-2"), family)

    assert cluster.ask("a1-3", address, protocol=protocol, count=60) == "a1-2 a2-2 b1-2"
    assert cluster.ask("a1", address, protocol=protocol, count=60) == "a1-2 a2-2 b1-2"


@pytest.mark.parametrize("family", FAMILIES)
def test_hints_keep_traffic_in_the_zone(cluster: Cluster, family: str) -> None:
    address = cluster_ip(cluster.service("a1-2 zone=a", "a2-2 zone=a", "b1-2 zone=b"), family)

    assert cluster.ask("a1-3", address, count=40) == "a1-2 a2-2"
    assert cluster.ask("b1-2", address) == "b1-2"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pods_keep_their_source_address_and_can_reach_themselves(cluster: Cluster, family: Any, protocol: str) -> None:
    address = cluster_ip(cluster.service("a1-2", "b1-2"), family)
    pod, node = cluster.hosts["a1-2"].addresses[family], cluster.hosts["a1"].addresses[family]

    seen = set(cluster.observe("a1-2", address, protocol=protocol, count=40))

    assert seen == {Reached("a1-2", node), Reached("b1-2", pod)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_service_without_endpoints_refuses_pods(cluster: Cluster, family: str, protocol: str) -> None:
    address = cluster_ip(cluster.service(), family)

    assert cluster.ask("a1-3", address, protocol=protocol) == REFUSED


@pytest.mark.parametrize("family", FAMILIES)
def test_a_service_without_endpoints_refuses_nodes_and_the_outside(cluster: Cluster, family: Any) -> None:
    service = cluster.service(type="NodePort")

    assert cluster.ask("a1", cluster_ip(service, family)) == REFUSED
    assert cluster.ask("external", cluster.hosts["a1"].addresses[family], node_port(service)) == REFUSED


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_internal_local_policy_drops_when_node_has_no_endpoint(cluster: Cluster, family: str, protocol: str) -> None:
    address = cluster_ip(cluster.service("a1-2", internalTrafficPolicy="Local"), family)

    assert cluster.ask("a1-3", address, protocol=protocol) == "a1-2"
    assert cluster.ask("b1-2", address, protocol=protocol, patience=0.3) == TIMED_OUT
    assert cluster.ask("b1", address, protocol=protocol, patience=0.3) == TIMED_OUT


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_node_port_serves_the_outside_with_the_nodes_address_as_source(
    cluster: Cluster, family: Any, protocol: str
) -> None:
    port = node_port(cluster.service("a1-2", "b1-2", type="NodePort"), protocol)
    node = cluster.hosts["a1"].addresses[family]

    seen = set(cluster.observe("external", node, port, protocol=protocol, count=40))

    assert seen == {Reached("a1-2", node), Reached("b1-2", node)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_external_local_policy_keeps_the_clients_address_and_the_node(
    cluster: Cluster, family: Any, protocol: str
) -> None:
    service = cluster.service("a1-2", "b1-2", type="NodePort", **LOCAL)
    client, port = cluster.hosts["external"].addresses[family], node_port(service, protocol)

    seen = set(cluster.observe("external", cluster.hosts["a1"].addresses[family], port, protocol=protocol))

    assert seen == {Reached("a1-2", client)}
    assert (
        cluster.ask("external", cluster.hosts["a2"].addresses[family], port, protocol=protocol, patience=0.3)
        == TIMED_OUT
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_external_local_policy_gives_traffic_from_inside_the_whole_list(cluster: Cluster, family: Any) -> None:
    port = node_port(cluster.service("a1-2", "b1-2", type="NodePort", **LOCAL))
    a1, a2 = (cluster.hosts[name].addresses[family] for name in ("a1", "a2"))

    assert cluster.ask("a2-2", a2, port, count=40) == "a1-2 b1-2"
    assert cluster.ask("a2", a2, port, count=40) == "a1-2 b1-2"
    assert cluster.ask("a1-2", a1, port, count=40) == "a1-2 b1-2"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_external_local_policy_applies_to_pods_of_other_nodes_at_node_ports(
    cluster: Cluster, family: Any, protocol: str
) -> None:
    port = node_port(cluster.service("a1-2", "b1-2", type="NodePort", **LOCAL), protocol)
    a1, a2, b1 = (cluster.hosts[name].addresses[family] for name in ("a1", "a2", "b1"))
    client = cluster.hosts["a1-3"].addresses[family]

    assert cluster.ask("a1-3", a1, port, protocol=protocol, count=40) == "a1-2 b1-2"
    assert set(cluster.observe("a1-3", b1, port, protocol=protocol)) == {Reached("b1-2", client)}
    for other in ("a1-3", "b1-2"):
        assert cluster.ask(other, a2, port, protocol=protocol, patience=0.3) == TIMED_OUT
    assert cluster.ask("a1", b1, port, protocol=protocol) == "b1-2"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pods_connection_to_another_nodes_port_comes_back_through_that_node(cluster: Cluster, family: Any) -> None:
    port = node_port(cluster.service("a1-2", "b1-2", type="NodePort"))
    other = cluster.hosts["a2"].addresses[family]

    seen = set(cluster.observe("a1-3", other, port, count=40))

    assert seen == {Reached("a1-2", other), Reached("b1-2", other)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_load_balancer_and_external_ips_are_served_from_outside_and_inside(
    cluster: Cluster, family: Any, policy: str
) -> None:
    plan, number = cluster.network.plan("a1"), 10 + 2 * FAMILIES.index(family) + (policy == "Local")
    balanced, external = plan.virtual("load-balancer", number)[family], plan.virtual("external-ip", number)[family]
    cluster.service(
        "a1-2",
        "b1-2",
        type="LoadBalancer",
        externalTrafficPolicy=policy,
        externalIPs=[external],
        status={"loadBalancer": {"ingress": [{"ip": balanced}]}},
    )

    for address in (balanced, external):
        assert cluster.ask("external", address, count=40) == ("a1-2" if policy == "Local" else "a1-2 b1-2")
        assert cluster.ask("a1-3", address, count=40) == "a1-2 b1-2"
        assert cluster.ask("b1", address, count=40) == "a1-2 b1-2"


def test_a_load_balancer_that_is_a_proxy_gets_no_rule(cluster: Cluster) -> None:
    address = cluster.network.plan("a1").virtual("load-balancer", 40)["IPv4"]
    ingress = [{"ip": address, "ipMode": "Proxy"}]

    cluster.service("a1-2", type="LoadBalancer", status={"loadBalancer": {"ingress": ingress}})

    assert cluster.ask("external", address, count=4, patience=0.3) == TIMED_OUT


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_terminating_endpoints_serve_when_nothing_is_ready(cluster: Cluster, protocol: str) -> None:
    service = cluster.service("a1-2 terminating", "b1-2 unready")
    address = cluster_ip(service, "IPv4")
    assert cluster.ask("a2", address, protocol=protocol) == "a1-2"

    cluster.endpoints(service, "a1-2 terminating", "b1-2")

    assert cluster.ask("a2", address, protocol=protocol) == "b1-2"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_next_connection_after_a_change_goes_to_the_new_endpoint(
    cluster: Cluster, family: str, protocol: str
) -> None:
    service = cluster.service("a1-2")
    address = cluster_ip(service, family)

    for _ in range(10):
        for endpoint in ("b1-2", "a2-2", "a1-2"):
            cluster.endpoints(service, endpoint)
            assert cluster.ask("a1-3", address, protocol=protocol, count=8) == endpoint
