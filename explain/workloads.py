"""The workloads that own the pods of a Service, and the commands that scale, restart or change them."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from explain.cluster import Cluster
from explain.scheduling import RULES, spreads
from harness.api.client import Object

_SCALABLE = {"deployment", "statefulset", "replicaset", "replicationcontroller"}
_UNKNOWN = "the owner of replicaset"
_TEMPLATES = _SCALABLE | {"daemonset", "rollout", _UNKNOWN}
HASHES = {"deployment": "pod-template-hash", "rollout": "rollouts-pod-template-hash"}
"""The label that differs between the pods of an old and a new pod template, by the kind of the workload."""


@dataclass(frozen=True)
class Workload:
    """A workload, like "deployment/web", with its object ({} if it was not read) and its pods."""

    name: str
    obj: Object
    pods: Sequence[Object]

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def spec(self) -> Object:
        return self.obj.get("spec") or {}

    @property
    def specs(self) -> list[Object]:
        """The spec in the pod template, if it is known, and the specs of the pods."""
        template = (self.spec.get("template") or {}).get("spec")
        return [*([template] if template else ()), *(each["spec"] for each in self.pods)]

    @property
    def strategy(self) -> str:
        """What is special about a change of the pod template: "paused", "Recreate" or "OnDelete". "" if nothing is."""
        if self.kind in {"replicaset", "replicationcontroller"}:
            return "OnDelete"
        of = self.spec.get("strategy") or self.spec.get("updateStrategy") or {}
        return "paused" if self.spec.get("paused") else str(of.get("type", "")).replace("RollingUpdate", "")

    @cached_property
    def own_claims(self) -> bool:
        """True if each pod of a StatefulSet has a volume of its own, which may keep the pod in its zone."""
        known = [(each["metadata"]["name"], name) for each in self.pods for name in _claims(each["spec"])]
        own = any(claim.endswith(f"-{pod}") for pod, claim in known)
        return self.kind == "statefulset" and (own or bool(self.spec.get("volumeClaimTemplates")))

    @property
    def claim_of_one_node(self) -> str:
        """A PersistentVolumeClaim that may be ReadWriteOnce, because the pods do not use it on several nodes, or ""."""
        several = len({each["spec"].get("nodeName") for each in self.pods}) > 1
        return "" if several else min(set().union(*map(_claims, self.specs)), default="")

    def is_spread(self, *, per_template: bool) -> bool:
        of_pods = [each["metadata"].get("labels") or {} for each in self.pods]
        labels = of_pods[0] if of_pods else _labels_of_pods(self.obj)
        return any(spreads(each, labels, HASHES.get(self.kind, "") * per_template) for each in self.specs)


@dataclass(eq=False)
class Workloads:
    """The workloads that own the pods of a Service.

    `selector` and `pods` are those of the Service, `names` the names of its endpoints, and `unread` the names of
    pods among the endpoints that were not read. `does` registers the side effects of a part of a fix.
    """

    namespace: str
    selector: Mapping[str, str]
    pods: Sequence[Object]
    names: set[str]
    unread: set[str]
    cluster: Cluster
    does: Callable[..., str]

    @cached_property
    def _read(self) -> dict[str, Object]:
        kinds = ("deployment", "statefulset", "replicaset")
        read = {kind: self.cluster.further[f"{kind}s", self.namespace] for kind in kinds}
        return {f"{kind}/{one['metadata']['name']}": one for kind, found in read.items() for one in found}

    @cached_property
    def each(self) -> Mapping[str, Workload]:
        """The workloads by name, like "deployment/web". Workloads that can be scaled are first."""
        pods: dict[str, list[Object]] = defaultdict(list)
        for one in self.pods:
            if owner := self.owner(one):
                pods[owner].append(one)
        if not pods and (wanted := self.selector.items()):
            deployments = {name: one for name, one in self._read.items() if name.startswith("deployment/")}
            mine = [name for name, one in deployments.items() if wanted <= _labels_of_pods(one).items()]
            pods.update({name: [] for name in mine if len(mine) == 1})
        found = [Workload(name, self._read.get(name, {}), of_one) for name, of_one in pods.items()]
        return {one.name: one for one in sorted(found, key=lambda one: (one.kind not in _SCALABLE, one.name))}

    @property
    def head(self) -> Workload:
        """The first workload, without a name if none is known."""
        return next(iter(self.each.values()), Workload("", {}, ()))

    @cached_property
    def movable(self) -> list[Workload]:
        """The workloads whose new pods may run on other nodes than the old ones: all except DaemonSets."""
        return [one for one in self.each.values() if one.kind != "daemonset"]

    @cached_property
    def refusals(self) -> Mapping[str, str]:
        """The nodes where no new pod can start, each with the reason."""
        specs = [one.specs[0] for one in self.movable if one.specs] or [each["spec"] for each in self.pods[:1]] or [{}]
        rules = {json.dumps([each.get(rule) for rule in RULES], sort_keys=True) for each in specs}
        first, *others = map(self.cluster.refusals, sorted(rules))
        return {node: why for node, why in first.items() if all(node in each for each in others)}

    @property
    def open_zones(self) -> set[str]:
        """The zones where a new pod can start."""
        return {one.zone for name, one in self.cluster.nodes.items() if name not in self.refusals} - {""}

    def refusing(self, zones: Iterable[str]) -> list[str]:
        """Return the given zones that have nodes, but none that accepts new pods."""
        known = {one.zone for one in self.cluster.nodes.values()} - self.open_zones
        return sorted({*zones} & known)

    @cached_property
    def stuck(self) -> str:
        """The PersistentVolumeClaim that all pods share, if its volume may keep them in one zone. "" otherwise."""
        zones = {self.cluster.zone(each["spec"]) for one in self.movable for each in one.pods} - {""}
        claims = [[*map(_claims, one.specs)] for one in self.movable if one.specs and not one.own_claims]
        return min(set().union(*(set.intersection(*each) for each in claims)), default="") if len(zones) < 2 else ""

    @property
    def own_claims(self) -> bool:
        """True if volumes may keep existing pods in their zones, so that only additional ones start elsewhere."""
        return any(one.own_claims for one in self.movable)

    @cached_property
    def autoscaler(self) -> Object | None:
        known = self.cluster.further["horizontalpodautoscalers", self.namespace]
        targets = [(each.get("spec") or {}).get("scaleTargetRef") or {} for each in known]
        names = [f"{each.get('kind')}/{each.get('name')}".lower() for each in targets]
        return dict(zip(names, known, strict=True)).get(self.head.name)

    def scale(self, replicas: int) -> str:
        """Return the fix that scales the first workload or its autoscaler, or "" if there is nothing to scale."""
        replicas -= sum(len(one.pods) or 1 for one in [*self.each.values()][1:])
        if self.autoscaler is not None:
            return self._bound(self.autoscaler, replicas)
        if self.is_bare:
            return f"run {replicas} pods of a Deployment"
        name, kind, had = self.head.name, self.head.kind, int(self.head.spec.get("replicas") or 0)
        if had >= replicas or kind in {"daemonset", "job"}:
            return ""
        if name and kind not in _SCALABLE:
            return f"let {name} run {replicas} pods"
        there = max(len(self.pods), len(self.names))
        return self.does(
            f"kubectl -n {self.namespace} scale {name or 'deployment/NAME'} --replicas={replicas}",
            f"the workload then has {replicas} pods (before: {had})"
            if had
            else "if it has more pods now, it loses some",
            "a workload of which only one pod may run must not be scaled" * (there == (had or 1) == 1),
            "a Deployment that owns the ReplicaSet undoes this" * (kind == "replicaset"),
            managers(self.head.obj),
        )

    def _bound(self, autoscaler: Object, replicas: int) -> str:
        spec, name = autoscaler["spec"], autoscaler["metadata"]["name"]
        least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", replicas)
        bounds = {"minReplicas": max(least, replicas)} | ({"maxReplicas": replicas} if most < replicas else {})
        if bounds.items() <= spec.items():
            return ""
        if owner := owner_of(autoscaler):
            return f"let {owner}, which owns HorizontalPodAutoscaler {name}, run at least {replicas} pods"
        effect = f"the autoscaler then runs {replicas} pods at least (before: {least})"
        if most < replicas:
            effect = f"the autoscaler then always runs {replicas} pods (before: {least} to {most})"
        return self.patch(f"horizontalpodautoscaler {name}", bounds, effect, managers(autoscaler))

    def patch(self, of: str, spec: Object, *effects: str) -> str:
        """Return the command that patches fields of the spec of an object in the namespace."""
        patch = json.dumps({"spec": spec}, separators=(",", ":"))
        return self.does(f"kubectl -n {self.namespace} patch {of} -p '{patch}'", *effects)

    def one_by_one(self, deployment: Workload) -> str:
        """Return the command that lets a Deployment start a new pod before an old pod ends."""
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        effect, claim = "old and new pods then run at the same time", deployment.claim_of_one_node
        waits = f"if PersistentVolumeClaim {claim} is ReadWriteOnce, new pods wait, except on the node of the old ones"
        return self.patch(
            deployment.name, {"strategy": strategy}, effect, waits * bool(claim), managers(deployment.obj)
        )

    @property
    def gradual(self) -> list[str]:
        """The commands without which a restart ends all pods at once: those for Deployments with strategy Recreate."""
        return [self.one_by_one(one) for one in self.movable if one.strategy == "Recreate" and not self.stuck]

    def in_template(self, owners: Iterable[str]) -> str:
        """Return a phrase like "in the pod template of deployment/web" for these workloads."""
        known = [self.each.get(each, Workload(each, {}, ())) for each in owners if each]
        if self.pods and not known:
            return "in a Deployment that replaces these pods, which no workload owns"
        has = [f"{'' if each.kind in _TEMPLATES else 'what creates '}{each.name}" for each in known]
        said = f"in the pod template of {' and of '.join(has) or 'the workload'}"
        effects = [effect for each in known for effect in (_on_change(each, self.namespace), managers(each.obj))]
        at_once = not known or any(each.strategy in {"", "Recreate"} for each in known)
        return self.does(said, "a changed pod template replaces all pods" * at_once, *effects)

    @property
    def restart(self) -> str:
        """The commands that restart the workloads, or advice to replace their pods."""
        command, words = f"kubectl -n {self.namespace} rollout restart", "replace the pods of {}, which are then spread"
        every = "replaces all pods of the workload, as its update strategy says"
        done = [*self.gradual]
        for each in self.movable or [Workload("the workload", {}, ())]:
            can = each.kind in {"deployment", "statefulset"} and each.strategy not in {"paused", "OnDelete"}
            effect = _on_change(each, self.namespace) or every
            done.append(self.does(f"{command} {each.name}", effect) if can else words.format(each.name))
        return "; ".join(done)

    def is_spread(self, *, per_template: bool = False) -> bool:
        """Return whether the pods of each workload are spread over zones, with `per_template` also after a rollout."""
        by_template = per_template and self.cluster.features.at_least(27)  # which knows matchLabelKeys
        return bool(self.each) and all(each.is_spread(per_template=by_template) for each in self.each.values())

    @property
    def is_bare(self) -> bool:
        """True if no workload owns the pods, so that nothing replaces or scales them."""
        return bool(self.pods) and not self.each and not self.unread

    def owner(self, pod: Object) -> str:
        """Return the workload that owns a pod, or ""."""
        for owner in pod["metadata"].get("ownerReferences") or ():
            kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
            labels = pod["metadata"].get("labels") or {}
            return self._of_replica_set(name, labels) if kind == "ReplicaSet" else f"{kind.lower()}/{name}"
        return ""

    def _of_replica_set(self, name: str, labels: Mapping[str, str]) -> str:
        """Return the owner of a ReplicaSet, or else the ReplicaSet. If it is unread, its name may show a Deployment."""
        own = f"replicaset/{name}"
        if (known := self._read.get(own)) is not None:
            return owner_of(known) or own
        start, _, suffix = name.rpartition("-")
        deployment = f"deployment/{start}"
        if suffix != labels.get("pod-template-hash"):
            return own
        read = "deployments" in self.cluster.objects.further
        return deployment if deployment in self._read or not read else f"{_UNKNOWN}/{name}"


def _claims(spec: Object) -> set[str]:
    volumes = spec.get("volumes") or ()
    return {each["persistentVolumeClaim"]["claimName"] for each in volumes if each.get("persistentVolumeClaim")}


def _labels_of_pods(workload: Object) -> dict[str, str]:
    spec: Object = workload.get("spec") or {}
    selector: Object = (spec.get("selector") or {}).get("matchLabels") or {}
    template: Object = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return selector | template


def _on_change(workload: Workload, namespace: str) -> str:
    name = workload.name
    return {
        "Recreate": f"with strategy Recreate, all pods of {name} end before new pods start",
        "paused": f"nothing changes before kubectl -n {namespace} rollout resume {name}, because {name} is paused",
        "OnDelete": f"each pod of {name} changes only once it is deleted",
    }.get(workload.strategy, "")


def owner_of(obj: Object) -> str:
    """Return the owner that controls an object, like "deployment/web", or ""."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((f"{each['kind'].lower()}/{each['name']}" for each in owners if each.get("controller")), "")


def managers(obj: Object) -> str:
    """Return a sentence about the programs that may undo a change of an object, or "" if the object shows none."""
    metadata = obj.get("metadata") or {}
    marks = {*(metadata.get("labels") or {}).items(), *(metadata.get("annotations") or {}).items()}
    known = [name for name, key in _MARKS.items() if any(key in f"{one}={value}" for one, value in marks)]
    known += filter(None, [owner_of(obj)])
    return f"{' and '.join(known)} may undo this, so change it there as well" * bool(known)


_MARKS = {"Argo CD": "argocd.argoproj.io/", "Flux": "toolkit.fluxcd.io/name=", "Helm": "managed-by=Helm"}
"""Parts of labels and annotations by which programs mark the objects that they manage."""
