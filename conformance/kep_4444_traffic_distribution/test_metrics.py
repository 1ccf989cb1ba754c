"""KEP-4444, Monitoring Requirements: the metrics of the controller and the proxies that an operator reads.

The tests check the change of a metric, because the cluster has other Services too. For metrics of released Kubernetes
that the KEP does not mention, requirement ids have the prefix METRICS.
"""

from __future__ import annotations

from conformance.features import (
    CONTROLLER_METRICS,
    EXTERNAL_POLICY,
    INTERNAL_POLICY,
    NODE_PORT,
    PREFER_CLOSE,
    PREFER_SAME_NODE,
    PROXY_METRICS,
    TOPOLOGY_MODE,
)
from trafficdist import (
    MUST,
    NO_ANSWER,
    Cluster,
    Hints,
    Port,
    controller_metrics,
    create_unwritable_pod,
    endpoint,
    evidence_of_successful_sync,
    expect_hint_counts,
    expect_hints,
    expect_traffic,
    external_client,
    proxy_metrics,
    requirement,
)

WEB = {"app": "web"}
ZONE_A = Hints(zones=("a",))
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}

BY_VALUE = "endpoint_slice_controller_services_count_by_traffic_distribution"
SYNCS = "endpoint_slice_controller_syncs"
CHANGES = "endpoint_slice_controller_changes"
CHANGED = "endpoint_slice_controller_endpointslices_changed_per_sync_sum"
SLICES = "endpoint_slice_controller_num_endpoint_slices"
DESIRED = "endpoint_slice_controller_endpoints_desired"

DESIRED_SLICES = "endpoint_slice_controller_desired_endpoint_slices"
ADDED = "endpoint_slice_controller_endpoints_added_per_sync_sum"
REMOVED = "endpoint_slice_controller_endpoints_removed_per_sync_sum"

NO_LOCAL = "kubeproxy_sync_proxy_rules_no_local_endpoints_total"


@requirement(
    "KEP-4444/controller-counts-services-by-value",
    "The metric services_count_by_traffic_distribution gives the number of Services with each value of "
    "trafficDistribution; it is updated when a value is set, changed or removed, and when a Service is deleted.",
    level=MUST,
    features={CONTROLLER_METRICS, PREFER_CLOSE, PREFER_SAME_NODE},
    source="KEP-4444, Monitoring Requirements",
    kills={"controller-metrics-never-change", "counts-services-at-first-sight"},
)
def test_services_are_counted_by_value(three_zones: Cluster) -> None:
    close, same_node = {"traffic_distribution": "PreferClose"}, {"traffic_distribution": "PreferSameNode"}
    counted = controller_metrics(three_zones)
    first = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    second = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_service(selector=WEB)
    counted.expect(BY_VALUE, close, by=2)
    counted.expect(BY_VALUE, by=2)

    three_zones.patch_service(first, {"spec": {"trafficDistribution": "PreferSameNode"}})
    counted.expect(BY_VALUE, close, by=1)
    counted.expect(BY_VALUE, same_node, by=1)
    three_zones.patch_service(first, {"spec": {"trafficDistribution": None}})
    counted.expect(BY_VALUE, same_node, by=0)
    three_zones.delete_service(second)
    counted.expect(BY_VALUE, by=0)


@requirement(
    "KEP-4444/annotated-services-are-not-counted",
    "The metric services_count_by_traffic_distribution does not count a Service with the annotation topology-mode "
    "Auto, because the Service's trafficDistribution has no effect.",
    level=MUST,
    features={CONTROLLER_METRICS, PREFER_CLOSE, TOPOLOGY_MODE},
    source="KEP-4444, Monitoring Requirements (some Service is using the field); Risks and Mitigations (precedence)",
    kills={"counts-annotated-services"},
)
def test_annotated_service_is_not_counted(three_zones: Cluster) -> None:
    counted = controller_metrics(three_zones)
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    counted.expect(BY_VALUE, by=1)

    three_zones.patch_service(service, {"metadata": {"annotations": AUTO}})
    counted.expect(BY_VALUE, by=0)


@requirement(
    "KEP-4444/controller-counts-syncs",
    "The metric endpoint_slice_controller_syncs with result success increases when a Service is synced.",
    level=MUST,
    features={CONTROLLER_METRICS},
    source="KEP-4444, Monitoring Requirements (the count for success and failure)",
    since="1.21",
    kills={"controller-metrics-never-change", "successes-count-as-failures"},
    fixes={"components=restarted": "a restart resets the counters"},
)
def test_successful_syncs_are_counted(three_zones: Cluster) -> None:
    for change in range(2):
        counted = controller_metrics(three_zones)
        three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
        three_zones.create_pod(f"p{change}", "a1", labels=WEB)
        counted.expect_growth(SYNCS, {"result": "success"})


def _expect_failures_counted(cluster: Cluster, result: str) -> None:
    create_unwritable_pod(cluster, "p1", "a1", labels=WEB)

    counted = controller_metrics(cluster)
    service = cluster.create_service(selector=WEB)
    counted.expect_growth(SYNCS, {"result": result}, unless=lambda: evidence_of_successful_sync(cluster, service))


