"""The columns of `kubectl get pods`."""

from collections.abc import Mapping
from typing import Any

from reference.apiserver.kinds import columns
from reference.client import Object

_FINAL = {"Succeeded", "Failed"}


def ready(pod: Object) -> str:
    count = sum(bool(each.get("ready")) for each in _statuses(pod))
    return f"{count}/{len(pod['spec'].get('containers') or [])}"


def status(pod: Object) -> str:
    """Return the phase, the reason why a container is waiting or has ended, or "Terminating"."""
    state = pod.get("status", {})
    word = state.get("reason") or state.get("phase") or ""
    for each in reversed(_statuses(pod)):
        word = _why(each.get("state") or {}) or word
    if word == "Completed" and any("running" in (each.get("state") or {}) for each in _statuses(pod)):
        word = "Running" if _is_ready(state) else "NotReady"
    if pod["metadata"].get("deletionTimestamp") and state.get("phase") not in _FINAL:
        return "Unknown" if state.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def restarts(pod: Object) -> str:
    """Return the number of restarts and the age of the last restart: `2 (5m ago)`."""
    every = _statuses(pod)
    count = sum(int(each.get("restartCount", 0)) for each in every)
    ends = [((each.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for each in every]
    last = max((each for each in ends if each), default=None)
    return f"{count} ({columns.age(last)} ago)" if count and last else str(count)


def _statuses(pod: Object) -> list[Mapping[str, Any]]:
    return pod.get("status", {}).get("containerStatuses") or []


def _why(state: Mapping[str, Any]) -> str:
    waiting, ended = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason"):
        return str(waiting["reason"])
    if not ended:
        return ""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _is_ready(state: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in state.get("conditions") or [])


def _address(pod: Object) -> str:
    every = pod.get("status", {}).get("podIPs") or [{}]
    return str(every[0].get("ip") or pod.get("status", {}).get("podIP") or columns.NONE)


def _gates(pod: Object) -> str:
    gates = pod["spec"].get("readinessGates") or []
    if not gates:
        return columns.NONE
    conditions = {each.get("type"): each.get("status") for each in pod.get("status", {}).get("conditions") or []}
    return f"{sum(conditions.get(gate.get('conditionType')) == 'True' for gate in gates)}/{len(gates)}"


TABLE = [
    columns.NAME,
    columns.text("Ready", "Number of ready containers and number of containers.", ready),
    columns.text("Status", "State of the pod.", status),
    columns.text("Restarts", "Number of container restarts.", restarts),
    columns.AGE,
    columns.text("IP", "Address of the pod.", _address, wide=True),
    columns.text(
        "Node", "Node that the pod runs on.", lambda pod: pod["spec"].get("nodeName") or columns.NONE, wide=True
    ),
    columns.text(
        "Nominated Node",
        "Node on which other pods are evicted for this pod.",
        lambda pod: pod.get("status", {}).get("nominatedNodeName") or columns.NONE,
        wide=True,
    ),
    columns.text(
        "Readiness Gates", "Number of readiness gates that are met, and number of readiness gates.", _gates, wide=True
    ),
]
