"""Rules for the causes and remedies of an answer, checked against the objects alone.

Each rule is a class of wrong answers that reviewers found in generated dumps (see
reports/notes/2026-11-28-explain-review.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from explain.cluster import Cluster
from explain.diagnosis import Diagnosis, diagnose
from explain.objects import Objects
from explain.overview import Row, overview
from explain.text import answer
from harness.api.client import Object
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY
from reference.objects.endpoints import name_of
from tests.explain.cluster_builders import ZONE
from tests.explain.headlines import parts_of


@dataclass(frozen=True)
class ServiceAnswer:
    """An answer about one Service, its row of `--all`, and the objects that it is about."""

    found: Diagnosis
    says: str
    row: Row | None
    service: Object
    slices: list[Object]
    objects: Objects

    @property
    def endpoints(self) -> list[Object]:
        return [each for one in self.slices for each in one["endpoints"]]

    @property
    def pods(self) -> list[Object]:
        """The ready pods that the selector matches and that do not terminate."""
        wanted = (self.service["spec"].get("selector") or {}).items()
        return [
            each
            for each in self.objects.pods
            if wanted and wanted <= each["metadata"]["labels"].items() and "deletionTimestamp" not in each["metadata"]
            and any(one == {"type": "Ready", "status": "True"} for one in each["status"]["conditions"])
        ]  # fmt: skip

    def zone_of(self, endpoint: Object) -> str:
        return self.zone(endpoint["nodeName"]) or str(endpoint.get("zone", ""))

    def zone(self, node: str) -> str:
        labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in self.objects.nodes}
        return str(labels.get(node, {}).get(ZONE, ""))


def violations(objects: Objects) -> Iterator[str]:
    """Yield the rules that the answers about a cluster break."""
    cluster = Cluster(objects, "released")
    rows = {each.service: each for each in overview(cluster).rows}
    for service in objects.services:
        metadata, found = service["metadata"], diagnose(service, cluster)
        name = f"{metadata['namespace']}/{metadata['name']}"
        slices = [
            each
            for each in objects.endpointslices
            if each["metadata"]["labels"]["kubernetes.io/service-name"] == metadata["name"]
        ]
        seen = ServiceAnswer(found, answer(found), rows.get(name), service, slices, objects)
        yield from (f"{name}: {rule.__name__}: {broken}" for rule in RULES for broken in rule(seen))


def row_of_the_overview(seen: ServiceAnswer) -> Iterator[str]:
    """The row has the id and the remedy of the finding that its headline quotes first, which is the first cause."""
    if seen.row and seen.row.wanting:
        first = seen.found.findings[0]
        if (seen.row.cause, seen.row.remedy) != (first.cause.id, first.remedy or first.cause.remedy):
            yield f"the row has {seen.row.cause}, but the first cause is {first.cause.id}"
        part = next(parts_of(seen.says))
        if not part.why.startswith(first.says.removeprefix(f"{part.named}: ")):
            yield f"{first.says!r} is not quoted first in {seen.says!r}"


def terminating_endpoints(seen: ServiceAnswer) -> Iterator[str]:
    """All endpoints that are said to terminate do so."""
    ends = {name_of(each) for each in seen.endpoints if each["conditions"].get("terminating")}
    for each in seen.found.findings:
        if each.cause.id in {"zone-terminating", "terminating-only"} and not (names := _names(each.says)) <= ends:
            yield f"{sorted(names - ends)} do not terminate: {each.says}"


def pods_that_exist(seen: ServiceAnswer) -> Iterator[str]:
    """A zone without endpoints has neither a ready endpoint at another port, nor a ready pod that no slice has."""
    ready = {seen.zone_of(each) for each in seen.endpoints if each["conditions"].get("ready", True)}
    listed = {name_of(each) for each in seen.endpoints}
    there = {seen.zone(each["spec"]["nodeName"]) for each in seen.pods if each["metadata"]["name"] not in listed}
    there |= {seen.zone_of(each) for each in seen.endpoints if not each["conditions"].get("terminating")}
    names = {name_of(each) for each in seen.endpoints if not each["conditions"].get("terminating")}
    for each in seen.found.findings:
        if each.cause.id == "zone-without-endpoint":
            zones = {seen.zone(one) for one in each.nodes}
            if found := zones & ready | zones & there:
                yield f"there are pods in zones {sorted(found)}: {each.says}"
        if (scaled := re.search(r"scale \S+ --replicas=(\d+)", each.remedy)) and int(scaled[1]) < len(names):
            yield f"{sorted(names)} are scaled to {scaled[1]}"


def tolerations(seen: ServiceAnswer) -> Iterator[str]:
    """Tolerations are advised only for nodes with these taints, where no pod of the Service runs."""
    taints = {
        each["metadata"]["name"]: {one["key"] for one in each.get("spec", {}).get("taints", ())}
        for each in seen.objects.nodes
    }
    on = {each["spec"]["nodeName"] for each in seen.pods}
    for each in seen.found.findings:
        for part in each.remedy.split("nothing, if no client runs on ")[1:]:
            keys, nodes = {*re.findall(r"key: ([^,]+),", part)}, part.partition(";")[0].split()
            if wrong := [name for name in nodes if name in on or not keys <= taints.get(name, set())]:
                yield f"{wrong} need no toleration {keys}: {each.remedy}"


def causes_and_table(seen: ServiceAnswer) -> Iterator[str]:
    """Nodes that are said to use other zones do, and those that are said not to use hints do not."""
    for each in seen.found.findings:
        nodes = {*each.nodes}
        mine = [
            one
            for one in seen.found.routes
            if nodes & {*one.nodes} and one.short and (not each.ports or one.label.startswith(each.ports))
        ]
        if each.cause.id == "zone-without-endpoint" and any(one.crossing < len(one.targets) for one in mine):
            yield f"the table has near endpoints: {each.says}"
        if each.cause.id == "proxy-too-old" and "hints" in each.says:
            used = {"node"} if "for nodes" in each.says else {"zone", "node"}
            if not mine or any(one.tier in used for one in mine):
                yield f"the table has routes that are right, or by hints: {each.says}"


def removed_annotations(seen: ServiceAnswer) -> Iterator[str]:
    """Removing the annotation that an old kube-proxy needs for hints is said to be that."""
    annotations = seen.service["metadata"]["annotations"]
    value = annotations.get("service.kubernetes.io/topology-mode")
    least = 24 if value == "Auto" else 27
    releases = [
        int(re.findall(r":v1\.(\d+)", each["spec"]["containers"][0]["image"])[0]) for each in seen.objects.proxies
    ]
    for each in seen.found.findings:
        if value and "topology-mode-" in each.remedy:
            if any(least <= release < 31 for release in releases) and "uses no hints without it" not in each.also:
                yield f"an old kube-proxy needs the annotation: {each.remedy}"
            if not seen.service["spec"].get("selector") and each.cause.id == "control-plane-not-counted":
                yield f"no controller counts CPU: {each.says}"


def one_wish(seen: ServiceAnswer) -> Iterator[str]:
    """What decides is said together with the wish that the overview has."""
    decided = ("EndpointSlices, by their writer", "is Local", "waypoint", "the load balancer")
    if seen.row and seen.row.asks and not any(each in seen.found.asks for each in decided):
        asks = seen.row.asks.removeprefix("topology-mode ").removesuffix(", by an unread key")
        if asks not in seen.found.asks and "asks for hints" not in seen.found.asks:
            yield f"{seen.row.asks} in --all, and decided by {seen.found.asks}"


def releases(seen: ServiceAnswer) -> Iterator[str]:
    """PreferSameNode needs kube-proxy 1.34. Nothing is said of a proxy that was not seen."""
    served = {each["spec"]["nodeName"] for each in seen.objects.proxies}
    for each in seen.found.findings:
        if each.cause.id != "proxy-too-old":
            continue
        if seen.found.wish == "node" and "since 1.34" not in each.says:
            yield f"PreferSameNode since another release: {each.says}"
        if served and "a proxy that" in each.says and (unseen := {*each.nodes} - served):
            yield f"no proxy was seen on {sorted(unseen)}: {each.says}"


def empty_slices(seen: ServiceAnswer) -> Iterator[str]:
    """A slice that has the port, but no endpoints, is named, and its number is the one in patches."""
    for each in seen.found.findings:
        if each.cause.id != "port-without-endpoints":
            continue
        name, protocol = re.findall(r"has port (\w+)/(\w+)", each.says)[0]
        for one in seen.slices:
            ports = [port for port in one["ports"] if (port["name"], port["protocol"]) == (name, protocol)]
            if ports and any(label.endswith(one["addressType"]) for label in each.ports or (one["addressType"],)):
                if one["metadata"]["name"] not in each.says:
                    yield f"{one['metadata']['name']} has the port: {each.says}"
                numbers = {int(number) for number in re.findall(r'"port":(\d+)', each.remedy)}
                if numbers and not numbers & {
                    port["port"]
                    for two in seen.slices
                    for port in two["ports"]
                    if (port["name"], port["protocol"]) == (name, protocol)
                }:
                    yield f"a slice has another number: {each.remedy}"


def slice_patches(seen: ServiceAnswer) -> Iterator[str]:
    """No two patches of an answer write hints of one slice, and all say the same about its writer."""
    hints, rewritten = dict[str, set[str]](), dict[str, set[bool]]()
    for each in seen.found.findings:
        for name, patch in re.findall(r"patch endpointslice (\S+) --type=json -p '([^']*)'", each.remedy):
            rewritten.setdefault(name, set()).add("may write them again" in each.also)
            if any("/endpoints/" in one["path"] for one in json.loads(patch)):
                hints.setdefault(name, set()).add(patch)
    yield from (f"two patches of {name}: {found}" for name, found in hints.items() if len(found) > 1)
    manager = {one["metadata"]["name"]: one["metadata"]["labels"].get(MANAGED_BY) for one in seen.slices}
    for name, found in rewritten.items():
        if manager[name] and found != {True}:
            yield f"the writer of {name} may change it back"


def remedies_with_effect(seen: ServiceAnswer) -> Iterator[str]:
    """A remedy changes something: not what is so already, nor what a kind of workload does not have."""
    budgets = {each["metadata"]["name"]: each["spec"] for each in seen.objects.further.get("poddisruptionbudgets", ())}
    listed = {name_of(each) for each in seen.endpoints}
    for each in seen.found.findings:
        for name in re.findall(r"patch poddisruptionbudget (\S+)", each.remedy):
            if budgets[name].get("maxUnavailable") == 1 and "minAvailable" not in budgets[name]:
                yield f"the budget is so already: {each.remedy}"
        if re.search(r"(template of|strategy.*) daemonset\S*: topologySpread", each.remedy):
            yield f"pods of a DaemonSet are not spread: {each.remedy}"
        shown = each.remedy or each.cause.remedy
        others = [one for one in seen.pods if one["metadata"]["name"] not in listed]
        ids = {one.cause.id for one in seen.found.findings}
        if "wait for new pods" in shown and others and "pod-in-no-slice" not in ids:
            yield f"there is a ready pod: {shown}"


def local_policies(seen: ServiceAnswer) -> Iterator[str]:
    """A node with an endpoint that is not ready has one, and only nodes with a ready one are recommended."""
    ready = {each["nodeName"] for each in seen.endpoints if each["conditions"].get("ready", True)}
    well = {
        each["metadata"]["name"] for each in seen.objects.nodes if each["status"]["conditions"][0]["status"] == "True"
    }
    for each in seen.found.findings:
        if re.search(r"without an endpoint|(has|have) no endpoint, and do", each.says):
            yield f"there may be an endpoint that is not ready: {each.says}"
        for names in re.findall(r"use nodes with a ready endpoint \(([^)]*)\)", each.remedy):
            if wrong := {*names.split()} - (ready & well):
                yield f"{sorted(wrong)} are recommended: {each.remedy}"
        if each.cause.id in {"internal-policy-local", "external-clients-dropped"}:
            ill = {
                one["nodeName"]: name_of(one)
                for of in seen.slices
                for port in of["ports"]
                if not each.ports or f"{port['name']}/{port['protocol']} {of['addressType']}" in " ".join(each.ports)
                for one in of["endpoints"]
                if not one["conditions"].get("ready", True) and not one["conditions"].get("terminating")
            }
            for node in {*each.nodes} & ill.keys():
                if "describe pod" not in each.remedy:
                    yield f"{ill[node]} on {node} is not ready: {each.remedy}"


def both_policies(seen: ServiceAnswer) -> Iterator[str]:
    """kube-proxy before 1.24 ignores internalTrafficPolicy Local beside externalTrafficPolicy Local."""
    spec = seen.service["spec"]
    if {spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy")} == {"Local"} and spec[
        "type"
    ] != "ClusterIP":
        old = {each["spec"]["nodeName"] for each in seen.objects.proxies if "v1.22" in str(each["spec"]["containers"])}
        for one in seen.found.routes:
            if one.clients == "internal" and old & {*one.nodes} and "Local" in one.because:
                yield f"{one.nodes} follow the policy: {one.because}"


def services_without_pods(seen: ServiceAnswer) -> Iterator[str]:
    """If no pod matches the selector, and others write the endpoints, no remedy is about pods or the controller."""
    ours = [one for one in seen.slices if one["endpoints"] and one["metadata"]["labels"][MANAGED_BY] == CONTROLLER]
    matched = any(
        (seen.service["spec"].get("selector") or {}).items() <= each["metadata"]["labels"].items()
        for each in seen.objects.pods
    )
    if seen.service["spec"].get("selector") and not matched and not ours and seen.endpoints:
        if "selector-matches-nobody" not in {each.cause.id for each in seen.found.findings}:
            yield "no cause says that no pod matches"
        for each in seen.found.findings:
            if wrong := [word for word in (" scale ", "pod template", " logs -l component") if word in each.remedy]:
                yield f"{each.cause.id}: {wrong}"


def _names(says: str) -> set[str]:
    return {*re.findall(r"web-\d+", says.rpartition(": ")[2])}


RULES = (
    row_of_the_overview, terminating_endpoints, pods_that_exist, tolerations, causes_and_table, removed_annotations,
    one_wish, releases, empty_slices, slice_patches, remedies_with_effect, local_policies, both_policies,
    services_without_pods,
)  # fmt: skip
