"""Remedies for workloads fit the rules, volumes, strategies and owners of the workloads, as reviewers asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from explain.cluster import Cluster
from explain.objects import Objects
from harness.api.client import Object
from tests.explain.apply_remedies import now
from tests.explain.cluster_builders import (
    BY_ZONE,
    REQUIRED,
    SPREAD,
    ZONE,
    autoscaler,
    cordoned,
    deployment,
    endpoint,
    nodes,
    objects,
    of_slice,
    owned,
    service,
    tainted,
)

_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_TEMPLATE, _SCALE = "topologySpreadConstraints: [{maxSkew: 1", "kubectl -n shop scale "


@dataclass(frozen=True)
class WorkloadCase:
    """A cluster without endpoints in zone c, and parts of the remedy and of its side effects."""

    seen: Objects
    do: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    also: str = ""
    not_also: str = "nothing of this"


def _cluster(
    *places: str, by: str = "ReplicaSet/web-7f", on: Any = None, further: Any = None, claim: str = "", **spec: Any
) -> Objects:
    pods = [owned(f"web-{each}", each, by=by, **spec) for each in places]
    for each in pods if claim else ():
        of_pod = claim.replace("POD", each["metadata"]["name"])
        each["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": of_pod}}]
    more = {"on": on} if on else {}
    return objects(service(), of_slice(*map(endpoint, places)), pods=pods, further=further or {}, **more)


def _of(found: Object, **metadata: Any) -> Object:
    return {**found, "metadata": {**found["metadata"], **metadata}}


_BY_ROLLOUT = [{"kind": "Rollout", "name": "web", "controller": True}]
_BY_KEDA = [{"kind": "ScaledObject", "name": "web", "controller": True}]
_SET: Object = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 3}}
_REPLICA_SET = {"metadata": {"name": "web-7f", "namespace": "shop", "ownerReferences": _BY_ROLLOUT}}
_ZONE_AFFINITY = {"key": ZONE, "operator": "In", "values": ["a", "b"]}

CASES = {
    "old pods do not count": WorkloadCase(_cluster("a1", "a2", "b1"), ("matchLabelKeys: [pod-template-hash]",)),
    "a zone whose nodes take no pods": WorkloadCase(
        _cluster("a1", "a2", "b1", on=nodes(b1=cordoned("b1", "b"), b2=cordoned("b2", "b"))),
        ("first, let a node of zone b take pods (b1 b2 are cordoned); then, in the pod template",),
    ),
    "strategy Recreate": WorkloadCase(
        _cluster("a1", "a2", "b1", further={"deployments": [deployment(3, 3, type="Recreate")]}),
        ('"type":"RollingUpdate"', "; then, in the pod template"),
        also="with strategy Recreate, all pods of deployment/web end before new pods start",
    ),
    "a paused Deployment": WorkloadCase(
        _cluster(
            "a1", "a2", "b1",
            further={"deployments": [{**_SET, "spec": {"replicas": 3, "paused": True}}]},
        ),
        also="kubectl -n shop rollout resume deployment/web",
        not_also="replaces all pods",
    ),
    "updateStrategy OnDelete": WorkloadCase(
        _cluster(
            "a1", "a2", "b1", by="StatefulSet/web",
            further={"statefulsets": [{**_SET, "spec": {"replicas": 3, "updateStrategy": {"type": "OnDelete"}}}]},
        ),
        also="each pod of statefulset/web changes only once it is deleted",
        not_also="replaces all pods",
    ),
    "each pod has a volume": WorkloadCase(
        _cluster("a1", "a2", "b1", by="StatefulSet/web", claim="data-POD", further={"statefulsets": [_SET]}),
        ("ScheduleAnyway", f"; then, {_SCALE}statefulset/web --replicas=4"),
        ("DoNotSchedule",),
    ),
    "all pods share a volume": WorkloadCase(
        _cluster("a1", claim="data"), ("PersistentVolumeClaim data",), (_TEMPLATE, _SCALE)
    ),
    "a ReplicaSet of a Rollout": WorkloadCase(
        _cluster("a1", "b1", further={"replicasets": [_REPLICA_SET]}), ("let rollout/web run 3 pods",), ("deployment/",)
    ),
    "a ReplicaSet of no Deployment": WorkloadCase(
        _cluster("a1", "b1", further={"deployments": []}),
        ("let the owner of replicaset/web-7f run 3 pods",),
        ("deployment/", "kubectl"),
    ),
    "a constraint without a selector": WorkloadCase(
        _cluster("a1", "b1", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": ZONE}]),
        (_SCALE, _TEMPLATE),
        also="it replaces the constraint for zones",
    ),
    "a constraint for other pods": WorkloadCase(
        _cluster(
            "a1", "b1",
            topologySpreadConstraints=[{**SPREAD[0], "labelSelector": {"matchLabels": {"app": "typo"}}}],
        ),
        (_SCALE, _TEMPLATE),
    ),
    "a constraint with a greater skew": WorkloadCase(
        _cluster("a1", "b1", topologySpreadConstraints=[{**SPREAD[0], "maxSkew": 2}]), (_SCALE, _TEMPLATE)
    ),
    "a constraint that spreads the pods": WorkloadCase(
        _cluster("a1", "b1", topologySpreadConstraints=SPREAD), (_SCALE,), (_TEMPLATE,)
    ),
    "a constraint that counts old pods": WorkloadCase(
        _cluster("a1", "a2", "b1", topologySpreadConstraints=[{**BY_ZONE, "maxSkew": 1}]),
        ("matchLabelKeys",),
        ("rollout restart",),
    ),
    "a nodeSelector": WorkloadCase(
        _cluster("a1", "a2", "b1", nodeSelector={ZONE: "a"}), ("excluded by the nodeSelector",), (_TEMPLATE, _SCALE)
    ),
    "node affinity": WorkloadCase(
        _cluster(
            "a1", "b1",
            affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_ZONE_AFFINITY]}]}}},
        ),
        ("excluded by the nodeSelector or nodeAffinity",),
        (_TEMPLATE, _SCALE),
    ),
    "a taint that pods tolerate": WorkloadCase(
        _cluster(
            "a1", "b1", on=nodes(c1=tainted("c1", "c")), tolerations=[{"key": _CONTROL_PLANE, "operator": "Exists"}]
        ),
        (_SCALE,),
        ("take pods",),
    ),
    "anti-affinity": WorkloadCase(
        _cluster("a1", "b1", affinity={"podAntiAffinity": {REQUIRED: [BY_ZONE]}}), (_SCALE,), (_TEMPLATE,)
    ),
    "an autoscaler of KEDA": WorkloadCase(
        _cluster("a1", "b1", further={"horizontalpodautoscalers": [_of(autoscaler(2, 5), ownerReferences=_BY_KEDA)]}),
        ("let scaledobject/web, which owns HorizontalPodAutoscaler web, run at least 3 pods",),
        ("patch horizontalpodautoscaler",),
    ),
    "a Deployment of Helm": WorkloadCase(
        _cluster(
            "a1", "b1",
            further={"deployments": [_of(deployment(2, 2), labels={"app.kubernetes.io/managed-by": "Helm"})]},
        ),
        (_SCALE,),
        also="Helm may undo this",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_remedy_for_a_zone_without_endpoints(name: str) -> None:
    case = CASES[name]
    found = [each for each in now(Cluster(case.seen, "released")).findings if each.cause.id == "zone-without-endpoint"]
    assert len(found) == 1
    remedy, also = found[0].remedy, found[0].also
    assert [part for part in case.do if part not in remedy] == [], remedy
    assert [part for part in case.never if part in remedy] == [], remedy
    assert case.also in also
    assert case.not_also not in also
