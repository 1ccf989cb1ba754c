"""Each mutant that misses changes misses only the changes that its description names.

In each case of `CHANGES`, one property of a Service or a slice changes. `MISSED` lists the cases in which a mutant
differs from the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from mutants import MUTANTS
from reference.client import Event, Object
from reference.features import Features
from tests.conformance.api_and_dns_requests import REFERENCE
from tests.conformance.proxy_cases import HOST, NODES, OWN, OWN_ADDRESSES, SYNCED, ZONE, ProxyCase, Seen, run_case

PORT = {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30000}
SERVICE: Object = {
    "metadata": {"namespace": "default", "name": "web", "uid": "1", "labels": {}},
    "spec": {
        "type": "LoadBalancer",
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "ports": [PORT],
        "externalIPs": ["198.51.100.1"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}},
        "externalTrafficPolicy": "Local",
    },
    "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}},
}


def _node(name: str, *, host: str = "", zone: str = "", uid: str = "1") -> Object:
    addresses = OWN_ADDRESSES if name == OWN else ()
    return {
        "metadata": {"name": name, "uid": uid, "labels": {HOST: host or name, ZONE: zone or name[0]}},
        "spec": {},
        "status": {"addresses": [{"type": "InternalIP", "address": each} for each in addresses]},
    }


def _endpoint(number: int, **fields: Any) -> Object:
    own = {"nodeName": OWN, "zone": "a", "conditions": {"ready": True}, "hints": {"forZones": [{"name": "a"}]}}
    return {"addresses": [f"10.244.0.{number}"], **own, **fields}


def _slice(name: str, *endpoints: Object, service: str = "web", manager: str = "one", **fields: Any) -> Object:
    labels = {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": manager}
    own = {"addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}
    return {
        "metadata": {"namespace": "default", "name": name, "labels": labels},
        "endpoints": list(endpoints),
        **own,
        **fields,
    }


def _service(*, status: Sequence[Object] = (), **spec: Any) -> Object:
    changed = {**deepcopy(SERVICE), "spec": {**SERVICE["spec"], **spec}}
    return {**changed, "status": {"loadBalancer": {"ingress": list(status)}}} if status else changed


def _anew(name: str, uid: str, **spec: Any) -> Object:
    made = _service(**spec)
    return {**made, "metadata": {**made["metadata"], "name": name, "uid": uid}}


def _labelled(**labels: str) -> Object:
    return {**SERVICE, "metadata": {**SERVICE["metadata"], "labels": labels}}


Told = tuple[str, str, Object]

AWAY = _endpoint(1, hints={"forZones": [{"name": "b"}]})
SECOND = _endpoint(2, nodeName="b1", zone="b", hints={"forZones": [{"name": "b"}]})
FIRST = _slice("web-1", _endpoint(1), SECOND)
NAMED = {**_endpoint(3), "addresses": ["web.example.org"]}
NEIGHBOUR: Told = ("ADDED", "endpointslices", _slice("web-2", _endpoint(3, nodeName="a2")))
PLAIN = {"sessionAffinity": "None"}
OTHER_PROXY = {"service.kubernetes.io/service-proxy-name": "other"}


def _labelled_slice(**labels: str | None) -> Object:
    own = {**FIRST["metadata"]["labels"], **labels}
    return {
        **FIRST,
        "metadata": {**FIRST["metadata"], "labels": {key: own[key] for key in own if own[key] is not None}},
    }


def _modified(*objects: Object) -> list[Told]:
    return [("MODIFIED", "services" if "spec" in each else "endpointslices", each) for each in objects]


def _annotated(times: int) -> list[Told]:
    return _modified(*([SERVICE] * times), _service(ports=[{**PORT, "port": 81}]))


CHANGES: dict[str, list[Told]] = {
    "a port": _modified(_service(ports=[{**PORT, "port": 81}])),
    "a port name": _modified(_service(ports=[{**PORT, "name": "other"}])),
    "a health check node port": _modified(_service(healthCheckNodePort=31_000)),
    "no use for a health check node port": _modified(
        _service(healthCheckNodePort=31_000), _service(externalTrafficPolicy="Cluster")
    ),
    "a node port": _modified(_service(ports=[{**PORT, "nodePort": 30001}])),
    "type ClusterIP": _modified(_service(type="ClusterIP", ports=[{**PORT, "nodePort": 0}], status=[{}])),
    "type ExternalName": _modified(_service(type="ExternalName", clusterIP="", clusterIPs=[])),
    "a load balancer address": _modified(_service(status=[{"ip": "192.0.2.2", "ipMode": "VIP"}])),
    "ipMode": _modified(_service(status=[{"ip": "192.0.2.1", "ipMode": "Proxy"}])),
    "an external IP": _modified(_service(externalIPs=["198.51.100.2"])),
    "source ranges": _modified(_service(loadBalancerSourceRanges=["192.0.2.0/24"])),
    "source ranges of both families": _modified(
        _service(
            clusterIPs=["10.96.0.1", "fd00:96::1"],
            loadBalancerSourceRanges=["192.0.2.0/24", "fd00::/16"],
            status=[{"ip": "192.0.2.1"}, {"ip": "fd00:2::1"}],
        )
    ),
    "source ranges removed": _modified(_service(loadBalancerSourceRanges=["192.0.2.0/24"]), SERVICE),
    "the time of affinity": _modified(_service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 8}})),
    "the name of a proxy": _modified(_labelled(**OTHER_PROXY)),
    "a new Service with the name of a proxy": [
        ("DELETED", "services", SERVICE),
        ("ADDED", "services", _labelled(**OTHER_PROXY)),
    ],
    "a Service of the same name": [("DELETED", "services", SERVICE), ("ADDED", "services", _anew("web", "2", **PLAIN))],
    "a Service of the same address": [
        ("DELETED", "services", SERVICE),
        ("ADDED", "services", _anew("api", "2", **PLAIN)),
        ("ADDED", "endpointslices", _slice("api-1", _endpoint(3), service="api")),
    ],
    "the port of a slice": _modified({**FIRST, "ports": [{**FIRST["ports"][0], "port": 9090}]}),
    "the port name of a slice": _modified({**FIRST, "ports": [{**FIRST["ports"][0], "name": "other"}]}),
    "an address": _modified(_slice("web-1", _endpoint(3), SECOND)),
    "no endpoints": _modified(_slice("web-1")),
    "the Service of a slice": _modified(_slice("web-1", *FIRST["endpoints"], service="api")),
    "no Service of a slice": _modified(_labelled_slice(**{"kubernetes.io/service-name": None})),
    "a headless slice": _modified(_labelled_slice(**{"service.kubernetes.io/headless": ""})),
    "empty hints": _modified(_slice("web-1", *(({**each, "hints": {}}) for each in FIRST["endpoints"]))),
    "a zone": _modified(_slice("web-1", *(({**each, "zone": "b"}) for each in FIRST["endpoints"]))),
    "a node name": _modified(_slice("web-1", _endpoint(1, nodeName="b1"), SECOND)),
    "no node name": _modified(_slice("web-1", _endpoint(1), {**SECOND, "nodeName": None})),
    "one of two slices with an address": [
        ("ADDED", "endpointslices", _slice("web-2", _endpoint(1))),
        ("DELETED", "endpointslices", _slice("web-2", _endpoint(1))),
    ],
    "another slice with the same address": [
        ("ADDED", "endpointslices", _slice("web-2", _endpoint(1, nodeName="b1"))),
        ("DELETED", "endpointslices", FIRST),
    ],
    "another manager": [("ADDED", "endpointslices", _slice("web-2", _endpoint(3), manager="two"))],
    "a hostname label": [("MODIFIED", "nodes", _node(OWN, host="b1"))],
    "the internal policy": [NEIGHBOUR, *_modified(_service(internalTrafficPolicy="Local"))],
    "the internal policy, there and back": [NEIGHBOUR, *_modified(_service(internalTrafficPolicy="Local"), SERVICE)],
    "the external policy": [NEIGHBOUR, *_modified(_service(externalTrafficPolicy="Cluster"))],
    "affinity": _modified(_service(**PLAIN)),
    "a second cluster IP": _modified(_service(clusterIPs=["10.96.0.1", "fd00::1"])),
    "an external IP, there and back": _modified(_service(externalIPs=["198.51.100.2"]), SERVICE),
    "a protocol": _modified(_service(ports=[{**PORT, "protocol": "UDP"}])),
    "a slice of names": [("ADDED", "endpointslices", {**_slice("web-2", _endpoint(3)), "addressType": "FQDN"})],
    "a change beside a slice of names": [
        ("ADDED", "endpointslices", {**_slice("web-2", NAMED), "addressType": "FQDN"}),
        *_modified(_slice("web-1", SECOND)),
    ],
    "an endpoint of two addresses": _modified(
        _slice("web-1", {**_endpoint(1), "addresses": [_endpoint(each)["addresses"][0] for each in (1, 3)]}, SECOND)
    ),
    "no node port": _modified({**_service(ports=[{**PORT, "nodePort": 0}]), "status": SERVICE["status"]}),
    "a Node of the same name": [("DELETED", "nodes", _node(OWN)), ("ADDED", "nodes", _node(OWN, zone="b", uid="2"))],
    "a lost node": [("DELETED", "nodes", _node(OWN))],
    "trafficDistribution": _modified(_service(trafficDistribution="PreferClose")),
    "conditions": _modified(_slice("web-1", _endpoint(1, conditions={"ready": False}), SECOND)),
    "conditions, there and back": _modified(_slice("web-1", _endpoint(1, conditions={"ready": False}), SECOND), FIRST),
    "hints": _modified(_slice("web-1", AWAY, SECOND)),
    "hints, there and back": _modified(_slice("web-1", AWAY, SECOND), FIRST),
    "sixty changes": _annotated(60),
    "a thousand changes": _annotated(1000),
    "a deletion at a return": [("SYNCED", "", {}), ("DELETED", "services", SERVICE)],
}

OF_SERVICES = {name for name in CHANGES if name.startswith("type ")}
MANY = {"sixty changes", "a thousand changes"}
INTERNAL = {"the internal policy", "the internal policy, there and back"}
EXTERNAL_IPS = {"an external IP", "an external IP, there and back"}
CONDITIONS = {"conditions", "conditions, there and back"}
HINTS = {"empty hints", "hints", "hints, there and back"}
MISSED: dict[str, set[str]] = {
    "ports-are-frozen": {"a port", "a port name", "a protocol"} | MANY,
    "type-is-frozen": OF_SERVICES,
    "external-name-keeps-rules": {"type ExternalName"},
    "external-name-keeps-what-is-outside": {"type ExternalName"},
    "ip-mode-is-frozen": {"ipMode"},
    "ignores-ip-mode": {"ipMode"},
    "source-ranges-are-frozen": {"source ranges", "source ranges removed", "source ranges of both families"},
    "source-ranges-outlive-their-removal": {"source ranges removed"},
    "source-ranges-of-ipv4-alone": {"source ranges of both families"},
    "affinity-timeout-is-frozen": {"the time of affinity"},
    "proxy-name-at-first-sight": {"the name of a proxy"},
    "proxy-name-of-living-services-alone": {"a new Service with the name of a proxy"},
    "remembers-a-name": {"a Service of the same name"},
    "addresses-are-used-once": {"a Service of the same name", "a Service of the same address"},
    "slice-port-names-are-frozen": {"the port name of a slice"},
    "addresses-of-endpoints-are-frozen": {"an address"},
    "emptied-slices-keep-their-pods": {"no endpoints"},
    "relabelled-slices-stay": {"the Service of a slice", "no Service of a slice"},
    "relabelled-slices-are-of-both": {"the Service of a slice", "no Service of a slice"},
    "slices-without-service-stay": {"no Service of a slice"},
    "headless-slices-stay": {"a headless slice"},
    "empty-hints-change-nothing": {"empty hints"},
    "new-zone-becomes-the-hint": {"a zone"},
    "node-names-are-frozen": {"a node name"},
    "endpoints-without-node-are-local": {"no node name"},
    "one-deletion-takes-an-address": {"one of two slices with an address", "another slice with the same address"},
    "first-word-on-an-address-counts": {"another slice with the same address", "a node name"} | CONDITIONS | HINTS,
    "first-manager-alone": {"another manager"},
    "reads-slices-of-names": {"a slice of names", "a change beside a slice of names"},
    "stops-at-slices-of-names": {"a change beside a slice of names"},
    "uses-every-address": {"an endpoint of two addresses"},
    "needs-node-ports-for-load-balancers": {"no node port"},
    "skips-endpoints-of-lost-nodes": {"a lost node", "a Node of the same name"},
    "knows-its-node-by-the-uid": {"a Node of the same name"},
    "named-by-its-hostname-label": {"a hostname label"},
    "freezes-after-fifty-changes": MANY,
    "freezes-after-nine-hundred-changes": {"a thousand changes"},
    "misses-deletions-at-a-return": {"a deletion at a return"},
    "freezes-internal-policy": INTERNAL,
    "freezes-external-policy": {"the external policy"},
    "freezes-affinity": {"affinity"},
    "freezes-health-check-ports": {"a health check node port", "no use for a health check node port"},
    "health-port-outlives-its-policy": {"no use for a health check node port"},
    "health-port-is-never-closed": {"no use for a health check node port"},
    "former-owner-takes-addresses-along": {"a port name"},
    "freezes-cluster-ips": {"a second cluster IP", "source ranges of both families"},
    "freezes-external-ips": EXTERNAL_IPS,
    "freezes-ingress": {"a load balancer address", "ipMode", "type ClusterIP", "source ranges of both families"},
    "freezes-node-ports": {"a node port", "no node port", "type ClusterIP"},
    "freezes-protocols": {"a protocol"},
    "freezes-hints": HINTS,
    "freezes-conditions": CONDITIONS,
    "freezes-endpoints": {"a node name", "an address", "no endpoints", "a change beside a slice of names"}
    | CONDITIONS
    | HINTS,
    "freezes-slice-ports": {"the port of a slice"},
    "never-restores-internal-policy": {"the internal policy, there and back"},
    "never-restores-external-ips": {"an external IP, there and back"},
    "never-restores-conditions": {"conditions, there and back"},
    "never-restores-hints": {"hints, there and back"},
}


def _case(change: str) -> ProxyCase:
    begin = [*(Event("ADDED", "nodes", _node(name)) for name in NODES), Event("ADDED", "services", SERVICE)]
    begin += [Event("ADDED", "endpointslices", FIRST), SYNCED]
    told = [Event(*each) for each in CHANGES[change]]
    return ProxyCase(Features(), [begin, told] if change in MANY else [begin, *([each] for each in told)])


@cache
def _right(change: str) -> list[Seen]:
    return run_case(REFERENCE.proxy, _case(change))


@pytest.mark.parametrize("name", MISSED)
def test_mutant_misses_the_changes_of_its_case(name: str) -> None:
    wrong = {change for change in CHANGES if run_case(MUTANTS[name].proxy, _case(change)) != _right(change)}
    assert wrong == MISSED[name]
