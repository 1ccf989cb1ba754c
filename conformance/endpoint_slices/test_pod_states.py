"""Endpoints of pods in each phase, of each kind of Service, and of pods that share an address."""

from __future__ import annotations

from functools import partial
from typing import Any

from conformance.features import ENDPOINT_SLICES
from trafficdist import (
    MUST,
    Cluster,
    Port,
    Service,
    expect_eventually,
    expect_hints,
    requirement,
)

WEB = {"app": "web"}

ENDED = ("Succeeded", "Failed")

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
"""One Service of each type, policy, affinity and protocol."""


def _services(cluster: Cluster) -> list[Service]:
    return [cluster.create_service(name, selector=WEB, **fields) for name, fields in SERVICES.items()]


def _create_reported(cluster: Cluster, name: str, node: str, **fields: Any) -> None:
    """Create a running pod that no kubelet reports on, so that the scenario may change its status."""
    cluster.create_pod(name, node, labels=WEB, phase="Pending", **fields)
    _report(cluster, name, phase="Running")


def _report(cluster: Cluster, name: str, **status: Any) -> None:
    cluster.api.patch("pods", cluster.namespace, name, {"status": status}, subresource="status")


@requirement(
    "SLICE/ended-pods-are-no-endpoints",
    "Pods in phase Succeeded or Failed are not endpoints of any kind of Service, ready or not, whatever their "
    "restartPolicy, and also if they have ended after they were endpoints.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointSlice; Kubernetes, Pod Lifecycle (all containers have terminated, and do not restart)",
    kills={"keeps-ended-pods", "keeps-failed-pods", "keeps-succeeded-pods", "keeps-pods-that-fail-later"},
)
def test_ended_pods_are_no_endpoints(three_zones: Cluster) -> None:
    services = _services(three_zones)
    three_zones.create_pod("running", "a1", labels=WEB)
    for phase in ENDED:
        for ready in (True, False):
            name = f"{phase.lower()}-{'ready' if ready else 'unready'}"
            three_zones.create_pod(name, "b1", labels=WEB, phase=phase, ready=ready)
    later = {f"later-{phase.lower()}": phase for phase in ENDED}
    for name in later:
        _create_reported(three_zones, name, "a2")
    expect_hints(three_zones, services[0], dict.fromkeys(["running", *later]))

    for name, phase in later.items():
        _report(three_zones, name, phase=phase)  # its condition Ready stays, as where a node is lost
    for service in services:
        expect_hints(three_zones, service, {"running": None})


@requirement(
    "SLICE/pods-of-one-address-are-endpoints-each",
    "Of two pods with one address and different ports, each is an endpoint with its own ports; one stays when the "
    "other is deleted.",
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
