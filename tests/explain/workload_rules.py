"""Rules for the remedies that scale, spread, restart or change workloads, checked against the objects alone.

Each rule is a class of harmful or useless remedies that reviewers found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.api.client import Object
from tests.explain.cluster_builders import REQUIRED, ZONE
from tests.explain.service_answer import ServiceAnswer

_RESTART = re.compile(r"rollout restart (\S+?)(?:;|$)")
_TEMPLATE = re.compile(r"in the pod template of ([^:]*): topologySpread")
_SCALED = re.compile(r" scale (\S+) --replicas|patch (horizontalpodautoscaler) | run (?:at least )?\d+ pods")
_STRATEGY = '"type":"RollingUpdate"'


def templates_of_deployments(seen: ServiceAnswer) -> Iterator[str]:
    """A constraint for the pods of a Deployment counts only pods of the new template, which replace the old ones."""
    for each in seen.found.findings:
        for named in _TEMPLATE.findall(each.remedy):
            if "deployment/" in named and "matchLabelKeys: [pod-template-hash]" not in each.remedy:
                yield f"the constraint also counts old pods: {each.remedy}"


def zones_that_take_no_pods(seen: ServiceAnswer) -> Iterator[str]:
    """No pods are replaced while they cannot return to a zone with endpoints, and only such zones are called closed.

    The zones that a drain or a disruption empties are not asked to take pods first, but at all.
    """
    for each in seen.found.findings:
        named = set(" ".join(re.findall(r"let a node of zones? ([^(]*) take pods", each.remedy)).split())
        if wrong := named - seen.closed_zones:
            yield f"a node of {sorted(wrong)} takes pods: {each.remedy}"
        replaced = _TEMPLATE.search(each.remedy) or _RESTART.search(each.remedy)
        if replaced and (lost := (seen.serving_zones & seen.closed_zones) - named) and "daemonset/" not in replaced[1]:
            yield f"{sorted(lost)} lose their endpoints: {each.remedy}"
        more = _TEMPLATE.search(each.remedy) or _SCALED.search(each.remedy)
        zones = {seen.zone(name) for name in each.nodes} & seen.closed_zones
        if each.cause.id == "budget-permits-an-empty-zone" and more and (missing := zones - named):
            yield f"no node of {sorted(missing)} takes pods: {each.remedy}"


def restarts(seen: ServiceAnswer) -> Iterator[str]:
    """Only workloads whose pods may start elsewhere are restarted, and not if kubectl refuses, or nothing happens."""
    for each in seen.found.findings:
        for name in _RESTART.findall(each.remedy):
            strategy = _strategy(seen.workload(name))
            if name.startswith("daemonset/") or strategy in {"paused", "OnDelete"}:
                yield f"{name} is {strategy}: {each.remedy}"
            bound = any(_claims(one) for one in seen.all_pods if seen.owner(one) == name)  # new pods stay in the zone
            if not bound and not _is_spread(seen, name, "pod-template-hash" * name.startswith("deployment/")):
                yield f"new pods of {name} are not spread: {each.remedy}"


def strategies(seen: ServiceAnswer) -> Iterator[str]:
    """What a changed template does follows from the strategy: all pods end first, or nothing happens at once."""
    for each in seen.found.findings:
        for named in [*_TEMPLATE.findall(each.remedy), *_RESTART.findall(each.remedy)]:
            owners = [name for name in re.findall(r"[a-z]+/[\w-]+", named) if "owner of" not in named]
            sets = {name: "OnDelete" for name in owners if name.startswith("replicaset/")}  # which replace no pods
            known = {name: _strategy(seen.workload(name)) for name in owners} | sets
            for name, strategy in known.items():
                volumes = any("volumes" in one["spec"] for one in seen.all_pods)
                if (
                    strategy == "Recreate"
                    and _STRATEGY not in each.remedy.partition("topologySpread")[0]
                    and not volumes
                ):
                    yield f"all pods of {name} end first: {each.remedy}"
                words = {"Recreate": "Recreate", "paused": f"resume {name}", "OnDelete": "only once it is deleted"}
                if strategy in words and words[strategy] not in each.also:
                    yield f"{name} is {strategy}: {each.also}"
            if (
                known
                and "creates" not in named
                and {*known.values()} <= {"paused", "OnDelete"}
                and "replaces all pods" in each.also
            ):
                yield f"no pod is replaced: {each.also}"


def volumes(seen: ServiceAnswer) -> Iterator[str]:
    """Volumes keep pods in their zones: such pods are not forced elsewhere, and no pods are added that share one."""
    moving = [each for each in seen.all_pods if not seen.owner(each).startswith("daemonset/")]
    zones = {seen.zone(each["spec"]["nodeName"]) for each in moving} - {""}
    own = {seen.owner(each) for each in moving for claim in _claims(each) if claim != "data"}
    shared = {seen.owner(each) for each in moving for claim in _claims(each) if claim == "data"}
    for each in seen.found.findings:
        for named in _TEMPLATE.findall(each.remedy):
            if any(name in named for name in own) and "DoNotSchedule" in each.remedy:
                yield f"pods of {sorted(own)} may stay pending: {each.remedy}"
        acts = _TEMPLATE.search(each.remedy) or _SCALED.search(each.remedy)
        empty = each.cause.id in {"zone-without-endpoint", "zone-terminating", "budget-permits-an-empty-zone"}
        if acts and empty and shared and len(zones) < 2 and "pods of a Deployment" not in each.remedy:
            yield f"pods of {sorted(shared)} share a volume: {each.remedy}"


def owners_of_workloads(seen: ServiceAnswer) -> Iterator[str]:
    """Commands name workloads that exist, and what owns an autoscaler is changed instead of the autoscaler."""
    scalers = {each["metadata"]["name"]: each for each in seen.objects.further.get("horizontalpodautoscalers", ())}
    read = {f"deployment/{each['metadata']['name']}" for each in seen.objects.further.get("deployments", ())}
    for each in seen.found.findings:
        for name in re.findall(r"patch horizontalpodautoscaler (\S+)", each.remedy):
            if "ownerReferences" in scalers[name]["metadata"]:
                yield f"the owner of the autoscaler undoes this: {each.remedy}"
        for name in re.findall(r" (deployment/[\w-]+)", each.remedy):
            if "deployments" in seen.objects.further and name not in read:
                yield f"{name} does not exist: {each.remedy}"


def undone_changes(seen: ServiceAnswer) -> Iterator[str]:
    """What may undo a change of a Service or a workload is named."""
    for each in seen.found.findings:
        changes = re.search(r"(patch|annotate|label) service \S+ (?!trafficdist)", each.remedy)
        names = re.findall(r" (?:scale|patch) (\w+/\S+)", each.remedy)
        names += [name for named in _TEMPLATE.findall(each.remedy) for name in re.findall(r"[a-z]+/[\w-]+", named)]
        for one in [*([seen.service] if changes else []), *(seen.workload(name) for name in names)]:
            for manager in _managers(one):
                if manager not in each.also:
                    yield f"{manager} may undo this: {each.remedy}, {each.also}"


def existing_constraints(seen: ServiceAnswer) -> Iterator[str]:
    """Pods are only added if a constraint or anti-affinity spreads them, which selects them with a skew of one."""
    owners = {seen.owner(one) for one in seen.all_pods if not seen.owner(one).startswith(("daemonset/", "pod/"))}
    for each in seen.found.findings:
        if each.cause.id == "zone-without-endpoint" and _SCALED.search(each.remedy):
            spread = bool(owners) and all(_is_spread(seen, name) for name in owners)
            if "topologySpread" not in each.remedy and not spread:
                yield f"nothing spreads the pods: {each.remedy}"
            if "topologySpread" in each.remedy and spread:
                yield f"the pods are spread already: {each.remedy}"


WORKLOAD_RULES = (
    templates_of_deployments, zones_that_take_no_pods, restarts, strategies, volumes, owners_of_workloads,
    undone_changes, existing_constraints,
)  # fmt: skip


def _strategy(workload: Object) -> str:
    spec = workload.get("spec", {})
    of = spec.get("strategy") or spec.get("updateStrategy") or {}
    return "paused" if spec.get("paused") else str(of.get("type", ""))


def _claims(pod: Object) -> list[str]:
    return [each["persistentVolumeClaim"]["claimName"] for each in pod["spec"].get("volumes", ())]


def _managers(obj: Object) -> Iterator[str]:
    metadata = obj.get("metadata", {})
    if metadata.get("labels", {}).get("app.kubernetes.io/managed-by") == "Helm":
        yield "Helm"
    if "argocd.argoproj.io/tracking-id" in metadata.get("annotations", {}):
        yield "Argo CD"
    yield from (f"{each['kind'].lower()}/{each['name']}" for each in metadata.get("ownerReferences", ()))


def _is_spread(seen: ServiceAnswer, owner: str, key: str = "") -> bool:
    """Return whether the first pod of a workload has a constraint or anti-affinity that spreads such pods."""
    mine = [each for each in seen.all_pods if seen.owner(each) == owner]
    for each in mine:
        labels, spec = each["metadata"]["labels"], each["spec"]
        known = [one for one in spec.get("topologySpreadConstraints", ()) if one["maxSkew"] == 1]
        known = [one for one in known if not key or key in one.get("matchLabelKeys", ())]
        known += spec.get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, [])
        for one in known:
            wanted = one.get("labelSelector")
            if one["topologyKey"] == ZONE and wanted and wanted["matchLabels"].items() <= labels.items():
                return True
    return False
