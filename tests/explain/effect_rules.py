"""Rules for what an answer says of the effects of its remedies, checked against the objects after a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explain.cluster import Cluster
from explain.objects import Objects
from explain.routes import routes
from harness.api.client import Object
from tests.explain.cluster_builders import ZONE
from tests.explain.service_answer import ServiceAnswer, is_ready

Working = set[tuple[str, str, str]]
"""The Services, ports and nodes of connections that do not fail."""


def upgrades_of_proxies(seen: ServiceAnswer) -> Iterator[str]:
    """The connections that fail after an upgrade of kube-proxy are named beside it, for all Services, and no others."""
    for each in seen.found.findings:
        if upgrade := re.search(r"upgrade kube-proxy on ([^;]*?) to v?1\.(\d+)", each.remedy):
            after = with_kube_proxy(seen.objects, upgrade[1].split(), f"v1.{upgrade[2]}.0")
            lost = working(seen.objects) - working(after)
            if lost != (said := said_to_fail(each.also)):
                yield f"{sorted(lost ^ said)} differ after: {each.remedy}, {each.also}"


def causes_of_crossing_nodes(seen: ServiceAnswer) -> Iterator[str]:
    """A node whose connections leave its zone, or miss its endpoint, has a cause of its own, not one of failures."""
    for route in seen.found.routes:
        mine = [each for each in seen.found.findings if not each.ports or route.label.startswith(each.ports)]
        mine = [each for each in mine if each.severity == "warning" and each.cause.id != "not-known"]
        for node in route.nodes if route.short in {"crosses", "misses"} else ():
            if not any(node in (each.nodes or {node}) for each in mine):
                yield f"{node} has no cause: {route}"


def pods_to_be_listed(seen: ServiceAnswer) -> Iterator[str]:
    """A pod in no slice is named for the nodes of its zone, and never for a port that it does not have."""
    pods = {each["metadata"]["name"]: each for each in seen.pods}
    for each in seen.found.findings:
        if each.cause.id == "pod-in-no-slice":
            names = re.findall(r"web-\w+", each.says.partition(" ready and")[0])
            if lack := [
                name for name in names if not any(_has(pods[name], one) for one in seen.service["spec"]["ports"])
            ]:
                yield f"{lack} would be endpoints of no port: {each.says}"
            zones = {seen.zone(pods[name]["spec"]["nodeName"]) for name in names}
            if each.severity == "warning" and not {seen.zone(node) for node in each.nodes} <= zones:
                yield f"{names} are in zones {sorted(zones)}: {each.nodes}"


def inert_values(seen: ServiceAnswer) -> Iterator[str]:
    """A value that no component knows may stay if something else decides."""
    spec = seen.service["spec"]
    inert = not spec.get("selector") or spec.get("trafficDistribution") or spec["internalTrafficPolicy"] == "Local"
    for each in seen.found.findings:
        if each.cause.id == "annotation-unknown" and bool(inert) != each.remedy.startswith("nothing"):
            yield f"{each.severity}: {each.remedy}"


def fields_of_releases(seen: ServiceAnswer) -> Iterator[str]:
    """PreferSameNode is recommended only if kube-proxy is new enough on each node."""
    images = {_node(each): each["spec"]["containers"][0]["image"] for each in seen.objects.proxies}
    kubelets = {each["metadata"]["name"]: each["status"]["nodeInfo"]["kubeletVersion"] for each in seen.objects.nodes}
    releases = {name: re.findall(r"v1\.(\d+)", images.get(name, kubelets[name]))[0] for name in kubelets}
    for each in seen.found.findings:
        if '"trafficDistribution":"PreferSameNode"' in each.remedy and min(map(int, releases.values())) < 34:
            yield f"{releases} do not know it: {each.remedy}"


def all_doubts(seen: ServiceAnswer) -> Iterator[str]:
    """A headline that promises something names each node without a ready proxy."""
    for node in seen.found.uncertain if seen.says.startswith("connections stay") else ():
        if not re.search(rf"\b{node}\b", seen.says):
            yield f"{node} is in doubt: {seen.says}"


def endpoints_on_ill_nodes(seen: ServiceAnswer) -> Iterator[str]:
    """Each node that is not ready, and has an endpoint that connections go to, is named."""
    ill = {
        each["metadata"]["name"] for each in seen.objects.nodes if each["status"]["conditions"][0]["status"] != "True"
    }
    used = {address for route in seen.found.routes for address in route.endpoints}
    hosts = {one["nodeName"] for one in seen.endpoints if one["addresses"][0] in used} & ill
    named = {
        node for each in seen.found.findings if each.cause.id == "endpoint-on-a-node-not-ready" for node in each.nodes
    }
    if hosts != named:
        yield f"{sorted(hosts)} have endpoints, and {sorted(named)} are named"


def new_endpoints(seen: ServiceAnswer) -> Iterator[str]:
    """New pods become endpoints only of a Service with a selector."""
    for each in seen.found.findings if not seen.service["spec"].get("selector") else ():
        if "new pods" in (each.remedy or each.cause.remedy):
            yield f"{each.cause.id}: {each.remedy or each.cause.remedy}"


def scaled_workloads(seen: ServiceAnswer) -> Iterator[str]:
    """Whoever scales a workload whose pods are not counted reads that this may end pods."""
    for each in seen.found.findings:
        for name in re.findall(r" scale (\S+) --replicas", each.remedy):
            if "replicas" not in seen.workload(name).get("spec", {}) and "loses some" not in each.also:
                yield f"{name} may have more pods: {each.remedy}"


def rollouts(seen: ServiceAnswer) -> Iterator[str]:
    """A paused rollout is said to be paused, and a new pod beside an old one may have to wait for its volume."""
    for each in seen.found.findings:
        if each.cause.id == "rollout-may-empty-a-zone":
            name = each.says.split()[3]
            if seen.workload(name)["spec"].get("paused", False) != ("paused" in each.says and "begun" not in each.says):
                yield f"{seen.workload(name)['spec']}: {each.says}"
        for name in re.findall(r"patch (deployment/\S+) -p '[^']*maxSurge", each.remedy):
            mine = [one for one in seen.all_pods if seen.owner(one) == name]
            bound = any("volumes" in one["spec"] for one in mine) and len({one["spec"]["nodeName"] for one in mine}) < 2
            if bound and "ReadWriteOnce, new pods wait" not in each.also:
                yield f"pods of {name} may share a volume of one node: {each.also}"


def missing_pods(seen: ServiceAnswer) -> Iterator[str]:
    """Pods are missing if the status of their workload says so."""
    for each in seen.found.findings:
        for number in re.findall(r"find out why (\d+) pods? (?:is|are) missing", each.remedy):
            known = [*seen.objects.further.get("deployments", ()), *seen.objects.further.get("statefulsets", ())]
            there = {one["spec"]["replicas"] - one.get("status", {}).get("replicas", 0) for one in known}
            if int(number) not in there and len(seen.all_pods) not in {
                one["spec"]["replicas"] - int(number) for one in known
            }:
                yield f"{there} pods are missing: {each.remedy}"


def causes_that_act_together(seen: ServiceAnswer) -> Iterator[str]:
    """If a node lacks both an endpoint in its zone and hints, or a proxy that uses them, both causes say so."""
    warnings = [each for each in seen.found.findings if each.severity == "warning"]
    places = [each for each in warnings if each.cause.id in {"zone-without-endpoint", "pod-in-no-slice"}]
    others = [each for each in warnings if each.cause.id in {"slice-of-another-manager", "proxy-too-old"}]
    for one in places:
        for two in others:
            alike = {*one.ports} == {*two.ports} or one.cause.id == "pod-in-no-slice"
            crossing = {node for route in seen.found.routes if route.short == "crosses" and route.clients == "internal"
                        and route.label.startswith(two.ports or "") for node in route.nodes}  # fmt: skip
            shared = {*one.nodes} & ({*two.nodes} or {*one.nodes}) & crossing if alike else set()
            for each in (one, two) if shared else ():
                said = re.findall(r"connections from ([^;]*?) to [^;]* change only", each.also)
                if not shared <= {*" ".join(said).split()}:
                    yield f"{each.cause.id} alone changes nothing on {sorted(shared)}: {each.also}"


def labels_that_change_little(seen: ServiceAnswer) -> Iterator[str]:
    """Whoever labels a node with a zone without a ready endpoint reads that its connections still leave the zone."""
    ready = {seen.zone_of(each) for each in seen.endpoints if is_ready(each)}
    for each in seen.found.findings if seen.found.wish in {"node", "zone"} else ():
        if each.cause.id == "client-node-without-zone":
            zones = {*re.findall(rf"kubectl label node .*?{ZONE}=([a-z])(?=;|$)", each.remedy)}
            if missing := [
                zone for zone in zones - ready if not re.search(rf"zones? [a-z ]*\b{zone}\b.* still", each.also)
            ]:
                yield f"zones {missing} have no endpoint: {each.remedy}, {each.also}"


def _has(pod: Object, port: Object) -> bool:
    target = port.get("targetPort")
    held = [one for container in pod["spec"]["containers"] for one in container.get("ports", ())]
    return not isinstance(target, str) or target in {one["name"] for one in held}


def with_kube_proxy(seen: Objects, nodes: Sequence[str], version: str) -> Objects:
    """Return the objects with this version of kube-proxy on some nodes that have one."""
    return replace(seen, proxies=[_upgraded(each, version) if _node(each) in nodes else each for each in seen.proxies])


def _node(pod: Object) -> str:
    return str(pod["spec"]["nodeName"])


def _upgraded(pod: Object, version: str) -> Object:
    container = pod["spec"]["containers"][0]
    image = f"{container['image'].rpartition(':')[0]}:{version}"
    return {**pod, "spec": {**pod["spec"], "containers": [{**container, "image": image}]}}


def working(seen: Objects) -> Working:
    cluster = Cluster(seen, "released")
    return {
        ("/".join(name), each.label, node)
        for name, service in cluster.services.items()
        for each in routes(service, cluster.slices.get(name, ()), cluster)
        for node in each.nodes
        if not each.fails
    }


def said_to_fail(also: str) -> Working:
    """Return the connections that fail after a remedy, as its line `also` says."""
    _, _, said = also.partition("connections that work now then fail: ")
    found = re.findall(r"to (\S+) (\S+ IPv\d(?: external)?) on ([^,;]*)", said)
    return {(service, label, node) for service, label, nodes in found for node in nodes.split()}


EFFECT_RULES = (
    upgrades_of_proxies, causes_of_crossing_nodes, pods_to_be_listed, inert_values, fields_of_releases, all_doubts,
    endpoints_on_ill_nodes, new_endpoints, scaled_workloads, rollouts, missing_pods, causes_that_act_together,
    labels_that_change_little,
)  # fmt: skip
