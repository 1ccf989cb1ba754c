"""KEP-3015, Monitoring Requirements: the inherited indicators for the time from a change of a pod to the data plane.

A controller writes the time of the change to the slice, and a proxy measures the time since then. The KEP inherits
the objectives from Kubernetes (sig-scalability, network programming latency), which defines both parts.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from conformance.features import CLUSTER_IP, ENDPOINT_SLICES, PROXY_METRICS
from trafficdist import (
    PROXY,
    SHOULD,
    Cluster,
    Pod,
    Service,
    endpoint,
    expect_conditions,
    expect_eventually,
    expect_hints,
    expect_traffic,
    proxy_metrics,
    requirement,
)

WEB = {"app": "web"}
SOURCE = (
    "KEP-3015, Monitoring Requirements (it inherits the existing SLIs around updating EndpointSlices and programming "
    "the data plane); core/v1 EndpointsLastChangeTriggerTime"
)
ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
MEASURED = "kubeproxy_network_programming_duration_seconds"
BEGUN = "2026-01-02T03:04:05Z"
AGE = 1.0  # minimum age of a change that a proxy measures, in seconds

OTHER_SYNCS = {
    "beside": "a later sync for another reason removes the time",
    "labels": "a later sync for another reason removes the time",
    "nodes": "a later sync for another reason removes the time",
    "components=restarted": "after a restart, a controller does not know which times are new",
}
OTHER_CHANGES = {
    "neighbours": "the metric measures changes of all Services",
    "history": "the metric measures all changes",
    "components": "a restart resets the metric",
}


def _times(cluster: Cluster, service: Service) -> set[str]:
    """Return the annotated change times of those slices of a Service that have endpoints, in UTC."""
    written = [each["metadata"].get("annotations") or {} for each in cluster.slices(service) if each.get("endpoints")]
    return {_in_utc(each[ANNOTATION]) if ANNOTATION in each else "none" for each in written}


def _in_utc(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return text


def _become_ready(cluster: Cluster, service: Service, name: str, *others: str) -> None:
    """Create a pod that no kubelet reports on. When the controller knows the pod, report it as ready since `BEGUN`."""
    cluster.create_pod(name, "a1", labels=WEB, ready=False, restart_policy="Never")
    known = dict.fromkeys(others, (True, True, False))
    expect_conditions(cluster, service, {**known, name: (False, False, False)})
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": BEGUN}]
    cluster.api.patch("pods", cluster.namespace, name, {"status": {"conditions": ready}}, subresource="status")
    expect_conditions(cluster, service, {**known, name: (True, True, False)})


@requirement(
    "KEP-3015/slices-have-the-time-of-the-change",
    "A slice that a controller writes because a pod has become ready has the annotation "
    "endpoints.kubernetes.io/last-change-trigger-time with the time at which the pod became ready.",
    level=SHOULD,
    features={ENDPOINT_SLICES},
    source=SOURCE,
    kills={"slices-without-trigger-time", "trigger-time-of-the-write"},
    fixes=OTHER_SYNCS,
)
def test_slices_have_the_time_of_the_change(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    _become_ready(three_zones, service, "p1")
    expect_eventually(
        three_zones,
        f"times of changes in the slices of service {service.name}",
        lambda: sorted(_times(three_zones, service)),
        expected=[BEGUN],
        stays=True,
    )


@requirement(
    "KEP-3015/slices-lose-the-time-of-an-earlier-change",
    "A slice that a controller writes because a pod was removed does not keep the time of an earlier change in the "
    "annotation endpoints.kubernetes.io/last-change-trigger-time.",
    level=SHOULD,
    features={ENDPOINT_SLICES},
    source=SOURCE,
    kills={"keeps-old-trigger-times"},
    fixes=OTHER_SYNCS,
)
def test_slices_lose_the_time_of_an_earlier_change(three_zones: Cluster) -> None:
    three_zones.create_pod("p2", "a1", labels=WEB)
    service = three_zones.create_service(selector=WEB)
    _become_ready(three_zones, service, "p1", "p2")
    three_zones.api.delete("pods", three_zones.namespace, "p1", grace_seconds=0)
    expect_hints(three_zones, service, {"p2": None})
    three_zones.expect_equal(
        f"slices of service {service.name} with the time of an earlier change",
        expected=[],
        observed=sorted(_times(three_zones, service) & {BEGUN}),
    )


def _publish_ready(cluster: Cluster, service: Service, pod: Pod, begun: str) -> None:
    """Make a pod ready in the published slices, and give `begun` as the time of the change."""
    ready = {"conditions": {"ready": True}}
    own = {*pod.addresses.values()}
    for each in cluster.slices(service):
        endpoints = [{**one, **ready} if own & {*one["addresses"]} else one for one in each.get("endpoints") or ()]
        if endpoints != (each.get("endpoints") or []):
            changed = {"metadata": {"annotations": {ANNOTATION: begun}}, "endpoints": endpoints}
            cluster.api.patch("endpointslices", cluster.namespace, each["metadata"]["name"], changed)


def _with_unready_endpoint(cluster: Cluster) -> tuple[Service, Pod]:
    service = cluster.create_service()
    (a1,) = cluster.run_servers(on=["a1"])
    cluster.publish(service, [endpoint(a1, ready=False, serving=False)])
    return service, a1


def _measured(cluster: Cluster, node: str) -> tuple[float, float]:
    """Return the number of changes that the proxy of a node has measured, and their total time in seconds."""
    metrics = cluster.metrics(PROXY, node)
    return metrics.total(f"{MEASURED}_count"), metrics.total(f"{MEASURED}_sum")


@requirement(
    "KEP-3015/proxy-measures-the-time-since-the-change",
    "The histogram kubeproxy_network_programming_duration_seconds of each node counts a change of a slice, with the "
    "seconds from the time in the annotation endpoints.kubernetes.io/last-change-trigger-time until the rules have "
    "changed.",
    level=SHOULD,
    features={CLUSTER_IP, PROXY_METRICS},
    source=SOURCE,
    kills={
        "programming-time-from-the-event",
        "programming-time-in-milliseconds",
        "programming-time-is-never-counted",
        "proxy-metrics-never-change",
    },
    fixes=OTHER_CHANGES,
)
def test_proxy_measures_the_time_since_the_change(three_zones: Cluster) -> None:
    service, a1 = _with_unready_endpoint(three_zones)
    three_zones.settle()
    begun = time.time()
    before = {node: _measured(three_zones, node) for node in ("a1", "b1")}
    expect_eventually(three_zones, f"{AGE:g} s have passed", lambda: time.time() - begun > AGE, expected=True)
    _publish_ready(three_zones, service, a1, datetime.fromtimestamp(begun, UTC).isoformat())
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}})

    for node, measured in before.items():
        _expect_measured(three_zones, node, measured, begun)


def _expect_measured(cluster: Cluster, node: str, before: tuple[float, float], begun: float) -> None:
    def is_right() -> bool:
        now = _measured(cluster, node)
        changes, seconds = now[0] - before[0], now[1] - before[1]
        # A factor of two allows for clocks that differ.
        return changes > 0 and AGE / 2 < seconds / changes < 2 * (time.time() - begun)

    expect_eventually(
        cluster,
        f"metric {MEASURED} of the proxy on {node} has the seconds since the change",
        is_right,
        expected=True,
        explain=lambda: f"changes and seconds before {before}, now {_measured(cluster, node)}",
    )


@requirement(
    "KEP-3015/proxy-measures-no-change-from-before-its-start",
    "The histogram kubeproxy_network_programming_duration_seconds does not count a change from before the start of the "
    "proxy.",
    level=SHOULD,
    features={CLUSTER_IP, PROXY_METRICS},
    source=SOURCE,
    kills={"measures-changes-before-its-start"},
    fixes=OTHER_CHANGES,
)
def test_proxy_measures_no_change_from_before_its_start(three_zones: Cluster) -> None:
    service, a1 = _with_unready_endpoint(three_zones)
    counted = proxy_metrics(three_zones, "a1")
    _publish_ready(three_zones, service, a1, BEGUN)
    expect_traffic(three_zones, service, {"a1": {a1}})
    counted.expect(f"{MEASURED}_count", by=0)