@requirement(
    "KEP-4444/failed-syncs-are-counted-apart",
    "The metric endpoint_slice_controller_syncs with result failure increases when a sync fails, for example because "
    "the API server rejects a slice.",
    level=MUST,
    features={CONTROLLER_METRICS},
    source="KEP-4444, Monitoring Requirements (the count for success and failure)",
    as_="kep",
    since="1.21",
    kills={"controller-metrics-never-change", "failures-count-as-successes"},
)
def test_failed_syncs_are_counted_as_failures(three_zones: Cluster) -> None:
    _expect_failures_counted(three_zones, "failure")


@requirement(
    "KEP-4444/failed-syncs-are-counted-as-errors",
    "The metric endpoint_slice_controller_syncs with result error increases when a sync fails, for example because the "
    "API server rejects a slice.",
    level=MUST,
    features={CONTROLLER_METRICS},
    source="Kubernetes, metrics of the EndpointSlice controller; KEP-4444 calls the result failure",
    as_="released",
    instead_of="KEP-4444/failed-syncs-are-counted-apart",
    since="1.21",
    kills={"controller-metrics-never-change", "failures-count-as-successes"},
)
def test_failed_syncs_are_counted_as_errors(three_zones: Cluster) -> None:
    _expect_failures_counted(three_zones, "error")


@requirement(
    "METRICS/changed-slices-by-value",
    "The metric endpointslices_changed_per_sync counts the slices that a sync changed, by value of "
    'trafficDistribution; for a Service with the topology annotation, the metric has the label topology="Auto" and no '
    "value of trafficDistribution.",
    level=MUST,
    features={CONTROLLER_METRICS, PREFER_CLOSE, TOPOLOGY_MODE},
    source="Kubernetes, metrics of the EndpointSlice controller; KEP-2433, Observability",
    kills={"controller-metrics-never-change", "changed-slices-without-labels"},
    fixes={"components=restarted": "a restart resets the counters"},
)
def test_changed_slices_are_counted_by_value(three_zones: Cluster) -> None:
    counted = controller_metrics(three_zones)
    close = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, close, {"p1": ZONE_A})
    counted.expect_growth(CHANGED, {"topology": "Disabled", "traffic_distribution": "PreferClose"})

    counted = controller_metrics(three_zones)
    nodes = {"p2": "b1", "p3": "c1", "p4": "a2", "p5": "b2"}
    for name, node in nodes.items():
        three_zones.create_pod(name, node, labels=WEB)
    three_zones.patch_service(close, {"metadata": {"annotations": AUTO}})
    expect_hint_counts(three_zones, close, {"a": 2, "b": 2, "c": 1})
    three_zones.patch_service(close, {"metadata": {"annotations": {**AUTO, "example.org/look": "again"}}})
    counted.expect_growth(CHANGED.replace("_sum", "_count"), {"topology": "Auto", "traffic_distribution": ""})


@requirement(
    "METRICS/each-changed-slice-is-counted",
    "The metric endpointslices_changed_per_sync increases by one for each slice that a sync creates, for example by "
    "two if the named target port of a Service has different numbers in its pods.",
    level=MUST,
    features={CONTROLLER_METRICS},
    source="Kubernetes, metrics of the EndpointSlice controller; KEP-2433, Observability",
    since="1.21",
    kills={"controller-metrics-never-change", "counts-changed-syncs"},
    fixes={
        "beside": "the scenario counts changes to one Service",
        "components=restarted": "a restart resets the counters",
        "ports": "the scenario has one slice for each port number",
    },
)
def test_each_changed_slice_is_counted(three_zones: Cluster) -> None:
    for name, number in (("p1", 8080), ("p2", 9090)):
        three_zones.create_pod(name, "a1", labels=WEB, container_ports=[("web", number, "TCP")])
    counted = controller_metrics(three_zones)
    service = three_zones.create_service(selector=WEB, ports=[Port(80, target="web")])
    expect_hints(three_zones, service, {"p1": None, "p2": None})
    counted.expect_growth(CHANGED, {"topology": "Disabled"}, least=len(three_zones.slices(service)))


@requirement(
    "METRICS/slices-and-endpoints-are-counted",
    "The metrics num_endpoint_slices and endpoints_desired count the slices and endpoints of Services, and the metric "
    "endpoint_slice_controller_changes counts slice writes by operation.",
    level=MUST,
    features={CONTROLLER_METRICS},
    source="Kubernetes, metrics of the EndpointSlice controller",
    kills={"controller-metrics-never-change", "forgets-to-uncount"},
    fixes={
        "beside": "the scenario counts endpoints and writes",
        "labels=removed": "the scenario counts endpoints",
        "targets": "the scenario counts slices and endpoints",
    },
)
def test_slices_and_endpoints_are_counted(three_zones: Cluster) -> None:
    counted = controller_metrics(three_zones)
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    service = three_zones.create_service(selector=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})
    written = len(three_zones.slices(service))  # one would suffice, but a controller may pack endpoints differently
    counted.expect(SLICES, by=written)
    counted.expect(DESIRED, by=2)
    counted.expect(CHANGES, {"operation": "create"}, by=written)

    three_zones.set_ready("p1", False)
    counted.expect_growth(CHANGES, {"operation": "update"})
    three_zones.delete_service(service)
    counted.expect(SLICES, by=0)
    counted.expect(DESIRED, by=0)


