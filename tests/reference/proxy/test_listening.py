"""The ports of a running proxy. Tests send the requests of load balancers and Prometheus."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.eventually import eventually
from harness.netns.namespace import Namespace
from reference.apiserver import ApiServer
from reference.client import Object
from reference.proxy import ServiceProxy
from reference.serving import HttpThread
from tests.reference.proxy.conftest import FAMILIES, Cluster

Answer = tuple[int, dict[str, str], bytes]


def get(cluster: Cluster, address: str, port: int, path: str = "/", client: str = "external") -> Answer:
    """Send a GET from a host of the cluster. Raises `OSError` if the port is closed."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with cluster.hosts[client].namespace.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(5)
        sock.connect((address, port))
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        response = http.client.HTTPResponse(sock)
        response.begin()
        return response.status, dict(response.headers), response.read()


def balanced(cluster: Cluster, *endpoints: str, **spec: Any) -> tuple[Object, int]:
    """Create a Service of type LoadBalancer with policy Local, and return its health check node port."""
    service = cluster.service(*endpoints, **{"type": "LoadBalancer", "externalTrafficPolicy": "Local", **spec})
    return service, service["spec"].get("healthCheckNodePort", 0)


def checks(cluster: Cluster, port: int, family: Any = "IPv4") -> dict[str, tuple[int, int, str]]:
    """Return each node's response at a health check node port: status code, number of endpoints, and weight."""
    found = {}
    for node in ("a1", "a2", "b1"):
        code, headers, body = get(cluster, cluster.hosts[node].addresses[family], port)
        found[node] = code, json.loads(body)["localEndpoints"], headers["X-Load-Balancing-Endpoint-Weight"]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_health_and_metrics_are_served_on_every_node(cluster: Cluster, family: Any) -> None:
    address = cluster.hosts["b1"].addresses[family]

    assert get(cluster, address, 10256, "/healthz")[0] == 200
    assert json.loads(get(cluster, address, 10256, "/livez")[2]).keys() == {"lastUpdated", "currentTime"}
    assert b"kubeproxy_sync_proxy_rules_last_timestamp_seconds{" in get(cluster, address, 10249, "/metrics")[2]


def test_a_tainted_node_is_not_eligible_until_the_taint_goes(cluster: Cluster) -> None:
    address, node = cluster.hosts["a2"].addresses["IPv4"], cluster.node("a2")
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}
    cluster.api.update("nodes", "", {**node, "spec": {**node["spec"], "taints": [taint]}})
    cluster.settle()
    tainted = get(cluster, address, 10256, "/healthz")[0]

    cluster.api.update("nodes", "", node)
    cluster.settle()

    assert (tainted, get(cluster, address, 10256, "/healthz")[0]) == (503, 200)


@pytest.mark.parametrize("family", FAMILIES)
def test_health_check_node_port_shows_which_nodes_have_endpoints(cluster: Cluster, family: str) -> None:
    _, port = balanced(cluster, "a1-2", "a1-3", "b1-2")

    assert checks(cluster, port, family) == {"a1": (200, 2, "2"), "a2": (503, 0, "0"), "b1": (200, 1, "1")}


def test_a_health_check_node_port_names_the_service(cluster: Cluster) -> None:
    service, port = balanced(cluster, "a1-2")

    _, _, body = get(cluster, cluster.hosts["a1"].addresses["IPv4"], port, "/anything")

    name = service["metadata"]["name"]
    expected = {"service": {"namespace": "default", "name": name}, "localEndpoints": 1, "serviceProxyHealthy": True}
    assert json.loads(body) == expected


def test_health_checks_count_ready_endpoints_regardless_of_hints(cluster: Cluster) -> None:
    service, port = balanced(cluster, "a1-2 zone=b", "a1-3 terminating", "b1-2 zone=b")
    before = checks(cluster, port)

    cluster.endpoints(service, "a1-2 terminating", "b1-2 unready")

    assert before == {"a1": (200, 1, "1"), "a2": (503, 0, "0"), "b1": (200, 1, "1")}
    assert {each[0] for each in checks(cluster, port).values()} == {503}


