"""Rules for the causes and remedies of an answer, checked against the objects alone.

Each rule is a class of wrong answers that reviewers found in generated dumps (see
reports/notes/2026-11-28-explain-review.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from explain.cluster import Cluster
from explain.diagnosis import diagnose
from explain.objects import Objects
from explain.overview import overview
from explain.text import answer
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY
from reference.objects.endpoints import name_of
from tests.explain.cluster_builders import MODE, ZONE
from tests.explain.effect_rules import EFFECT_RULES
from tests.explain.generated_clusters import sends_to_pods
from tests.explain.headlines import parts_of
from tests.explain.service_answer import ServiceAnswer, is_ready
from tests.explain.workload_rules import WORKLOAD_RULES


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
    ready = {seen.zone_of(each) for each in seen.endpoints if is_ready(each)}
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
    ready = {each["nodeName"] for each in seen.endpoints if is_ready(each)}
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
                if not is_ready(one) and not one["conditions"].get("terminating")
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
        for one in seen.found.routes:
            if one.clients == "internal" and seen.old & {*one.nodes} and "Local" in one.because:
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
            if each.cause.id == "internal-policy-local" and "trafficDistribution" in each.remedy:
                yield f"no controller reads the field: {each.remedy}"
            if wrong := [word for word in (" scale ", "pod template", " logs -l component") if word in each.remedy]:
                yield f"{each.cause.id}: {wrong}"


def old_proxies_and_policies(seen: ServiceAnswer) -> Iterator[str]:
    """kube-proxy before 1.24 rejects where the policy Local finds no endpoint, and newer ones drop (kubernetes#106497).

    It applies internalTrafficPolicy Local to external clients as well, unless externalTrafficPolicy is Local (#105470).
    """
    spec = seen.service["spec"]
    if spec.get("internalTrafficPolicy") != "Local":
        return
    for one in seen.found.routes:
        old = seen.old & {*one.nodes}
        said = one.because.partition(" (internalTrafficPolicy Local: ")[0]
        if said in {"drop", "reject"} and (said == "reject") != (old == {*one.nodes}):
            yield f"{one.nodes} {said}, and {old} are old"
    outside = spec["type"] != "ClusterIP" and spec.get("externalTrafficPolicy") != "Local"
    if not outside or sends_to_pods(seen.service):
        return
    for of in seen.slices:
        for port in of["ports"]:
            label, known = (
                f"{port['name']}/{port['protocol']} {of['addressType']}",
                seen.of_port(port, of["addressType"]),
            )
            ready = {each["nodeName"] for each in known if is_ready(each)}
            for node in seen.old if ready and label in seen.labels else ():
                mine = [one for one in seen.found.routes if one.label == f"{label} external" and node in one.nodes]
                if [one.fails for one in mine] != [node not in ready]:
                    yield f"external clients of {node}, {label}: {mine}"
                causes = [each for each in seen.found.findings if node in each.remedy and "#105470" in each.says]
                if not causes:
                    yield f"no cause says why external clients of {node} are limited"


def equal_causes(seen: ServiceAnswer) -> Iterator[str]:
    """No cause is said twice of the same nodes, but for its ports.

    No two notes have one patch of the Service. Other fixes, as of annotations, may have several reasons.
    """
    said = [(each.cause.id, _without_ports(each.says), each.nodes, each.remedy) for each in seen.found.findings]
    yield from {f"said twice: {each}" for each in said if said.count(each) > 1}
    notes = [each.remedy for each in seen.found.findings if each.severity == "info"]
    notes = [each for each in notes if "patch service" in each]
    yield from {f"two notes with one remedy: {each}" for each in notes if notes.count(each) > 1}


def workloads(seen: ServiceAnswer) -> Iterator[str]:
    """A remedy about pods fits all workloads that own them, and asks nobody to scale pods that nothing owns."""
    owners = {seen.owner(each) for each in seen.all_pods}
    templates = {each for each in owners if not each.startswith(("job/", "pod/"))}
    for each in seen.found.findings:
        if seen.all_pods and "/NAME" in each.remedy and {name_of(one) for one in seen.endpoints} <= seen.pods_read:
            yield f"the pods have owners, or none: {each.remedy}"
        for named in re.findall(r"pod template of ([^:]*): topologySpread", each.remedy):
            if missing := {one for one in templates if one not in named and not one.startswith("daemonset/")}:
                yield f"{sorted(missing)} also own pods: {each.remedy}"
        for name, number in re.findall(
            r"(?:scale|rollout restart) ([\w-]+/[^\s;]+)(?: --replicas=(\d+))?", each.remedy
        ):
            if owners and name not in owners | {"deployment/NAME"}:
                yield f"{name} owns no pod: {each.remedy}"
            if number and int(number) <= sum(seen.owner(one) == name for one in seen.all_pods):
                yield f"{name} has so many pods: {each.remedy}"


def outlook_of_zones(seen: ServiceAnswer) -> Iterator[str]:
    """What may take all endpoints of a zone at once is said, also if only one zone has endpoints."""
    if seen.found.wish not in {"node", "zone", "cpu"} or not seen.found.routes:
        return
    first = min((one["addressType"] for one in seen.slices), default="")
    zones = dict[str, set[str]]()
    for one in seen.slices:
        for each in one["endpoints"] if one["addressType"] == first else ():
            if is_ready(each) and (zone := seen.zone(each["nodeName"])):
                zones.setdefault(zone, set()).add(each["addresses"][0])
    least = min(map(len, zones.values()), default=0)
    ids = {each.cause.id for each in seen.found.findings}
    if not least or not (seen.service["spec"].get("selector") and seen.all_pods):
        return
    for each in seen.objects.further.get("poddisruptionbudgets", ()):
        if each["status"]["disruptionsAllowed"] >= least and "budget-permits-an-empty-zone" not in ids:
            yield f"{each['status']} and endpoints {zones}"
    for each in seen.objects.further.get("deployments", ()):
        recreate = each["spec"]["strategy"].get("type") == "Recreate"
        if recreate and "deployment/web" in map(seen.owner, seen.all_pods) and "recreate-empties-all-zones" not in ids:
            yield "Recreate ends all pods"


def added_ports(seen: ServiceAnswer) -> Iterator[str]:
    """A port is added to no slice whose endpoints get it in another slice."""
    endpoints = {one["metadata"]["name"]: {each["addresses"][0] for each in one["endpoints"]} for one in seen.slices}
    for each in seen.found.findings:
        got = dict[str, set[str]]()
        for name, patch in re.findall(r"patch endpointslice (\S+) --type=json -p '([^']*)'", each.remedy):
            for one in json.loads(patch):
                if one["path"] == "/ports/-":
                    mine = got.setdefault(one["value"]["name"], set())
                    if endpoints[name] <= mine:
                        yield f"the endpoints of {name} have the port already: {each.remedy}"
                    mine |= endpoints[name]


def known_zones(seen: ServiceAnswer) -> Iterator[str]:
    """A node is labelled with the zone that its endpoints have in slices, if they have one."""
    zones = dict[str, set[str]]()
    for each in seen.endpoints:
        zones.setdefault(each["nodeName"], set()).add(str(each.get("zone", "")))
    for each in seen.found.findings:
        for names, zone in re.findall(rf"label node ([^-][^=]*) {ZONE}=(\S+?)(?=;|$)", each.remedy):
            for node in names.split():
                if len(known := zones.get(node, set()) - {""}) == 1 and {zone} != known:
                    yield f"{node} is in {known}: {each.remedy}"


def headline_causes(seen: ServiceAnswer) -> Iterator[str]:
    """A headline of failures says no cause twice, and blames a pod in no slice only if nothing else explains a port."""
    parts = [part for part in parts_of(seen.says) if part.fails]
    whys = [(part.named, part.why) for part in parts]
    yield from {f"said twice: {each}" for each in whys if whys.count(each) > 1}
    fails = [each for each in seen.found.findings if each.severity == "error"]
    unlisted = {each.says for each in fails if each.cause.id == "pod-in-no-slice"}
    others = [each for each in fails if each.cause.id != "pod-in-no-slice" and each.ports]
    for part in parts:
        routes = [one for one in seen.found.routes if one.fails and part.is_about(one)]
        if part.why in unlisted and any(one.label.startswith(each.ports) for each in others for one in routes):
            yield f"something else explains it: {seen.says}"


def closed_zones(seen: ServiceAnswer) -> Iterator[str]:
    """No pods are started for a zone whose nodes take none: they are cordoned, tainted or not ready."""
    closed = {each["metadata"]["name"] for each in seen.objects.nodes if not seen.takes_pods(each)}
    starts = ("topologySpread", " scale ", "patch horizontalpodautoscaler", "maxSurge")
    names = [each["metadata"]["name"] for each in seen.objects.nodes]
    if any(seen.owner(one).startswith("daemonset/") for one in seen.all_pods):
        return  # which runs on all nodes
    for each in seen.found.findings:
        if each.cause.id in {"zone-without-endpoint", "zone-terminating", "budget-permits-an-empty-zone"}:
            zones = {seen.zone(name) for name in each.nodes}
            here = {name for name in names if seen.zone(name) in zones}
            if here <= closed and (wrong := [word for word in starts if word in each.remedy]):
                yield f"no node of {sorted(zones)} takes pods, but {wrong}: {each.remedy}"


def hints_of_zones(seen: ServiceAnswer) -> Iterator[str]:
    """A node whose zone has a ready endpoint, but no hint, is named for the hints, whatever its proxy is."""
    if seen.found.wish not in {"node", "zone"}:
        return
    for route in seen.found.routes:
        if route.short != "crosses" or route.clients == "external":
            continue
        name, _, protocol = route.port.partition("/")
        known = seen.of_port({"name": name, "protocol": protocol}, route.family)
        ready = [one for one in known if is_ready(one)]
        hinted = {zone["name"] for one in ready for zone in one.get("hints", {}).get("forZones", ())}
        for node in route.nodes if route.zone in {seen.zone_of(one) for one in ready} - hinted - {""} else ():
            mine = [each for each in seen.found.findings if not each.nodes or node in each.nodes]
            mine = [each for each in mine if not each.ports or route.label.startswith(each.ports)]
            if not {each.cause.id for each in mine if each.severity == "warning"} & _OF_HINTS:
                yield f"{node} is not named for the hints: {route}"


_OF_HINTS = {
    "annotation-as-label", "annotation-misspelt", "annotation-overrides-field", "annotation-unknown", "controller-gone",
    "endpoint-of-a-former-zone", "endpoint-on-a-missing-node",
    "endpoint-without-zone", "gate-off", "hints-not-back", "hints-not-written", "hints-of-somebody-else",
    "node-without-zone", "slice-of-another-manager", "slices-disagree", "value-unknown-to-the-controller",
    "zone-not-hinted",
}  # fmt: skip


def labels_before_constraints(seen: ServiceAnswer) -> Iterator[str]:
    """Pods that must be spread over zones start on no node without a zone, so all such nodes are labelled first."""
    bare = {each["metadata"]["name"]: each["metadata"]["labels"] for each in seen.objects.nodes}
    bare = {name: labels for name, labels in bare.items() if not labels.get(ZONE)}
    for each in seen.found.findings:
        before, strict, _ = each.remedy.partition("whenUnsatisfiable: DoNotSchedule")
        given = re.findall(rf"kubectl label node (?:-l '(\S+)=([^,]*),[^']*'|([^-=][^=]*)) {ZONE}=", before)
        named = {name for key, value, names in given for name in names.split() if not key}
        named |= {name for name, labels in bare.items() for key, value, _ in given if key and labels.get(key) == value}
        if strict and (missing := bare.keys() - named):
            yield f"{sorted(missing)} have no zone label: {each.remedy}"


def health_checks(seen: ServiceAnswer) -> Iterator[str]:
    """Health checks for externalTrafficPolicy Local count ready endpoints (KEP-1669), so no load balancer uses others.

    If no node has a ready endpoint, no node is well, and it depends on the load balancer what it does.
    """
    spec = seen.service["spec"]
    if spec["type"] != "LoadBalancer" or spec.get("externalTrafficPolicy") != "Local":
        return
    for family in spec["ipFamilies"]:
        mine = [one for one in seen.slices if one["addressType"] == family]
        well = {each["nodeName"] for one in mine for each in one["endpoints"] if is_ready(each)}
        for route in seen.found.routes:
            checked = route.nodes if route.clients == "external" and route.family == family and well else ()
            if wrong := [name for name in checked if (name in well) is (route.tier == "excluded")]:
                yield f"health checks of {wrong}: {route}"


def requests_without_effect(seen: ServiceAnswer) -> Iterator[str]:
    """A Service without a request: clients in zones without a ready endpoint would leave them with a request as well.

    The answer names these nodes with a cause of their own, and does not recommend a request that has no effect at all.
    """
    for each in seen.found.findings:
        if each.cause.id != "asks-for-nothing":
            continue
        crossing = [route for route in seen.found.routes if route.clients == "internal" and route.crossing]
        helped = False
        for route in crossing:
            known = seen.of_port(seen.port(route.port), route.family)
            zones = {seen.zone_of(one) for one in known if is_ready(one)}
            helped |= bool(route.zone) and route.zone in zones
            if not route.zone or (zones and route.zone not in zones):
                mine = [one for one in seen.found.findings if one is not each and {*route.nodes} <= {*one.nodes}]
                if not any(not one.ports or route.label.startswith(one.ports) for one in mine):
                    yield f"{route.nodes} are not named: {route}"
        if crossing and not helped and "if " not in each.remedy:
            yield f"a request would change nothing: {each.remedy}"


def overriding_annotations(seen: ServiceAnswer) -> Iterator[str]:
    """Who is to upgrade kube-proxy for node hints reads that the annotation keeps the controller from writing them."""
    annotations, spec = seen.service["metadata"]["annotations"], seen.service["spec"]
    if annotations.get(MODE) != "Auto" or not spec.get("trafficDistribution") or not spec.get("selector"):
        return
    over = [each for each in seen.found.findings if each.cause.id == "annotation-overrides-field"]
    old = [each for each in seen.found.findings if each.cause.id == "proxy-too-old" and "hints for nodes" in each.says]
    for each in old:
        if not any(one.severity == "warning" and {*each.nodes} <= {*(one.nodes or each.nodes)} for one in over):
            yield f"the annotation is no warning for {each.nodes}"


def overridden_requests(seen: ServiceAnswer) -> Iterator[str]:
    """A request that the annotation overrides is not called a request without saying so."""
    over = "it overrides" in seen.found.asks
    for each in seen.found.findings:
        if over and "differ from the request" in each.says and "overrides" not in each.says:
            yield f"{seen.found.asks}, but {each.says}"
        counted = re.match(r"(?:.*: )?(\d+) endpoints? (?:has|have) hints that differ", each.says)
        if counted and each.says.count(" is hinted for ") != min(int(counted[1]), 6):
            yield f"not all of them are named: {each.says}"


def terminating_endpoints_and_policies(seen: ServiceAnswer) -> Iterator[str]:
    """Terminating endpoints take connections from all zones only of those clients that no policy Local limits."""
    spec = seen.service["spec"]
    for each in seen.found.findings:
        if each.cause.id == "terminating-only":
            mine = [one for one in seen.found.routes if not each.ports or one.label.startswith(each.ports)]
            mine = [one for one in mine if one.clients == "internal"]
            local = spec["internalTrafficPolicy"] == "Local"
            if local and "from all zones" in each.says.partition("external clients")[0]:
                yield f"the policy is Local: {each.says}"
            outside = spec["type"] != "ClusterIP" and not sends_to_pods(seen.service)
            if outside and local is not (spec["externalTrafficPolicy"] == "Local") and "external" not in each.says:
                yield f"external clients are treated otherwise: {each.says}"
            if wrong := {name for one in mine if not one.targets for name in one.nodes if name in each.nodes}:
                yield f"{sorted(wrong)} use no endpoint: {each.says}"
            if not each.nodes and (wrong := {name for one in mine if not one.targets for name in one.nodes}):
                yield f"{sorted(wrong)} use no endpoint, and all nodes are meant: {each.says}"


def nodes_of_causes(seen: ServiceAnswer) -> Iterator[str]:
    """A cause is said of the nodes that it is about: those that fall short, follow a policy, or use hints."""
    old = {each["spec"]["nodeName"]: int(re.findall(r":v1\.(\d+)", str(each["spec"]["containers"]))[0])
           for each in seen.objects.proxies}  # fmt: skip
    annotated = seen.service["metadata"]["annotations"].get(MODE)
    unhinted = {node for node, minor in old.items() if minor < 24 or (minor < 27 and annotated != "Auto")
                or (minor < 31 and not annotated)}  # fmt: skip
    every = {each["metadata"]["name"] for each in seen.objects.nodes}
    for each in seen.found.findings:
        mine = [one for one in seen.found.routes if not each.ports or one.label.startswith(each.ports)]
        mine = [one for one in mine if each.clients in {"", one.clients}]
        nodes = {*each.nodes} or every
        if each.severity in {"warning", "error"}:
            fails = each.severity == "error"
            short = {name for one in mine if (one.fails if fails else one.short) for name in one.nodes}
            if wrong := nodes - short:
                yield f"{sorted(wrong)} do not fall short, {each.cause.id}: {each.says}"
        elif each.cause.id in {"internal-policy-local", "policy-hides-field"}:
            ignored = {name for one in mine if one.clients == "internal" and one.tier not in {"local", "nowhere"}
                       for name in one.nodes}  # fmt: skip
            if wrong := nodes & ignored:
                yield f"{sorted(wrong)} do not follow the policy: {each.says}"
        elif each.cause.id == "external-clients":
            limited = {
                name for one in mine if one.clients == "external" and "Local" in one.because for name in one.nodes
            }
            if wrong := nodes & (unhinted | limited):
                yield f"{sorted(wrong)} use no hints for external clients: {each.says}"


def owners_of_pods(seen: ServiceAnswer) -> Iterator[str]:
    """Nothing is said of the owner of a pod that was not read, and the owners that are named are not all."""
    stay = [each for each in seen.endpoints if not each["conditions"].get("terminating")]
    unread = {name_of(each) for each in stay} - seen.pods_read
    for each in seen.found.findings if unread and seen.objects.pods else ():
        if "which no workload owns" in each.remedy and each.cause.id != "target-port-of-some-pods":  # of pods that were
            yield f"{sorted(unread)} were not read: {each.remedy}"
        for named in re.findall(r"pod template of ([^:]*): topologySpread", each.remedy):
            if named != "the workload" and not any(name in named for name in unread):
                yield f"{sorted(unread)} may have other owners: {each.remedy}"


def pods_that_may_be_gone(seen: ServiceAnswer) -> Iterator[str]:
    """`describe pod` names a pod that was read, or says what to do if it does not exist."""
    for each in seen.found.findings if seen.objects.pods else ():
        for before, names in re.findall(r"(if [^;]*, )?kubectl -n shop describe pod ([^;]*)", each.remedy):
            if not before and (wrong := {*names.split()} - seen.pods_read):
                yield f"{sorted(wrong)} may be gone: {each.remedy}"


def pods_in_no_slice(seen: ServiceAnswer) -> Iterator[str]:
    """A pod that is in no slice is missing for all ports and IP families."""
    for each in seen.found.findings:
        if each.cause.id == "pod-in-no-slice" and (each.ports or not each.says.startswith("pod")):
            yield f"it is missing for all ports: {each.says} {each.ports}"


def commands_for_the_controller(seen: ServiceAnswer) -> Iterator[str]:
    """Whoever is sent to the log of the controller also reads how to make it write."""
    for each in seen.found.findings:
        if " logs -l component=kube-controller-manager" in each.remedy and "touched=" not in each.remedy:
            yield f"{each.cause.id}: {each.remedy}"


def version_skew(seen: ServiceAnswer) -> Iterator[str]:
    """kube-proxy may be three minor releases older than the API server, which is as new as each kubelet at least."""
    known = [each["status"]["nodeInfo"]["kubeletVersion"] for each in seen.objects.nodes]
    fields = [each["spec"].get("trafficDistribution", "") for each in seen.objects.services]
    least = max(int(each.split(".")[1]) for each in known)
    least = max(least, 34 if any("Same" in each for each in fields) else 0)
    for each in seen.found.findings:
        for minor in re.findall(r"kube-proxy (?:on [^;]* to )?1\.(\d+) or newer", each.remedy):
            if int(minor) < least - 3:
                yield f"the API server is 1.{least} at least: {each.remedy}"
            known = re.search(r"1\.(\d+)", seen.objects.version)
            if int(minor) > (int(known[1]) if known else least) and "control plane" not in each.remedy:
                yield f"the API server may be older than 1.{minor}: {each.remedy}"


def load_balancers_to_pods(seen: ServiceAnswer) -> Iterator[str]:
    """The target type counts if the controller of the annotation manages the load balancer, by a class or a type."""
    to_pods = "load-balancer-to-pods" in {each.cause.id for each in seen.found.findings}
    by_balancer = "the load balancer" in seen.found.asks
    if (to_pods or by_balancer) and not sends_to_pods(seen.service):
        yield f"no controller reads the target type: {seen.found.asks}"


def unknown_values(seen: ServiceAnswer) -> Iterator[str]:
    """A value of the topology annotation that no controller knows is mentioned."""
    ids = {each.cause.id for each in seen.found.findings}
    if seen.service["metadata"]["annotations"].get(MODE) == "zone" and "annotation-unknown" not in ids:
        yield "the annotation is not mentioned"


def uncertain_nodes(seen: ServiceAnswer) -> Iterator[str]:
    """Each node that JSON calls uncertain is named by a cause, and so in the text."""
    named = {name for each in seen.found.findings if each.cause.id in _OF_PROXIES for name in each.nodes}
    if missing := {*seen.found.uncertain} - named:
        yield f"{sorted(missing)} are uncertain, and no cause says why"


_OF_PROXIES = {"node-without-proxy", "proxy-not-ready", "not-kube-proxy"}


def _without_ports(says: str) -> str:
    return re.sub(r"^(port |IPv)[^:]*: ", "", says)


def _names(says: str) -> set[str]:
    return {*re.findall(r"web-\d+", says.rpartition(": ")[2])}


RULES = (
    row_of_the_overview, terminating_endpoints, pods_that_exist, tolerations, causes_and_table, removed_annotations,
    one_wish, releases, empty_slices, slice_patches, remedies_with_effect, local_policies, both_policies,
    services_without_pods, old_proxies_and_policies, equal_causes, workloads, outlook_of_zones, added_ports,
    known_zones, headline_causes, closed_zones, hints_of_zones, labels_before_constraints, health_checks,
    requests_without_effect, overriding_annotations, overridden_requests, terminating_endpoints_and_policies,
    nodes_of_causes,
    owners_of_pods, pods_that_may_be_gone, pods_in_no_slice, commands_for_the_controller, version_skew,
    load_balancers_to_pods, unknown_values, uncertain_nodes, *WORKLOAD_RULES, *EFFECT_RULES,
)  # fmt: skip
