"""Reports an unresponsive node and its pods as the node lifecycle controller does.

The real controller waits for 40 to 50 s without a report (--node-monitor-grace-period). Then it sets the node's
conditions to Unknown and its pods to not ready. This module does so immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.api.client import Api, Object
from harness.model.manifests import has_condition


@dataclass(frozen=True, slots=True)
class Reports:
    """A kubelet's reports: the conditions of its node, and the namespace and name of each ready pod."""

    conditions: Sequence[Object]
    pods: Sequence[tuple[str, str]]


def ready_pods_on(api: Api, node: str, *, label_selector: str = "") -> list[tuple[str, str]]:
    """Return the ready pods on a node, as (namespace, name)."""
    listed = api.list("pods", label_selector=label_selector)
    return [_key(each) for each in listed if each["spec"].get("nodeName") == node and has_condition(each, "Ready")]


def reports_of(api: Api, name: str) -> Reports:
    """Return the current reports about a node and its pods."""
    return Reports(api.get("nodes", "", name)["status"]["conditions"], ready_pods_on(api, name))


def report_silence(api: Api, name: str, known: Reports) -> None:
    _report_node(api, name, [{**each, "status": "Unknown", "reason": "NodeStatusUnknown"} for each in known.conditions])
    for namespace, pod in known.pods:
        _report_pod(api, namespace, pod, ready=False)


def report_again(api: Api, name: str, known: Reports) -> None:
    """Report the node and its remaining pods as before."""
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
    """Set only the condition Ready, because an unresponsive kubelet does not report that containers have ended."""
    conditions = api.get("pods", namespace, name)["status"]["conditions"]
    status = "True" if ready else "False"
    changed = [{**each, "status": status} if each["type"] == "Ready" else each for each in conditions]
    api.patch("pods", namespace, name, {"status": {"conditions": changed}}, subresource="status")
