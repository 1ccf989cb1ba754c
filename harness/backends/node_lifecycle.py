"""What the control plane says of a node that is silent, and of the pods on it, where the harness plays that part.

The node lifecycle controller of Kubernetes waits for 40 to 50 s without a report (--node-monitor-grace-period); then it
says that nothing is known of the node, and that its pods are not ready. Nobody waits here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.api import Api, Object
from harness.conditions import is_true


@dataclass(frozen=True, slots=True)
class Silenced:
    """What a node and its pods said before: conditions, and (namespace, name) of the pods that were ready."""

    conditions: Sequence[Object]
    pods: Sequence[tuple[str, str]]


def node_is_silent(api: Api, name: str) -> Silenced:
    """Report that nothing is known of the node, and that no pod on it is ready."""
    conditions = api.get("nodes", "", name)["status"]["conditions"]
    of_node = [each for each in api.list("pods") if each["spec"].get("nodeName") == name and is_true(each, "Ready")]
    pods = [(str(each["metadata"]["namespace"]), str(each["metadata"]["name"])) for each in of_node]
    _report_node(api, name, [{**each, "status": "Unknown", "reason": "NodeStatusUnknown"} for each in conditions])
    for namespace, pod in pods:
        _report_pod(api, namespace, pod, ready=False)
    return Silenced(conditions, pods)


def node_is_back(api: Api, name: str, before: Silenced) -> None:
    """Report the node, and the pods that have not been deleted since, as they were."""
    _report_node(api, name, before.conditions)
    there = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in api.list("pods")}
    for namespace, pod in before.pods:
        if (namespace, pod) in there:
            _report_pod(api, namespace, pod, ready=True)


def _report_node(api: Api, name: str, conditions: Sequence[Object]) -> None:
    api.patch("nodes", "", name, {"status": {"conditions": list(conditions)}}, subresource="status")


def _report_pod(api: Api, namespace: str, name: str, *, ready: bool) -> None:
    """The one condition; a kubelet that is silent does not say that containers have ended."""
    conditions = api.get("pods", namespace, name)["status"]["conditions"]
    status = "True" if ready else "False"
    changed = [{**each, "status": status} if each["type"] == "Ready" else each for each in conditions]
    api.patch("pods", namespace, name, {"status": {"conditions": changed}}, subresource="status")
