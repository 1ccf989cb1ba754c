"""What the control plane says of a node that is silent, and of the pods on it, where the harness plays that part.

The node lifecycle controller of Kubernetes waits for 40 to 50 s without a report (--node-monitor-grace-period); then it
says that nothing is known of the node, and that its pods are not ready. Nobody waits here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.api.client import Api, Object
from harness.model.manifests import has_condition


@dataclass(frozen=True, slots=True)
class Reports:
    """What a kubelet reports: the conditions of its node, and (namespace, name) of the pods that are ready."""

    conditions: Sequence[Object]
    pods: Sequence[tuple[str, str]]


def ready_pods_on(api: Api, node: str, *, label_selector: str = "") -> list[tuple[str, str]]:
    """The pods on a node that are ready, as (namespace, name)."""
    listed = api.list("pods", label_selector=label_selector)
    return [_key(each) for each in listed if each["spec"].get("nodeName") == node and has_condition(each, "Ready")]


def reports_of(api: Api, name: str) -> Reports:
    """What is known of a node and its pods now."""
    return Reports(api.get("nodes", "", name)["status"]["conditions"], ready_pods_on(api, name))


def report_silence(api: Api, name: str, known: Reports) -> None:
    """Report that nothing is known of the node any more, and that no pod on it is ready."""
    _report_node(api, name, [{**each, "status": "Unknown", "reason": "NodeStatusUnknown"} for each in known.conditions])
    for namespace, pod in known.pods:
        _report_pod(api, namespace, pod, ready=False)


def report_again(api: Api, name: str, known: Reports) -> None:
    """Report the node, and those of its pods that still exist, as before."""
    _report_node(api, name, known.conditions)
    there = {_key(each) for each in api.list("pods")}
    for namespace, pod in known.pods:
        if (namespace, pod) in there:
            _report_pod(api, namespace, pod, ready=True)


def _key(pod: Object) -> tuple[str, str]:
    return str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])


def _report_node(api: Api, name: str, conditions: Sequence[Object]) -> None:
    api.patch("nodes", "", name, {"status": {"conditions": list(conditions)}}, subresource="status")


def _report_pod(api: Api, namespace: str, name: str, *, ready: bool) -> None:
    """The one condition; a kubelet that is silent does not say that containers have ended."""
    conditions = api.get("pods", namespace, name)["status"]["conditions"]
    status = "True" if ready else "False"
    changed = [{**each, "status": status} if each["type"] == "Ready" else each for each in conditions]
    api.patch("pods", namespace, name, {"status": {"conditions": changed}}, subresource="status")
