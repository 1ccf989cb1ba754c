"""The content of a pod's PodLocator, as a function of the pod and its Node (KEP-536, New PodLocator controller).

It depends on the two objects alone and not on how they came to be so: a controller that starts again writes nothing
that one which never stopped would not have written. So a pod whose Node does not exist has no node name, whether the
Node has been deleted (which the KEP speaks of) or is yet to come (which it does not).
"""

from __future__ import annotations

from collections.abc import Mapping

from reference.client import Object

_ENDED = frozenset({"Succeeded", "Failed"})


def location(pod: Object, node: Object | None) -> Object:
    """The fields `ips`, `nodeName` and `nodeLabels`; `node` is the Node that the pod names, None when there is none.

    A pod that has ended has no addresses: its network gives them to other pods.
    """
    ips = [] if pod.get("status", {}).get("phase") in _ENDED else [{"ip": each} for each in addresses(pod)]
    if node is None:
        return {"ips": ips, "nodeName": "", "nodeLabels": {}}
    return {"ips": ips, "nodeName": node["metadata"]["name"], "nodeLabels": labels(node)}


def says(locator: Object) -> Object:
    """The fields of a PodLocator that `location` gives, as they are."""
    return {
        "ips": locator.get("ips") or [],
        "nodeName": locator.get("nodeName") or "",
        "nodeLabels": locator.get("nodeLabels") or {},
    }


def addresses(pod: Object) -> list[str]:
    """A pod's addresses, the one of its first family first."""
    status = pod.get("status", {})
    listed = [each["ip"] for each in status.get("podIPs") or [] if each.get("ip")]
    return listed or ([status["podIP"]] if status.get("podIP") else [])


def labels(node: Object) -> Mapping[str, str]:
    """Return all labels of a node: each Service says which ones mean a place."""
    return node["metadata"].get("labels") or {}


def node_name(pod: Object) -> str:
    """The node that a pod names; empty for one that is not scheduled."""
    return str(pod.get("spec", {}).get("nodeName") or "")
