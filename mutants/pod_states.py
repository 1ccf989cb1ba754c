"""EndpointSlice controllers that misread the phases of pods, or pods that share an address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mutants.mutant import Mutant
from mutants.wrong_plans import PlanFaults, Planner, Pods
from reference.client import Object
from reference.endpointslice.plan import Plan, plan_service

MUTANTS: list[Mutant] = []

_faults = PlanFaults(MUTANTS)


def _running(pods: Iterable[Object], phase: str) -> list[Object]:
    return [
        {**pod, "status": {**pod["status"], "phase": "Running"}} if pod["status"].get("phase") == phase else pod
        for pod in pods
    ]


@_faults.misplans("keeps-failed-pods", "Pods in phase Failed stay endpoints.", "kubernetes#109414")
def keeps_failed_pods(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
    return plan_service(service, _running(pods, "Failed"), *others, **options)


@_faults.misplans("keeps-succeeded-pods", "Pods in phase Succeeded stay endpoints.")
def keeps_succeeded_pods(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
    return plan_service(service, _running(pods, "Succeeded"), *others, **options)


@_faults.remembers("keeps-pods-that-fail-later", "Pods that were endpoints stay so when they end.")
def keeps_pods_that_fail_later() -> Planner:
    ran: set[str] = set()

    def plan(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
        pods = list(pods)
        ran.update(pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running")
        kept = [
            {**pod, "status": {**pod["status"], "phase": "Running"}} if pod["metadata"]["uid"] in ran else pod
            for pod in pods
        ]
        return plan_service(service, kept, *others, **options)

    return plan


@_faults.misplans("one-pod-an-address", "Of several pods with one address, the first is an endpoint.", "cilium#22446")
def one_pod_an_address(service: Object, pods: Pods, *others: Any, **options: Any) -> Plan:
    first = {pod["status"].get("podIP") or pod["metadata"]["uid"]: pod for pod in reversed(list(pods))}
    return plan_service(service, list(first.values()), *others, **options)
