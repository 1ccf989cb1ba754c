"""What an answer must not say about a cluster, by rules that are written by hand from the objects alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from explain.causes import AS_ASKED, Finding
from explain.diagnosis import Diagnosis
from explain.objects import Objects
from explain.routes import Route
from harness.api.client import Object
from tests.explain.cluster_builders import ZONE
from tests.explain.generated_clusters import sends_to_pods
from tests.explain.headlines import parts_of
from tests.explain.service_answer import is_ready

_OF_PLACES = {"client-node-without-zone", "zone-without-endpoint", "zone-not-ready", "zone-terminating",
              "zone-without-port", "pod-in-no-slice", "target-port-of-some-pods"}  # fmt: skip
_OF_MESHES = {"clients-choose-endpoints", "namespace-in-an-ambient-mesh", "namespace-injects-sidecars",
              "service-behind-a-proxy", "ingress-to-endpoints"}  # fmt: skip


def broken(found: Diagnosis, said: str, seen: Objects) -> Iterator[str]:
    """Yield the rules that an answer with this headline breaks."""
    service = seen.services[0]
    yield from _without_a_selector(found, service)
    yield from _policies(found, service)
    yield from _ports(found, service)
    yield from _headline(found, said)
    for route in found.routes:
        if route.short in {"crosses", "misses"}:
            yield from _places(found, route, seen)
    for each in found.findings:
        if each.cause.id == "proxy-too-old":
            yield from _old_proxies(each, found, seen)


def _without_a_selector(found: Diagnosis, service: Object) -> Iterator[str]:
    """No controller writes hints for such a Service, and no pods of a workload become its endpoints."""
    if not service["spec"].get("selector"):
        of_controller = ("kube-controller-manager", " annotate ", " scale ", "rollout", "pod template", "run a pod")
        for each in found.findings:
            if wrong := [word for word in of_controller if word in each.remedy]:
                yield f"{each.cause.id} without a selector: {wrong}"
            if re.search("PreferSame(Zone|Node)", each.remedy) and each.cause.id != "asks-for-nothing":
                yield f"{each.cause.id} sets the field, which has no effect without a selector"
        if "trafficDistribution" in found.asks or "annotation" in found.asks:
            yield f"a controller decides without a selector: {found.asks}"


def _policies(found: Diagnosis, service: Object) -> Iterator[str]:
    spec = service["spec"]
    outside = spec["type"] != "ClusterIP"
    at_nodes = outside and not sends_to_pods(service)
    expected = (
        spec["internalTrafficPolicy"] == "Local",
        at_nodes and spec.get("externalTrafficPolicy") == "Local",
        outside and not at_nodes,
    )
    words = ("internalTrafficPolicy is Local", "externalTrafficPolicy is Local", "the load balancer")
    if tuple(word in found.asks for word in words) != expected:
        yield f"who decides: {found.asks}"
    for each in found.findings:
        if "trafficDistribution" in each.says and each.says.endswith(" decides") and expected[0]:
            yield f"two things decide: {each.says}"


def _ports(found: Diagnosis, service: Object) -> Iterator[str]:
    if service["spec"]["ports"][0]["protocol"] != "TCP":
        yield from (f"{each.cause.id} of UDP" for each in found.findings if each.cause.id in _OF_MESHES)
    for each in found.findings:
        if each.cause.id == "address-of-two-endpoints" and len({*re.findall(r"web-\d+", each.says)}) < 2:
            yield f"one endpoint is two: {each.says}"
    said = [(each.cause.id, each.says) for each in found.findings]
    yield from (f"said twice: {each}" for each in {*said} if said.count(each) > 1)


def _headline(found: Diagnosis, said: str) -> Iterator[str]:
    """A reason without nodes of its own is that of all nodes in its part of the headline."""
    for part in parts_of(said):
        about = [each for each in found.routes if part.is_about(each)]
        for each in found.findings:
            reason = each.says.removeprefix(f"{part.named}: ")
            if part.why == reason and each.cause.weight < AS_ASKED:
                nodes = {name for one in about for name in one.nodes if _falls(one, part.fails)}
                if each.nodes and not nodes <= {*each.nodes}:
                    yield f"the reason of some nodes is that of all: {said}"
                if each.ports and not all(one.label.startswith(each.ports) for one in about if _falls(one, part.fails)):
                    yield f"the reason of some ports is that of all: {said}"


def _falls(route: Route, fails: bool) -> bool:
    return route.fails if fails else bool(route.short)


def _places(found: Diagnosis, route: Route, seen: Objects) -> Iterator[str]:
    """Each node without a zone, or in a zone without a ready endpoint, is named for this, whatever else is wrong."""
    if found.wish not in {"node", "zone"}:
        return
    name, _, protocol = route.port.partition("/")
    labels = {each["metadata"]["name"]: each["metadata"]["labels"].get(ZONE, "") for each in seen.nodes}
    ready = [
        each
        for one in seen.endpointslices
        if one["addressType"] == route.family
        and {"name": name, "protocol": protocol}.items() <= one["ports"][0].items()
        for each in one["endpoints"]
        if is_ready(each)
    ]
    zones = {labels.get(each["nodeName"]) or each.get("zone", "") for each in ready}
    here = {each["nodeName"] for each in ready} if found.wish == "node" else set()
    for node in {*route.nodes} - here if ready else ():  # see `terminating-only`
        if not labels[node] or labels[node] not in zones:
            mine = [each for each in found.findings if node in (each.nodes or {node}) and each.cause.id in _OF_PLACES]
            if not any(not each.ports or route.label.startswith(each.ports) for each in mine):
                yield f"{node} is not named for its place: {route}"


def _old_proxies(finding: Finding, found: Diagnosis, seen: Objects) -> Iterator[str]:
    """kube-proxy uses hints of the field since 1.31, hints for nodes since 1.34, and the annotation since 1.24."""
    needed = re.search(r"since 1\.(\d+)", finding.says)
    images = {each["spec"]["nodeName"]: each["spec"]["containers"][0]["image"] for each in seen.proxies}
    kubelets = {each["metadata"]["name"]: each["status"]["nodeInfo"]["kubeletVersion"] for each in seen.nodes}
    for node in finding.nodes:
        release = re.search(r":v1\.(\d+)", images[node]) if node in images else re.search(r"v1\.(\d+)", kubelets[node])
        if needed is None or release is None or int(release[1]) >= int(needed[1]):
            yield f"{node} is not too old: {finding.says}"
    least = "24" if "Policy" in finding.says else {"zone": "31", "cpu": "27"}.get(found.wish, "34")
    if needed is None or needed[1] != least:
        yield f"the release is not 1.{least}: {finding.says}"
