"""EndpointSlice controllers that misread the phases of pods, or pods that share an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.model.manifests import has_condition
from mutants.mutant import Mutant
from mutants.wrong_plans import PlanMutantRegistry, Planner, Pods
from reference.client import Object
from reference.endpointslice.plan import SlicePlan, plan_service

MUTANTS: list[Mutant] = []

_faults = PlanMutantRegistry(MUTANTS)


def _misread(name: str, sentence: str, read: Callable[[Object], Object], provenance: str = "") -> None:
    """Create a mutant that plans for pods as `read` returns them."""

    @_faults.misplans(name, sentence, provenance)
    def misread(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
        return plan_service(service, list(map(read, pods)), *others, **options)


def _with_status(pod: Object, **status: Any) -> Object:
    return {**pod, "status": {**pod["status"], **status}}


def _keeps(name: str, phase: str, policy: str = "", provenance: str = "") -> None:
    def read(pod: Object) -> Object:
        ended = pod["status"].get("phase") == phase and policy in {"", pod["spec"].get("restartPolicy", "Always")}
        return _with_status(pod, phase="Running") if ended else pod

    whose = f" with restartPolicy {policy}" if policy else ""
    _misread(name, f"Pods in phase {phase}{whose} stay endpoints.", read, provenance)


_keeps("keeps-failed-pods", "Failed", provenance="kubernetes#109414")
_keeps("keeps-succeeded-pods", "Succeeded")
_keeps("keeps-failed-pods-of-policy-always", "Failed", "Always", "kubernetes#109414")
_keeps("keeps-failed-pods-of-policy-onfailure", "Failed", "OnFailure", "kubernetes#109414")
_keeps("keeps-failed-pods-of-policy-never", "Failed", "Never")
_keeps("keeps-succeeded-pods-of-policy-always", "Succeeded", "Always", "kubernetes#109414")


def _running_while_deleted(pod: Object) -> Object:
    deleted = pod["metadata"].get("deletionTimestamp") is not None
    return _with_status(pod, phase="Running") if deleted and pod["status"].get("phase") != "Running" else pod


_misread("keeps-ended-pods-that-are-deleted", "Ended pods are endpoints during deletion.", _running_while_deleted)


def _leaves_out(phase: str) -> Callable[[Object], Object]:
    return lambda pod: _with_status(pod, phase="Failed") if pod["status"].get("phase") == phase else pod


_misread("leaves-out-pending-pods", "Pods in phase Pending are not endpoints.", _leaves_out("Pending"))
_misread("leaves-out-pods-of-unknown-phase", "Pods in phase Unknown are not endpoints.", _leaves_out("Unknown"))


def _with_readiness(pod: Object, status: str) -> Object:
    others = [each for each in pod["status"].get("conditions") or () if each["type"] != "Ready"]
    return _with_status(pod, conditions=[*others, {"type": "Ready", "status": status}])


def _readiness(pod: Object) -> str:
    found = [each["status"] for each in pod["status"].get("conditions") or () if each["type"] == "Ready"]
    return found[0] if found else "absent"


_misread(
    "pending-pods-are-never-ready",
    "Endpoints of pods in phase Pending are not ready.",
    lambda pod: _with_readiness(pod, "False") if pod["status"].get("phase") == "Pending" else pod,
)
_misread(
    "unknown-means-ready",
    "Endpoints of pods whose readiness is Unknown are ready.",
    lambda pod: _with_readiness(pod, "True") if _readiness(pod) == "Unknown" else pod,
)
_misread(
    "no-condition-means-ready",
    "Endpoints of pods without a Ready condition are ready.",
    lambda pod: _with_readiness(pod, "True") if _readiness(pod) == "absent" else pod,
)
_misread(
    "ready-containers-suffice",
    "Endpoints of pods whose containers are ready are ready, whatever the readiness gates of the pods.",
    lambda pod: _with_readiness(pod, "True") if has_condition(pod, "ContainersReady") else pod,
)


def _with_udp_as_tcp(pod: Object) -> Object:
    containers = [
        {**each, "ports": [{**port, "protocol": "TCP"} for port in each.get("ports") or ()]}
        for each in pod["spec"]["containers"]
    ]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


_misread(
    "named-ports-of-any-protocol", "A named target port has the number of any port of this name.", _with_udp_as_tcp
)
_misread(
    "pods-have-no-hostnames",
    "No endpoint has the hostname of its pod.",
    lambda pod: {**pod, "spec": {**pod["spec"], "hostname": ""}},
)


@_faults.misplans("hostname-in-every-service", "Each endpoint of a pod has the pod's hostname, whatever its subdomain.")
def hostname_in_every_service(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    subdomain = {"subdomain": service["metadata"]["name"]}
    placed = [
        {**each, "spec": {**each["spec"], **subdomain}} if each["spec"].get("subdomain") else each for each in pods
    ]
    return plan_service(service, placed, *others, **options)


@_faults.remembers("keeps-pods-that-fail-later", "Pods that were endpoints stay so when they end.")
def keeps_pods_that_fail_later() -> Planner:
    ran: set[str] = set()

    def plan(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
        pods = list(pods)
        ran.update(pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running")
        kept = [
            {**pod, "status": {**pod["status"], "phase": "Running"}} if pod["metadata"]["uid"] in ran else pod
            for pod in pods
        ]
        return plan_service(service, kept, *others, **options)

    return plan


@_faults.misplans(
    "one-pod-an-address", "Of several pods with the same address, only the first is an endpoint.", "cilium#22446"
)
def one_pod_an_address(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    first = {pod["status"].get("podIP") or pod["metadata"]["uid"]: pod for pod in reversed(list(pods))}
    return plan_service(service, list(first.values()), *others, **options)
