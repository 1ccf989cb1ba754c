"""Writes to an existing Service, in the API server: a write of one field leaves all other fields unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.features import TRAFFIC_DISTRIBUTION_FIELD
from conformance.kep_4444_traffic_distribution.test_validation import expect_accepted, patch_service
from trafficdist import MUST, Cluster, Response, manifests, path_of, requirement

BALANCED: dict[str, Any] = {"type": "LoadBalancer", "loadBalancerClass": "trafficdist.dev/none"}
"""No controller implements this loadBalancerClass, so only the tests change the status of the Service."""

OF_LOAD_BALANCERS = {"allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass", "nodePort"}
OF_CLUSTER_IPS = {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}
"""The fields of Services with cluster IPs. Services of type ExternalName do not have these fields."""


@requirement(
    "CHANGES/api-spec-leaves-the-status",
    "A write to a Service's spec leaves its status unchanged, whatever status the request contains; a write to its "
    "status leaves the spec unchanged.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="Kubernetes API Conventions, Spec and Status (writes of the object MUST ignore the status values)",
    kills={"update-wipes-the-status", "status-comes-with-the-spec"},
)
def test_write_of_the_spec_leaves_the_status(three_zones: Cluster) -> None:
    api, namespace = three_zones.api, three_zones.namespace
    api.create("services", namespace, manifests.service("web", **BALANCED))
    api.patch("services", namespace, "web", _status("198.51.100.7"), subresource="status")

    api.patch("services", namespace, "web", {"spec": {"trafficDistribution": "PreferClose"}})
    _expect(three_zones, "after a patch", "198.51.100.7", "PreferClose")
    api.patch("services", namespace, "web", {**_status("198.51.100.8"), "spec": {"internalTrafficPolicy": "Local"}})
    _expect(three_zones, "after a patch with a status", "198.51.100.7", "PreferClose")
    stored = api.get("services", namespace, "web")
    stored["spec"].pop("trafficDistribution", None)
    api.replace("services", namespace, {key: each for key, each in stored.items() if key != "status"})
    _expect(three_zones, "after an update without a status", "198.51.100.7", None)
    wrong = {**_status("198.51.100.8"), "spec": {"trafficDistribution": "PreferClose"}}
    api.patch("services", namespace, "web", wrong, subresource="status")
    _expect(three_zones, "after a write of the status", "198.51.100.8", None)


def _status(address: str) -> dict[str, Any]:
    return {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}


def _expect(cluster: Cluster, when: str, address: str, value: str | None) -> None:
    """Read the Service back, and expect this load balancer address and this value of trafficDistribution."""
    stored = cluster.api.get("services", cluster.namespace, "web")
    ingress = ((stored.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    cluster.expect_equal(
        f"service web {when}",
        expected={"ingress": [address], "trafficDistribution": value},
        observed={
            "ingress": [each.get("ip") for each in ingress],
            "trafficDistribution": stored["spec"].get("trafficDistribution"),
        },
    )


@requirement(
    "CHANGES/api-stores-the-field-for-each-type",
    "trafficDistribution is stored for Services of type ClusterIP (with and without a cluster IP), NodePort and "
    "LoadBalancer, and is kept when the type changes among them; it can be set when ExternalName becomes ClusterIP.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Proposal",
    kills={"external-names-for-ever", "field-for-cluster-ips-only", "type-change-drops-the-field"},
)
def test_field_is_stored_for_each_type(three_zones: Cluster) -> None:
    api, namespace = three_zones.api, three_zones.namespace
    kinds: dict[str, dict[str, Any]] = {
        "cluster-ip": {"type": "ClusterIP"},
        "headless": {"clusterIP": "None"},
        "node-port": {"type": "NodePort"},
        "load-balancer": BALANCED,
    }
    for name, fields in kinds.items():
        api.create("services", namespace, manifests.service(name, trafficDistribution="PreferClose", **fields))
        _expect_value(three_zones, name, f"created as {name}")

    for service_type in ("NodePort", "ClusterIP", "LoadBalancer", "ClusterIP"):
        of_class = BALANCED["loadBalancerClass"] if service_type == "LoadBalancer" else None
        changed = {"spec": {"type": service_type, "loadBalancerClass": of_class}}
        answer = patch_service(three_zones, "cluster-ip", changed)
        expect_accepted(three_zones, f"type {service_type} of service cluster-ip", answer)
        _expect_value(three_zones, "cluster-ip", f"as {service_type}")

    alias: dict[str, Any] = {"type": "ExternalName", "externalName": "web.example.com"}
    api.create("services", namespace, manifests.service("alias", **alias))
    changed = {"spec": {"type": "ClusterIP", "externalName": None, "trafficDistribution": "PreferClose"}}
    expect_accepted(three_zones, "type ClusterIP after ExternalName", patch_service(three_zones, "alias", changed))
    _expect_value(three_zones, "alias", "once of type ExternalName")


@pytest.mark.takes(6)
@requirement(
    "CHANGES/api-wipes-what-a-type-lacks",
    "When the type of a Service changes, the API server clears fields that the new type does not have, even if the "
    "request contains them: node ports, health check node port, load balancer class and node port allocation; for "
    "ExternalName, also cluster IPs and IP families.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="core/v1 ServicePort.nodePort, ServiceSpec.healthCheckNodePort, allocateLoadBalancerNodePorts, "
    "loadBalancerClass, clusterIP, clusterIPs, ipFamilies, ipFamilyPolicy (this field will be wiped when updating)",
    kills={"types-keep-what-they-lack"},
)
def test_fields_that_a_type_lacks_are_wiped(three_zones: Cluster) -> None:
    balanced = {**BALANCED, "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": True}
    three_zones.api.create("services", three_zones.namespace, manifests.service("web", **balanced))
    stored = three_zones.api.get("services", three_zones.namespace, "web")
    _expect_fields(three_zones, "of type LoadBalancer", {*OF_LOAD_BALANCERS, *OF_CLUSTER_IPS})

    stored["spec"] |= {"type": "ClusterIP", "externalTrafficPolicy": None}
    expect_accepted(three_zones, "type ClusterIP of service web", _replace(three_zones, stored))
    _expect_fields(three_zones, "once of type ClusterIP", OF_CLUSTER_IPS)

    stored = three_zones.api.get("services", three_zones.namespace, "web")
    stored["spec"] |= {"type": "ExternalName", "externalName": "web.example.com"}
    expect_accepted(three_zones, "type ExternalName of service web", _replace(three_zones, stored))
    _expect_fields(three_zones, "once of type ExternalName", set())


def _replace(cluster: Cluster, service: dict[str, Any]) -> Response:
    path = path_of("services", cluster.namespace, service["metadata"]["name"])
    return cluster.api.request("PUT", path, service)


def _expect_fields(cluster: Cluster, when: str, expected: set[str]) -> None:
    """Read the Service back, and expect exactly these type-dependent fields."""
    spec = cluster.api.get("services", cluster.namespace, "web")["spec"]
    seen = {name for name in OF_LOAD_BALANCERS | OF_CLUSTER_IPS if spec.get(name) not in (None, "", [])}
    seen |= {"nodePort"} if any(each.get("nodePort") for each in spec["ports"]) else set()
    cluster.expect_equal(f"fields of service web, {when}", expected=sorted(expected), observed=sorted(seen))


@pytest.mark.takes(8)
@requirement(
    "CHANGES/api-stores-load-balancer-addresses",
    "The status of a LoadBalancer Service stores IP addresses of both families, with and without ipMode, and "
    "hostnames; they can be replaced and removed.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="core/v1 LoadBalancerStatus.ingress; LoadBalancerIngress (ip, hostname, ipMode); KEP-1860",
    kills={"one-ingress-point", "no-ip-mode"},
)
def test_load_balancer_addresses_are_stored(three_zones: Cluster) -> None:
    three_zones.api.create("services", three_zones.namespace, manifests.service("web", **BALANCED))
    address, name = {"ip": "198.51.100.7"}, {"hostname": "lb.example.com"}
    modes = [{"ip": "198.51.100.8", "ipMode": "VIP"}, {"ip": "2001:db8::8", "ipMode": "Proxy"}]
    points: tuple[list[dict[str, str]], ...] = ([address], [name], modes, [address, name, *modes], [])
    for ingress in points:
        shown = ", ".join(" ".join(each.values()) for each in ingress) or "no address"
        answer = patch_service(three_zones, "web", {"status": {"loadBalancer": {"ingress": ingress}}}, "status")
        expect_accepted(three_zones, f"a status of service web with {shown}", answer)
        status = three_zones.api.get("services", three_zones.namespace, "web").get("status") or {}
        three_zones.expect_equal(
            f"addresses of service web, written as {shown}",
            expected=[{"ip": each.get("ip"), "hostname": each.get("hostname")} for each in ingress],
            observed=[
                {"ip": each.get("ip"), "hostname": each.get("hostname")}
                for each in (status.get("loadBalancer") or {}).get("ingress") or []
            ],
        )


def _expect_value(cluster: Cluster, name: str, when: str) -> None:
    stored = cluster.api.get("services", cluster.namespace, name)["spec"]
    what = f"trafficDistribution of service {name} {when}"
    cluster.expect_equal(what, expected="PreferClose", observed=stored.get("trafficDistribution"))
