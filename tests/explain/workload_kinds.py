"""Kinds that show what may empty a zone, for the API server of `applying`, with the rules that remedies could break."""

from __future__ import annotations

from typing import ClassVar

from harness.api.client import Object
from reference.apiserver.kinds import errors, shapes
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.features import Features


class _LenientStrategy(Strategy):
    shape: ClassVar[shapes.Shape] = {shapes.OTHERS: shapes.ANY, **shapes.of_object(spec=shapes.ANY, status=shapes.ANY)}

    def wrong(self, spec: Object) -> str:
        """Return what the API server refuses, or ""."""
        return ""

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        said = self.wrong(obj.get("spec") or {})
        return super().validate(obj, features) + ([errors.invalid("spec", obj["spec"], said)] if said else [])


class Ingresses(_LenientStrategy):
    resource = Resource("networking.k8s.io", "v1", "Ingress", "ingresses", "ingress", has_status=True)


class Deployments(_LenientStrategy):
    resource = Resource("apps", "v1", "Deployment", "deployments", "deployment", has_status=True)

    def wrong(self, spec: Object) -> str:
        bounds = (spec.get("strategy") or {}).get("rollingUpdate") or {}
        if spec.get("strategy", {}).get("type") == "Recreate" and bounds:
            return "rollingUpdate may not be specified when strategy type is Recreate"
        none = bounds.get("maxSurge", "25%") == 0 == bounds.get("maxUnavailable", "25%")
        return "may not be 0 when maxSurge is 0" if none else ""


class StatefulSets(_LenientStrategy):
    resource = Resource("apps", "v1", "StatefulSet", "statefulsets", "statefulset", has_status=True)


class ReplicaSets(_LenientStrategy):
    resource = Resource("apps", "v1", "ReplicaSet", "replicasets", "replicaset", has_status=True)


class HorizontalPodAutoscalers(_LenientStrategy):
    resource = Resource(
        "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "horizontalpodautoscaler"
    )

    def wrong(self, spec: Object) -> str:
        least = spec.get("minReplicas", 1)
        return "must be greater than or equal to minReplicas" if spec["maxReplicas"] < least or least < 1 else ""


class PodDisruptionBudgets(_LenientStrategy):
    resource = Resource(
        "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget", has_status=True
    )

    def wrong(self, spec: Object) -> str:
        both = spec.keys() >= {"minAvailable", "maxUnavailable"}
        return "minAvailable and maxUnavailable cannot be both set" if both else ""


KINDS = (Ingresses(), Deployments(), StatefulSets(), ReplicaSets(), HorizontalPodAutoscalers(), PodDisruptionBudgets())


def with_disruptions_allowed(budget: Object, pods: int) -> Object:
    """Return a PodDisruptionBudget as its controller writes it for so many ready pods."""
    spec = budget["spec"]
    name = "minAvailable" if "minAvailable" in spec else "maxUnavailable"
    bound = str(spec[name])
    number = -(-int(bound[:-1]) * pods // 100) if bound.endswith("%") else int(bound)
    allowed = pods - number if name == "minAvailable" else number
    return {**budget, "status": {"disruptionsAllowed": max(0, min(allowed, pods))}}
