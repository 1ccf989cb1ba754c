"""Endpoints of pods in each phase, of each kind of Service, and of pods that share an address."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

from conformance.features import ENDPOINT_SLICES
from trafficdist import (
    MUST,
    SHOULD,
    Cluster,
    Port,
    Service,
    expect_conditions,
    expect_eventually,
    expect_hints,
    manifests,
    requirement,
)

WEB = {"app": "web"}

ENDED = ("Succeeded", "Failed")
LASTING = ("Pending", "Running", "Unknown")
RESTART_POLICIES = ("Always", "OnFailure", "Never")
OTHER_CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "example.org/gate")

SERVICES: dict[str, dict[str, Any]] = {
    "cluster-ip": {},
    "headless": {"clusterIP": "None"},
    "node-port": {"type": "NodePort"},
    "load-balancer": {"type": "LoadBalancer"},
    "unready-too": {"publishNotReadyAddresses": True},
    "affinity": {"sessionAffinity": "ClientIP"},
    "internal-local": {"internal_traffic_policy": "Local"},
    "external-local": {"type": "NodePort", "external_traffic_policy": "Local"},
    "udp": {"ports": [Port(80, "UDP")]},
    "sctp": {"ports": [Port(80, "SCTP")]},
}
"""Arguments of `create_service` for a Service of each type, policy, affinity and protocol."""


def _services(cluster: Cluster) -> list[Service]:
    return [cluster.create_service(name, selector=WEB, **fields) for name, fields in SERVICES.items()]


def _create_reported(cluster: Cluster, name: str, node: str, **fields: Any) -> None:
    """Create a running pod that no kubelet reports on, so that only the scenario changes its status."""
    cluster.create_pod(name, node, labels=WEB, phase="Pending", **fields)
    _report(cluster, name, phase="Running")


def _report(cluster: Cluster, name: str, **status: Any) -> None:
    cluster.api.patch("pods", cluster.namespace, name, {"status": status}, subresource="status")


@requirement(
    "SLICE/ended-pods-are-no-endpoints",
    "Pods in phase Succeeded or Failed are not endpoints of any kind of Service, whatever their readiness and "
    "restartPolicy, even if they were endpoints before, and even while they are being deleted.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointSlice; Kubernetes, Pod Lifecycle (all containers have terminated, and do not restart)",
    kills={
        "keeps-ended-pods",
        "keeps-failed-pods",
        "keeps-failed-pods-of-policy-always",
        "keeps-failed-pods-of-policy-never",
        "keeps-failed-pods-of-policy-onfailure",
        "keeps-pods-that-fail-later",
        "keeps-succeeded-pods",
        "keeps-succeeded-pods-of-policy-always",
        "keeps-ended-pods-that-are-deleted",
    },
)
def test_ended_pods_are_no_endpoints(three_zones: Cluster) -> None:
    services = _services(three_zones)
    three_zones.create_pod("running", "a1", labels=WEB)
    for phase, policy, ready in product(ENDED, RESTART_POLICIES, (True, False)):
        name = f"{phase}-{policy}-{'ready' if ready else 'unready'}".lower()
        three_zones.create_pod(name, "b1", labels=WEB, phase=phase, restart_policy=policy, ready=ready)
    later = {f"later-{phase}-{policy}".lower(): (phase, policy) for phase, policy in product(ENDED, RESTART_POLICIES)}
    for name, (_, policy) in later.items():
        _create_reported(three_zones, name, "a2", restart_policy=policy)
    leaving = {f"leaving-{phase}".lower(): phase for phase in ENDED}
    for name in leaving:
        _create_reported(three_zones, name, "c1")
    expect_hints(three_zones, services[0], dict.fromkeys(["running", *later, *leaving]))

    for name, phase in leaving.items():
        three_zones.begin_termination(name)
        _report(three_zones, name, phase=phase)  # the containers have stopped, and the pod still exists
    for name, (phase, _) in later.items():
        _report(three_zones, name, phase=phase)  # Ready is unchanged, as when the pod garbage collector acts
    for service in services:
        expect_hints(three_zones, service, {"running": None})


@requirement(
    "SLICE/pods-of-every-other-phase-are-endpoints",
    "Pods in phase Pending, Running or Unknown that have an address are endpoints, whatever their restartPolicy; "
    "whether an endpoint is ready depends only on the readiness of its pod.",
    level=SHOULD,
    features={ENDPOINT_SLICES},
    source="core/v1 ServiceSpec.selector; discovery/v1 EndpointConditions.ready; Kubernetes, Pod Lifecycle (phases)",
    kills={"leaves-out-pending-pods", "leaves-out-pods-of-unknown-phase", "pending-pods-are-never-ready"},
)
def test_pods_of_every_other_phase_are_endpoints(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    conditions = {}
    for phase, policy, ready in product(LASTING, RESTART_POLICIES, (True, False)):
        name = f"{phase}-{policy}-{'ready' if ready else 'unready'}".lower()
        three_zones.create_pod(name, "b1", labels=WEB, phase=phase, restart_policy=policy, ready=ready)
        conditions[name] = (ready, ready, False)
    expect_hints(three_zones, service, dict.fromkeys(conditions))
    expect_conditions(three_zones, service, conditions)


@requirement(
    "SLICE/only-true-means-ready",
    "An endpoint is ready only while the Ready condition of its pod is True: a condition that is False, Unknown or "
    "absent means that it is not ready, even while all other conditions are True.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointConditions; core/v1 PodConditionType (Ready: should be added to the load balancing "
    "pools of all matching services), ConditionStatus (Unknown: Kubernetes cannot decide)",
    kills={"unknown-means-ready", "no-condition-means-ready", "ready-containers-suffice"},
)
def test_only_true_means_ready(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB)
    statuses = {"true": "True", "false": "False", "unknown": "Unknown", "absent": None}

    def report(name: str, status: str | None) -> None:
        others = [{"type": kind, "status": "True"} for kind in OTHER_CONDITIONS]
        _report(three_zones, name, conditions=[*others, *([{"type": "Ready", "status": status}] if status else [])])

    def expect_ready(ready: Mapping[str, bool]) -> None:
        expect_conditions(three_zones, service, {name: (each, each, False) for name, each in ready.items()})

    for name in statuses:
        three_zones.create_pod(name, "a1", labels=WEB, restart_policy="Never")  # no kubelet reports its status
    expect_ready(dict.fromkeys(statuses, True))
    for name, status in statuses.items():
        report(name, status)
    expect_ready({name: status == "True" for name, status in statuses.items()})


@requirement(
    "SLICE/hostname-only-in-the-service-of-the-subdomain",
    "A pod with a hostname and a subdomain is an endpoint with this hostname in the Service that the subdomain names, "
    "and an endpoint without a hostname in every other Service.",
    level=SHOULD,
    features={ENDPOINT_SLICES},
    source="Kubernetes, DNS for Services and Pods (Pod's hostname and subdomain); discovery/v1 Endpoint.hostname",
    kills={"hostname-in-every-service", "pods-have-no-hostnames"},
    fixes={"metadata": "the scenario is about hostnames"},
)
def test_hostname_only_in_the_service_of_the_subdomain(three_zones: Cluster) -> None:
    services = [three_zones.create_service(name, selector=WEB, clusterIP="None") for name in ("db", "db-2")]
    services.append(three_zones.create_service("web", selector=WEB))
    _create_reported(three_zones, "plain", "a1")
    specs = {"db-0": {"hostname": "zero", "subdomain": "db"}, "none": {"subdomain": "db"}, "other": {"hostname": "one"}}
    for number, (name, spec) in enumerate(specs.items(), 1):
        pod = manifests.pod(name, "a1", labels=services[0].object["spec"]["selector"])
        three_zones.api.create("pods", three_zones.namespace, {**pod, "spec": {**pod["spec"], **spec}})
        addresses = {"IPv4": f"192.0.2.{number}", "IPv6": f"2001:db8::{number}"}
        _report(three_zones, name, **manifests.pod_status(addresses, None, ready=True))

    def hostnames(service: Service) -> dict[str, str | None]:
        return {
            endpoint["targetRef"]["name"]: endpoint.get("hostname")
            for each in three_zones.slices(service)
            for endpoint in each.get("endpoints") or ()
        }

    for service in services:
        expected = {"plain": None, "db-0": "zero" if service.name == "db" else None, "none": None, "other": None}
        what = f"hostnames of the endpoints of service {service.name}"
        expect_eventually(three_zones, what, partial(hostnames, service), expected=expected, stays=True)


@requirement(
    "SLICE/pods-of-one-address-are-endpoints-each",
    "Two pods that share an address but have different ports are separate endpoints, each with its own ports; when "
    "one pod is deleted, the other stays an endpoint.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointSlice; EndpointSlice.ports; core/v1 ServicePort.targetPort (named ports)",
    kills={"one-pod-an-address"},
    fixes={"ports": "the scenario compares all ports", "family": "the scenario reads IPv4 slices"},
)
def test_pods_of_one_address_are_endpoints_each(three_zones: Cluster) -> None:
    named = [Port(80, target="web")]
    services = [
        three_zones.create_service(name, selector=WEB, **{"ports": named, **fields})
        for name, fields in SERVICES.items()
        if "ports" not in fields
    ]
    numbers = {"first": 8080, "second": 9090}
    for name, number in numbers.items():
        _create_reported(three_zones, name, "a1", container_ports=[("web", number, "TCP")])
    status = three_zones.api.get("pods", three_zones.namespace, "first")["status"]
    _report(three_zones, "second", podIP=status["podIP"], podIPs=status["podIPs"])

    def ports_of_pods(service: Service) -> list[list[Any]]:
        return sorted(
            [endpoint["targetRef"]["name"], address, port["port"]]
            for each in three_zones.slices(service)
            for endpoint in each.get("endpoints") or ()
            for address in endpoint["addresses"]
            for port in each.get("ports") or ()
            if each["addressType"] == "IPv4"
        )

    def expect_pods(*names: str) -> None:
        for service in services:
            expect_eventually(
                three_zones,
                f"pods, addresses and ports of service {service.name}",
                partial(ports_of_pods, service),
                expected=[[name, status["podIP"], numbers[name]] for name in names],
                stays=True,
            )

    expect_pods("first", "second")
    three_zones.api.delete("pods", three_zones.namespace, "first", grace_seconds=0)
    expect_pods("second")
