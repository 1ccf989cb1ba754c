"""Health checks report to load balancers which nodes can receive traffic, regardless of hints.

The checks are specified in the Kubernetes documentation, KEP-3836 (nodes about to be deleted) and KEP-1669 (terminating
endpoints).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.features import (
    EXTERNAL_POLICY,
    HEALTH_CHECK_NODE_PORT,
    LOAD_BALANCER,
    NODE_HINTS,
    PROXY_HEALTH,
    PROXY_METRICS,
    TERMINATING_ENDPOINTS,
    ZONE_HINTS,
)
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Service,
    endpoint,
    expect_http_answer,
    expect_traffic,
    external_client,
    pod_client,
    proxy_metrics,
    requirement,
)

HEALTH_PORT = 10256
ABOUT_TO_GO = "ToBeDeletedByClusterAutoscaler"
WEIGHT = "x-load-balancing-endpoint-weight"


def _expect_health(cluster: Cluster, node: str, path: str, *, code: int, **body: Any) -> None:
    expect_http_answer(cluster, external_client(node), (node, HEALTH_PORT), path, code=code, body=body)


def _create_service(cluster: Cluster, **fields: Any) -> Service:
    return cluster.create_service(type="LoadBalancer", external_traffic_policy="Local", **fields)


def _expect_local(cluster: Cluster, service: Service, codes: Mapping[str, int]) -> None:
    _expect_at(cluster, service.object["spec"]["healthCheckNodePort"], codes)


def _expect_at(cluster: Cluster, port: int, codes: Mapping[str, int | None]) -> None:
    """Expect each node's port to answer with the node's code in `codes`. None means any code but 200, or no answer."""
    for node, code in codes.items():
        expect_http_answer(cluster, external_client(node), (node, port), "/", code=code)


@requirement(
    "HEALTH/node-answers-while-its-proxy-keeps-up",
    "While the proxy of a node keeps up with changes, the node answers GET requests for /healthz and /livez on port "
    "10256, from external and in-cluster clients, with status 200.",
    level=MUST,
    features={PROXY_HEALTH},
    source="Kubernetes, kube-proxy: --healthz-bind-address; KEP-3836",
    kills={"never-healthy", "unhealthy-for-its-own-pods"},
)
def test_healthy_node_answers(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}})

    for node in ("a1", "c1"):
        for client in (external_client(node), pod_client("a1"), pod_client("c1")):
            for path in ("/healthz", "/livez"):
                expect_http_answer(three_zones, client, (node, HEALTH_PORT), path, code=200)


@requirement(
    "HEALTH/node-that-is-about-to-go-is-unhealthy",
    "While a node has the taint ToBeDeletedByClusterAutoscaler, its /healthz returns 503, its /livez returns 200 and "
    "its traffic continues; other nodes stay healthy, including cordoned nodes.",
    level=MUST,
    features={PROXY_HEALTH},
    source="KEP-3836, kube-proxy improved ingress connectivity reliability",
    kills={"healthy-until-it-is-gone", "dead-when-it-is-about-to-go"},
)
def test_node_that_is_about_to_go_is_unhealthy(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])
    _expect_health(three_zones, "a2", "/healthz", code=200, nodeEligible=True)

    three_zones.nodes.taint("a2", ABOUT_TO_GO)
    _expect_health(three_zones, "a2", "/healthz", code=503, nodeEligible=False)
    _expect_health(three_zones, "a2", "/livez", code=200)
    _expect_health(three_zones, "a1", "/healthz", code=200)
    expect_traffic(three_zones, service, {"a2": {a1}})

    three_zones.nodes.taint("a2", "example.org/other")
    _expect_health(three_zones, "a2", "/healthz", code=200, nodeEligible=True)
    three_zones.nodes.cordon("a2")
    _expect_health(three_zones, "a2", "/healthz", code=200, nodeEligible=True)


@requirement(
    "METRICS/health-answers-are-counted",
    "The metrics kubeproxy_proxy_healthz_total and kubeproxy_proxy_livez_total count responses by status code.",
    level=MUST,
    features={PROXY_HEALTH, PROXY_METRICS},
    source="Kubernetes, metrics of kube-proxy; KEP-3836",
    kills={"proxy-metrics-never-change"},
)
def test_health_answers_are_counted(three_zones: Cluster) -> None:
    counted = proxy_metrics(three_zones, "a2")
    for path in ("/healthz", "/livez"):
        _expect_health(three_zones, "a2", path, code=200)
        counted.expect_growth(f"kubeproxy_proxy_{path[1:]}_total", {"code": "200"})


@requirement(
    "HEALTH/check-node-port-counts-local-endpoints",
    "The health check node port of a Service with externalTrafficPolicy Local returns 200 on nodes with ready "
    "endpoints and 503 on other nodes, including after the endpoints change.",
    level=MUST,
    features={EXTERNAL_POLICY, HEALTH_CHECK_NODE_PORT, LOAD_BALANCER},
    source="Kubernetes, Service API: healthCheckNodePort (if a given node holds endpoints for this service or not)",
    kills={"health-port-counts-all-endpoints", "health-port-counts-once"},
    fixes={"family": "the scenario asks at the IPv4 addresses of nodes"},
)
def test_health_check_node_port_counts_local_endpoints(three_zones: Cluster) -> None:
    service = _create_service(three_zones)
    a1, other, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    _expect_local(three_zones, service, {"a1": 503})
    three_zones.publish(service, [endpoint(a1), endpoint(other), endpoint(b1)])
    _expect_local(three_zones, service, {"a1": 200, "b1": 200, "a2": 503, "c1": 503})

    three_zones.publish(service, [endpoint(a1), endpoint(other, ready=False), endpoint(b1, ready=False)])
    _expect_local(three_zones, service, {"a1": 200, "b1": 503})


@requirement(
    "HEALTH/check-node-port-comes-and-goes-with-the-policy",
    "An existing Service answers on its health check node port once its externalTrafficPolicy becomes Local; while the "
    "policy is Cluster, or once the Service is deleted, no node returns 200 on that port, and another Service can use "
    "the port.",
    level=MUST,
    features={EXTERNAL_POLICY, HEALTH_CHECK_NODE_PORT, LOAD_BALANCER},
    source="Kubernetes, Service API: healthCheckNodePort (only applies when externalTrafficPolicy is set to Local)",
    kills={
        "freezes-health-check-ports",
        "health-port-closes-behind-its-heir",
        "health-port-is-never-closed",
        "health-port-outlives-its-policy",
    },
    fixes={"family": "the scenario asks at the IPv4 addresses of nodes"},
)
def test_health_check_node_port_comes_and_goes_with_the_policy(three_zones: Cluster) -> None:
    service = three_zones.create_service(type="LoadBalancer", external_traffic_policy="Cluster")
    a1, other, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    three_zones.patch_service(service, {"spec": {"externalTrafficPolicy": "Local"}})
    _expect_local(three_zones, service, {"a1": 200, "b1": 503})

    number = service.object["spec"]["healthCheckNodePort"]
    three_zones.patch_service(service, {"spec": {"externalTrafficPolicy": "Cluster"}})
    _expect_at(three_zones, number, {"a1": None, "b1": None})
    heir = _create_service(three_zones, healthCheckNodePort=number)
    three_zones.publish(heir, [endpoint(b1)])
    _expect_local(three_zones, heir, {"a1": 503, "b1": 200})
    three_zones.publish(service, [endpoint(a1), endpoint(other)])
    _expect_local(three_zones, heir, {"a1": 503, "b1": 200})
    three_zones.patch_service(service, {"spec": {"externalTrafficPolicy": "Local"}})
    _expect_local(three_zones, service, {"a1": 200, "b1": 503})

    # Write all changes at once, the new owner first: a proxy that batches changes then processes the new owner first.
    number = service.object["spec"]["healthCheckNodePort"]
    three_zones.patch_service(heir, {"spec": {"externalTrafficPolicy": "Cluster"}})
    three_zones.publish(heir, [endpoint(b1), endpoint(a1, ready=False)])
    three_zones.patch_service(service, {"spec": {"externalTrafficPolicy": "Cluster"}})
    three_zones.patch_service(heir, {"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": number}})
    _expect_local(three_zones, heir, {"a1": 503, "b1": 200})

    three_zones.delete_service(heir)
    _expect_at(three_zones, number, {"a1": None, "b1": None})


@requirement(
    "HEALTH/check-node-port-tells-name-and-number",
    "The response of a health check node port is JSON with the name of the Service and the number of ready endpoints "
    "on the node.",
    level=SHOULD,
    features={EXTERNAL_POLICY, HEALTH_CHECK_NODE_PORT, LOAD_BALANCER},
    source="Kubernetes, kube-proxy; the API says nothing of the body",
    kills={"health-port-counts-all-endpoints"},
    fixes={"family": "the scenario asks at the IPv4 addresses of nodes"},
)
def test_health_check_node_port_tells_name_and_number(three_zones: Cluster) -> None:
    service = _create_service(three_zones)
    a1, other, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(other), endpoint(b1)])

    port = int(service.object["spec"]["healthCheckNodePort"])
    named = {"namespace": three_zones.namespace, "name": service.name}
    for node, code, count in (("a1", 200, 2), ("b1", 200, 1), ("c1", 503, 0)):
        body = {"service": named, "localEndpoints": count}
        expect_http_answer(three_zones, external_client(node), (node, port), "/", code=code, body=body)


@requirement(
    "HEALTH/check-node-port-tells-the-weight",
    "The response of a health check node port has a header X-Load-Balancing-Endpoint-Weight with the number of ready "
    "endpoints on the node.",
    level=SHOULD,
    features={EXTERNAL_POLICY, HEALTH_CHECK_NODE_PORT, LOAD_BALANCER},
    source="Kubernetes, kube-proxy, since 1.28",
    kills={"health-port-counts-all-endpoints", "health-port-without-weight"},
    fixes={"family": "the scenario asks at the IPv4 addresses of nodes"},
)
def test_health_check_node_port_tells_the_weight(three_zones: Cluster) -> None:
    service = _create_service(three_zones)
    a1, other = three_zones.run_servers(on=["a1", "a1"])
    three_zones.publish(service, [endpoint(a1), endpoint(other)])

    port = int(service.object["spec"]["healthCheckNodePort"])
    for node, code, weight in (("a1", 200, "2"), ("b1", 503, "0")):
        answered: dict[str, Any] = {"code": code, "headers": {WEIGHT: weight}}
        expect_http_answer(three_zones, external_client(node), (node, port), "/", **answered)


@requirement(
    "HEALTH/hints-do-not-change-a-check",
    "A health check node port counts the ready endpoints on the node, whatever zones and nodes they are hinted for.",
    level=MUST,
    features={EXTERNAL_POLICY, HEALTH_CHECK_NODE_PORT, LOAD_BALANCER, NODE_HINTS, ZONE_HINTS},
    source="Kubernetes, kube-proxy; KEP-4444, Intersection with internal/externalTrafficPolicy",
    kills={"health-port-counts-hinted-endpoints"},
    fixes={"family": "the scenario asks at the IPv4 addresses of nodes"},
)
def test_hints_do_not_change_a_health_check(three_zones: Cluster) -> None:
    service = _create_service(three_zones, traffic_distribution="PreferSameNode")
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1, zones=["b"], nodes=["b1"]), endpoint(b1, zones=["a"], nodes=["a1"])])

    _expect_local(three_zones, service, {"a1": 200, "b1": 200, "a2": 503})


@requirement(
    "KEP-1669/health-check-fails-while-endpoints-terminate",
    "A node on which all endpoints of a Service are terminating returns 503 on the health check node port, and still "
    "sends external traffic to its terminating endpoints.",
    level=MUST,
    features={EXTERNAL_POLICY, HEALTH_CHECK_NODE_PORT, LOAD_BALANCER, TERMINATING_ENDPOINTS},
    source="KEP-1669, Proposal (health checks fail while endpoints terminate)",
    kills={"health-port-counts-terminating-endpoints", "no-terminating-fallback"},
    fixes={"family": "the scenario asks at the IPv4 addresses of nodes"},
)
def test_health_check_fails_while_endpoints_terminate(three_zones: Cluster) -> None:
    service = _create_service(three_zones)
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    _expect_local(three_zones, service, {"a1": 200})

    three_zones.publish(service, [endpoint(a1, ready=False, serving=True, terminating=True), endpoint(b1)])
    _expect_local(three_zones, service, {"a1": 503, "b1": 200})
    expect_traffic(three_zones, service, {external_client("a1"): {a1}}, to="node-port")