def test_a_health_check_node_port_opens_and_closes_with_its_service(cluster: Cluster) -> None:
    service, port = balanced(cluster, "a1-2")
    address = cluster.hosts["a1"].addresses["IPv4"]
    assert get(cluster, address, port)[0] == 200

    cluster.api.delete("services", "default", service["metadata"]["name"])
    cluster.settle()

    with pytest.raises(ConnectionRefusedError):
        get(cluster, address, port)


def test_with_policy_cluster_there_is_no_health_check_node_port(cluster: Cluster) -> None:
    service, port = balanced(cluster, "a1-2")

    spec = {**service["spec"], "externalTrafficPolicy": "Cluster"}
    cluster.api.update("services", "default", {**service, "spec": spec})
    cluster.settle()

    with pytest.raises(ConnectionRefusedError):
        get(cluster, cluster.hosts["a1"].addresses["IPv4"], port)


def test_single_stack_service_is_checked_only_in_its_family(cluster: Cluster) -> None:
    _, port = balanced(cluster, "a1-2", ipFamilyPolicy="SingleStack")

    assert get(cluster, cluster.hosts["a1"].addresses["IPv4"], port)[0] == 200
    with pytest.raises(ConnectionRefusedError):
        get(cluster, cluster.hosts["a1"].addresses["IPv6"], port)


def no_local(cluster: Cluster, node: str) -> dict[tuple[str, str], float]:
    body = get(cluster, cluster.hosts[node].addresses["IPv4"], 10249, "/metrics")[2].decode()
    (metric,) = [each for each in text_string_to_metric_families(body) if "no_local" in each.name]
    return {(each.labels["traffic_policy"], each.labels["ip_family"]): each.value for each in metric.samples}


def test_services_without_a_local_endpoint_are_counted(cluster: Cluster) -> None:
    before = no_local(cluster, "a2")
    service, _ = balanced(cluster, "a1-2", internalTrafficPolicy="Local", ipFamilyPolicy="SingleStack")
    during = no_local(cluster, "a2")

    cluster.endpoints(service, "a2-2")
    served = no_local(cluster, "a2")
    cluster.endpoints(service, "a2-2 unready")

    more = {key: during[key] - before[key] for key in before}
    wanted = {("internal", "IPv4"): 1, ("external", "IPv4"): 1, ("internal", "IPv6"): 0, ("external", "IPv6"): 0}
    assert more == wanted
    assert served == no_local(cluster, "a2") == before


@pytest.fixture
def shared() -> Iterator[HttpThread]:
    made = HttpThread()
    made.start()
    yield made
    made.stop()


def test_proxies_of_one_process_may_share_a_thread(node: Namespace, shared: HttpThread) -> None:
    with node.entered():
        proxy = ServiceProxy("a1", ApiServer(), pod_cidrs=[], serving=shared)
    proxy.start()
    eventually(proxy.synced, describe="the proxy")
    taken = [node.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(2)]
    for sock, port in zip(taken, (10249, 10256), strict=True):
        with pytest.raises(OSError, match="in use"):
            sock.bind(("", port))

    proxy.stop()

    for sock, port in zip(taken, (10249, 10256), strict=True):
        sock.bind(("", port))
        sock.close()


def test_port_in_use_is_reported_and_bound_once_free(node: Namespace, caplog: pytest.LogCaptureFixture) -> None:
    api = ApiServer()
    with node.entered():
        proxy = ServiceProxy("a1", api, pod_cidrs=[])
    with node.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("", 10256))
        other.listen()
        proxy.start()
        eventually(proxy.synced, describe="the proxy")
    api.create("services", "default", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    eventually(proxy.synced, describe="the proxy")

    with node.socket(socket.AF_INET, socket.SOCK_STREAM) as late, pytest.raises(OSError, match="in use"):
        late.bind(("", 10256))
    proxy.stop()
    assert caplog.text.count("cannot listen on port 10256") == 1
