"""A proxy keeps running, whatever objects the API server stores."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.features import CLUSTER_IP
from conformance.other_programs import tables_of_newer_nft
from trafficdist import MUST, PROXY, SHOULD, Cluster, endpoint, expect_running, expect_traffic, requirement

ODD_ENDPOINTS: dict[str, Any] = {
    "no-conditions": {"addresses": ["10.245.9.1"]},
    "no-words": {"addresses": ["10.245.9.2"], "conditions": {}, "hints": {}},
    "of-a-strange-node": {"addresses": ["10.245.9.3"], "nodeName": "nobody", "zone": "nowhere"},
    "for-strangers": {
        "addresses": ["10.245.9.4"],
        "hints": {"forZones": [{"name": "nowhere"}], "forNodes": [{"name": "nobody"}]},
    },
    "many-addresses": {"addresses": [f"10.245.8.{number}" for number in range(1, 101)]},
    "terminating-alone": {"addresses": ["10.245.9.5"], "conditions": {"terminating": True}},
}
ODD_SLICES: dict[str, dict[str, Any]] = {
    "empty": {"addressType": "IPv4", "endpoints": [], "ports": []},
    "without-ports": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.245.7.1"]}]},
    "other-ports": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.245.7.2"]}],
        "ports": [{"name": "other", "port": 1, "protocol": "SCTP"}],
    },
    "names": {
        "addressType": "FQDN",
        "endpoints": [{"addresses": ["web.example.org"]}],
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    },
    "other-family": {
        "addressType": "IPv6",
        "endpoints": [{"addresses": ["fd00:10:245::9"]}],
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    },
}
ODD_SERVICES: dict[str, dict[str, Any]] = {
    "headless": {"clusterIP": "None"},
    "alias": {"type": "ExternalName", "externalName": "web.example.org"},
    "sctp": {"ports": [{"port": 80, "protocol": "SCTP"}]},
    "source-ranges": {
        "type": "LoadBalancer",
        "loadBalancerClass": "example.org/none",  # so that no cloud provider creates a load balancer
        "loadBalancerSourceRanges": ["192.0.2.0/24", "10.0.0.0/8"],
    },
    "affinity": {"sessionAffinity": "ClientIP"},
    "policies": {"type": "NodePort", "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local"},
    "external": {"externalIPs": ["192.0.2.99"]},
    "both": {"ports": [{"name": "tcp", "port": 53, "protocol": "TCP"}, {"name": "udp", "port": 53, "protocol": "UDP"}]},
}


@pytest.mark.takes(9)
@requirement(
    "SERVICE/proxy-keeps-running",
    "A proxy keeps running and applying changes, whatever slices and Services the API server stores in this and all "
    "other scenarios of the run.",
    level=MUST,
    features={CLUSTER_IP},
    source="discovery/v1 Endpoint.addresses (consumers must handle different types of addresses)",
    kills={
        "crashes-on-endpoints-without-conditions",
        "crashes-on-slices-of-names",
        "crashes-on-source-ranges",
        "hangs-on-slices-without-ports",
    },
    last=True,
)
def test_proxy_keeps_running(three_zones: Cluster) -> None:
    """Create slices without ports, endpoints or a Service, and endpoints without conditions or on unknown nodes."""
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    with expect_running(three_zones, PROXY):
        write_odd_objects(three_zones)
        three_zones.settle()
        three_zones.publish(service, [endpoint(b1)])
        expect_traffic(three_zones, service, {"a1": {b1}, "c1": {b1}})


@pytest.mark.takes(6)
@requirement(
    "SERVICE/tables-of-other-programs-do-not-matter",
    "A proxy applies changes, also after a restart, while another program has nftables tables on its node that only a "
    "newer version of nft can read.",
    level=SHOULD,
    features={CLUSTER_IP},
    source="Kubernetes issue 136786 (kube-proxy fails to sync in nftables mode when newer nftables sets exist)",
    kills={"reads-tables-of-other-programs"},
)
def test_tables_of_other_programs_do_not_matter(three_zones: Cluster) -> None:
    """Add tables while the proxies run on a1 and c1, and then restart the proxy on a1."""
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}, "c1": {a1}})

    with expect_running(three_zones, PROXY, earlier=False), tables_of_newer_nft(three_zones, ["a1", "c1"]):
        three_zones.publish(service, [endpoint(b1)])
        expect_traffic(three_zones, service, {"a1": {b1}, "c1": {b1}})
        three_zones.restart(PROXY, on=["a1"])
        three_zones.publish(service, [endpoint(a1)])
        expect_traffic(three_zones, service, {"a1": {a1}, "c1": {a1}})


def write_odd_objects(cluster: Cluster) -> None:
    """Create unusual Services and slices that an API server accepts."""
    port = {"name": "", "port": 8080, "protocol": "TCP"}
    alone = {name: {"addressType": "IPv4", "endpoints": [each]} for name, each in ODD_ENDPOINTS.items()}
    slices = {name: {**each, "ports": [port]} for name, each in alone.items()} | ODD_SLICES
    for name, spec in ODD_SERVICES.items():
        wanted = {"metadata": {"name": f"odd-{name}"}, "spec": {"ports": [{"port": 80}], **spec}}
        cluster.api.create("services", cluster.namespace, wanted)
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.98"}]}}}
    cluster.api.patch("services", cluster.namespace, "odd-source-ranges", status, subresource="status")
    cluster.create_service("odd")
    for name, fields in slices.items():
        for owner in ("odd", "odd-headless", "nobody", ""):
            _write(cluster, f"{owner or 'loose'}-{name}", owner, fields)


def _write(cluster: Cluster, name: str, owner: str, fields: dict[str, Any]) -> None:
    labels = {"kubernetes.io/service-name": owner} if owner else {}
    slice_ = {"metadata": {"name": name, "labels": labels}, **fields}
    cluster.api.create("endpointslices", cluster.namespace, slice_)