@requirement(
    "METRICS/added-and-removed-endpoints-are-counted",
    "The metric endpoints_added_per_sync increases when endpoints are added, and endpoints_removed_per_sync when they "
    "are removed; desired_endpoint_slices counts one slice for a Service with one endpoint, until the Service is "
    "deleted.",
    level=MUST,
    features={CONTROLLER_METRICS},
    source="Kubernetes, metrics of the EndpointSlice controller",
    kills={"added-counts-as-removed", "controller-metrics-never-change", "forgets-to-uncount"},
    fixes={
        "labels=removed": "the scenario counts endpoints",
        "targets": "the scenario counts slices and endpoints",
    },
)
def test_endpoints_that_come_and_go_are_counted(three_zones: Cluster) -> None:
    before = controller_metrics(three_zones)
    service = three_zones.create_service(selector=WEB)
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None})
    before.expect(DESIRED_SLICES, by=1)

    # Count from here, because the controller may count changes of earlier Services until it syncs this Service.
    counted = controller_metrics(three_zones)
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})
    counted.expect_growth(ADDED)
    counted.expect(REMOVED, by=0)

    later = controller_metrics(three_zones)
    three_zones.api.delete("pods", three_zones.namespace, "p2", grace_seconds=0)
    expect_hints(three_zones, service, {"p1": None})
    later.expect_growth(REMOVED)
    later.expect(ADDED, by=0)
    three_zones.delete_service(service)
    before.expect(DESIRED_SLICES, by=0)


@requirement(
    "METRICS/dropped-internal-traffic-is-counted",
    "The metric no_local_endpoints_total with traffic_policy internal counts the Services whose internal traffic a "
    "node drops because all endpoints are on other nodes; it does not count Services without endpoints.",
    level=MUST,
    features={INTERNAL_POLICY, PROXY_METRICS},
    source="Kubernetes, metrics of kube-proxy; KEP-2086",
    kills={
        "drops-counted-for-the-other-policy",
        "ignores-internal-local",
        "proxy-metrics-never-change",
        "refusals-counted-as-drops",
    },
    fixes={
        "ports": "the metric counts ports",
        "neighbours": "the metric counts all Services",
        "family": "the metric counts IPv4 rules",
    },
)
def test_dropped_internal_traffic_is_counted(three_zones: Cluster) -> None:
    here, elsewhere = (proxy_metrics(three_zones, node) for node in ("a1", "b1"))
    internal, external = {"traffic_policy": "internal"}, {"traffic_policy": "external"}
    service = three_zones.create_service(internal_traffic_policy="Local", ipFamilies=["IPv4"])
    (a1,) = three_zones.run_servers(on=["a1"])
    elsewhere.expect(NO_LOCAL, internal, by=0)

    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": NO_ANSWER})
    elsewhere.expect(NO_LOCAL, internal, by=1)
    elsewhere.expect(NO_LOCAL, external, by=0)
    here.expect(NO_LOCAL, by=0)
    three_zones.unpublish(service)
    elsewhere.expect(NO_LOCAL, by=0)


@requirement(
    "METRICS/dropped-external-traffic-is-counted",
    "The metric no_local_endpoints_total with traffic_policy external counts the Services whose external traffic a "
    "node drops because all endpoints are on other nodes; it is updated when a local endpoint is added.",
    level=MUST,
    features={EXTERNAL_POLICY, NODE_PORT, PROXY_METRICS},
    source="Kubernetes, metrics of kube-proxy",
    kills={"drops-counted-for-the-other-policy", "ignores-external-local", "proxy-metrics-never-change"},
    fixes={
        "ports": "the metric counts ports",
        "neighbours": "the metric counts all Services",
        "family": "the metric counts IPv4 rules",
    },
)
def test_dropped_external_traffic_is_counted(three_zones: Cluster) -> None:
    here, elsewhere = (proxy_metrics(three_zones, node) for node in ("a1", "b1"))
    internal, external = {"traffic_policy": "internal"}, {"traffic_policy": "external"}
    service = three_zones.create_service(type="NodePort", external_traffic_policy="Local", ipFamilies=["IPv4"])
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(
        three_zones, service, {external_client("a1"): {a1}, external_client("b1"): NO_ANSWER}, to="node-port"
    )
    elsewhere.expect(NO_LOCAL, external, by=1)
    elsewhere.expect(NO_LOCAL, internal, by=0)
    here.expect(NO_LOCAL, by=0)

    three_zones.publish(service, [endpoint(a1), endpoint(b1)])
    elsewhere.expect(NO_LOCAL, by=0)
