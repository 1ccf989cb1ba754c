"""Predict the effect of a change to a Service before the change is applied.

The reference controller computes the hints. The prediction assumes that pods are ready, that the scheduler spreads pods
evenly over zones and then over nodes, and that all releases are the same.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

from explain.case import distinct, slice_port
from explain.cluster import Cluster, ServiceName, key_of, service_of, version_of
from explain.objects import Objects, is_kube_proxy
from explain.placement import floating_point_refuses
from explain.requested_topology import KEYS
from harness.api.client import Object
from harness.errors import UsageError
from reference.apiserver.kinds.service_validation import validate_traffic_distribution
from reference.endpointslice import labels
from reference.endpointslice.hints import CpuHeuristic
from reference.endpointslice.plan import plan_service
from reference.endpointslice.zones import counts
from reference.features import NEWEST, OLDEST, Features
from reference.objects.endpoints import is_ready

FIELD = "trafficDistribution"
MOST_PODS = 10_000


def upgraded(version: str, cluster: Cluster) -> Cluster:
    """Return the cluster after an upgrade to this version, with new hints for all Services. Raises `UsageError`."""
    found = Cluster(_upgraded(cluster.objects, _version(version)), cluster.features.follows)
    return Cluster(with_hints(found, *found.services), cluster.features.follows)


def predicted(cluster: Cluster) -> Cluster:
    """Return the cluster with the slices that the controller would write for the pods, if no slices were read."""
    if "endpointslices" not in cluster.objects.unread:
        return cluster
    nodes, slices = cluster.node_objects, []
    for (namespace, name), service in cluster.services.items():
        plan = plan_service(service, cluster.pods(service) or (), nodes, (), features=cluster.features)
        for number, each in enumerate(plan.create):
            metadata = {**each["metadata"], "name": f"{name}-{number}", "namespace": namespace}
            slices.append({**each, "metadata": metadata})
    return Cluster(replace(cluster.objects, endpointslices=slices), cluster.features.follows)


def supposed(assumptions: Sequence[str], name: ServiceName, cluster: Cluster) -> Cluster:
    """Return the cluster after applying these assumptions. Raises `UsageError` for an invalid assumption."""
    objects, version, off = cluster.objects, "", dict.fromkeys(KEYS)
    changes: dict[str, Callable[[Objects, str], Objects]] = {
        FIELD: lambda seen, value: _patched(seen, name, "spec", trafficDistribution=value or None),
        "internalTrafficPolicy": lambda seen, value: _patched(seen, name, "spec", internalTrafficPolicy=value),
        "annotation": lambda seen, value: _patched(seen, name, "annotations", **{**off, KEYS[0]: value or None}),
        "without-zone": _without_zone,
        "scale": lambda seen, value: _scaled(seen, name, _number(value), cluster.features),
    }
    for each in assumptions:
        key, sign, value = each.partition("=")
        if key == "version" and sign:
            version = _version(value)
        elif sign and key in changes:
            had, objects = _has_ready(objects, name), changes[key](objects, value)
            if not _has_ready(objects, name) and (had or key == "scale"):
                objects = replace(objects, emptied_by=each)
        else:
            known = ", ".join(f"{word}=…" for word in (*changes, "version"))
            raise UsageError(f"--if {each}: expected one of {known}")
    if version:
        objects = _upgraded(objects, version)
    objects = replace(objects, events=(), supposed=(*assumptions,))
    found = Cluster(objects, cluster.features.follows, cluster.proven)
    if any(each.startswith(f"{FIELD}=") for each in assumptions):
        for refused in validate_traffic_distribution(found.services[name]["spec"], found.features):
            raise UsageError(f"--if {FIELD}={refused.value}: the API server refuses it: {refused.message}")
    return Cluster(with_hints(found, name), cluster.features.follows, found.proven)


def _upgraded(objects: Objects, version: str) -> Objects:
    nodes = [_of_version(each, version) for each in objects.nodes]
    others = [each for each in objects.proxies if not is_kube_proxy(each)]  # an upgrade of Kubernetes leaves these
    return replace(objects, version=version, nodes=nodes, proxies=others, control_plane=(), gates={})


def _patched(objects: Objects, name: ServiceName, part: str, **values: str | None) -> Objects:
    services = deepcopy(list(objects.services))
    for each in (one for one in services if key_of(one) == name):
        above = each["metadata"] if part == "annotations" else each
        above[part] = {key: value for key, value in ((above.get(part) or {}) | values).items() if value is not None}
    return replace(objects, services=services)


def _without_zone(objects: Objects, zone: str) -> Objects:
    gone = {each["metadata"]["name"] for each in objects.nodes if labels.node_zone(each) == zone}
    if not gone:
        there = ", ".join(sorted({labels.node_zone(each) for each in objects.nodes} - {""}))
        raise UsageError(f"--if without-zone={zone}: no node is in this zone; zones of the nodes: {there or 'none'}")
    nodes = [each for each in objects.nodes if each["metadata"]["name"] not in gone]
    known = [(one, one.get("endpoints") or ()) for one in objects.endpointslices]
    slices = [{**one, "endpoints": [each for each in held if each.get("nodeName") not in gone]} for one, held in known]
    return replace(objects, nodes=nodes, endpointslices=slices)


def _scaled(objects: Objects, name: ServiceName, wanted: int, features: Features) -> Objects:
    """Return the objects with this number of pods. Add pods to the emptiest zones, or remove pods from the fullest."""
    nodes = {each["metadata"]["name"]: labels.node_zone(each) for each in objects.nodes if counts(each, features)}
    if "nodes" in objects.unread:
        raise UsageError("--if scale: cannot predict where pods would run, because Nodes were not read")
    if not nodes:
        raise UsageError("--if scale: no node is ready")
    mine = [each for each in objects.endpointslices if service_of(each) == name]
    families = sorted({each["addressType"] for each in mine})
    others = [each for each in objects.endpointslices if service_of(each) != name]
    service = next(each for each in objects.services if key_of(each) == name)
    made = []
    for family in families or ["IPv4"]:
        known = [each for each in mine if each["addressType"] == family]
        ready = distinct(each for one in known for each in one.get("endpoints") or () if is_ready(each))
        given = {labels.SERVICE_NAME: name[1], labels.MANAGED_BY: labels.CONTROLLER}
        metadata = {"name": f"{name[1]}-if", "namespace": name[0], "labels": given}
        first = known[0] if known else {"metadata": metadata, "addressType": family}
        held = {(each.get("name"), each.get("protocol")): each for one in known for each in one.get("ports") or ()}
        ports = [*held.values()] or [slice_port(each) for each in service["spec"].get("ports") or ()]
        made.append({**first, "ports": ports, "endpoints": _spread(ready, wanted, nodes, family)})
    return replace(objects, endpointslices=[*others, *made])


def _has_ready(objects: Objects, name: ServiceName) -> bool:
    mine = (each for each in objects.endpointslices if service_of(each) == name)
    return any(is_ready(each) for one in mine for each in one.get("endpoints") or ())


def _spread(ready: Sequence[Object], wanted: int, nodes: Mapping[str, str], family: str) -> list[Object]:
    def zone(endpoint: Object) -> str:
        return nodes.get(str(endpoint.get("nodeName"))) or str(endpoint.get("zone", ""))

    endpoints = list(ready)
    while len(endpoints) > wanted:
        zones = Counter(map(zone, endpoints))
        endpoints.remove(max(reversed(endpoints), key=lambda each: zones[zone(each)]))
    zones = Counter(map(zone, endpoints))
    held = Counter(str(each.get("nodeName", "")) for each in endpoints)
    for number in range(len(endpoints), wanted):
        node = min(nodes, key=lambda each: (zones[nodes[each]], held[each], each))
        zones[nodes[node]] += 1
        held[node] += 1
        address = f"198.18.{number // 250}.{number % 250 + 1}" if family == "IPv4" else f"2001:db8::{number + 1:x}"
        pod = {"kind": "Pod", "name": f"if-{number + 1}"}
        place = {"nodeName": node} | ({"zone": nodes[node]} if nodes[node] else {})
        endpoints.append({"addresses": [address], "conditions": {"ready": True}, "targetRef": pod, **place})
    return endpoints


def _of_version(node: Object, version: str) -> Object:
    info = {**((node.get("status") or {}).get("nodeInfo") or {}), "kubeletVersion": version}
    return {**node, "status": {**(node.get("status") or {}), "nodeInfo": info}}


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text) or int(text) > MOST_PODS:
        raise UsageError(f"--if scale={text}: expected a number of pods, 0 to {MOST_PODS:,}")
    return int(text)


def _version(text: str) -> str:
    if not re.fullmatch(r"v?1\.\d+(\.\d+)?", text) or version_of(text) is None:
        known = f"1.{OLDEST[1]} to 1.{NEWEST[1]}"
        raise UsageError(f"--if version={text}: expected a Kubernetes release, {known}")
    return f"v{text.removeprefix('v')}"


def with_hints(cluster: Cluster, *names: ServiceName) -> Objects:
    """Return the objects with the hints that the controller would write for these Services."""
    kept = frozenset(names)
    others = [each for each in cluster.objects.endpointslices if service_of(each) not in kept]
    slices = [each for name in names for each in _hinted(cluster, name)]
    return replace(cluster.objects, endpointslices=[*others, *slices])


def _hinted(cluster: Cluster, name: ServiceName) -> list[Object]:
    service = cluster.services[name]
    if not service["spec"].get("selector"):
        return cluster.slices.get(name, [])  # another controller writes its slices
    mine = [each for each in cluster.slices.get(name, ()) if labels.is_managed(each)]
    others = [each for each in cluster.slices.get(name, ()) if not labels.is_managed(each)]
    pods = [_pod(each, number, service) for number, each in enumerate(_pods_of(mine))]
    plan = plan_service(service, pods, cluster.node_objects, (), features=cluster.features)
    ready = Counter(each["addressType"] for each in plan.create for endpoint in each["endpoints"] if is_ready(endpoint))
    written: dict[str, Object] = {}
    for each in plan.create:
        bare = isinstance(plan.mechanism, CpuHeuristic) and floating_point_refuses(cluster, ready[each["addressType"]])
        for endpoint in each["endpoints"]:
            written[endpoint["addresses"][0]] = _plain(endpoint) if bare else endpoint
    slices = [
        {**each, "endpoints": [written.get(one["addresses"][0], _plain(one)) for one in each.get("endpoints") or ()]}
        for each in mine
    ]
    return [*others, *slices]


def _plain(endpoint: Object) -> Object:
    return {key: value for key, value in endpoint.items() if key != "hints"}


def _pods_of(slices: Sequence[Object]) -> list[list[Object]]:
    found: dict[str, list[Object]] = defaultdict(list)
    for one in slices:
        for each in one.get("endpoints") or ():
            found[str((each.get("targetRef") or {}).get("name") or each["addresses"][0])].append(each)
    return list(found.values())


def _pod(endpoints: Sequence[Object], number: int, service: Object) -> Object:
    first = endpoints[0]
    name = (first.get("targetRef") or {}).get("name") or f"if-{number}"
    given = first.get("conditions") or {}
    metadata = {"name": name, "namespace": service["metadata"]["namespace"], "uid": name}
    if given.get("terminating"):
        metadata["deletionTimestamp"] = "2000-01-01T00:00:00Z"
    serving = given.get("serving")
    ready = is_ready(first) if serving is None else serving
    ips = [{"ip": address} for each in endpoints for address in each["addresses"][:1]]
    conditions = [{"type": "Ready", "status": str(bool(ready))}]
    status = {"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips, "conditions": conditions}
    return {"metadata": metadata, "spec": {"nodeName": first.get("nodeName"), "containers": []}, "status": status}
