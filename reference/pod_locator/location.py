"""The content of a pod's PodLocator, as a function of the pod and its Node (KEP-536, New PodLocator controller).

If the pod's Node does not exist, `nodeName` is empty. The KEP mentions this only for Nodes that were deleted.
"""

from collections.abc import Mapping

from reference.client import Object

_ENDED = frozenset({"Succeeded", "Failed"})


def location(pod: Object, node: Object | None) -> Object:
    """Return the fields `ips`, `nodeName` and `nodeLabels`. `node` is the pod's Node, or None if it does not exist.

    A pod that has ended has no addresses, because its addresses may already belong to other pods.
    """
    ips = [] if pod.get("status", {}).get("phase") in _ENDED else [{"ip": each} for each in addresses(pod)]
    if node is None:
        return {"ips": ips, "nodeName": "", "nodeLabels": {}}
    return {"ips": ips, "nodeName": node["metadata"]["name"], "nodeLabels": labels(node)}


def says(locator: Object) -> Object:
    """Return the fields of a PodLocator that `location` computes."""
    return {
        "ips": locator.get("ips") or [],
        "nodeName": locator.get("nodeName") or "",
        "nodeLabels": locator.get("nodeLabels") or {},
    }


def addresses(pod: Object) -> list[str]:
    """Return the addresses of a pod, its primary address family first."""
    status = pod.get("status", {})
    listed = [each["ip"] for each in status.get("podIPs") or [] if each.get("ip")]
    return listed or ([status["podIP"]] if status.get("podIP") else [])


def labels(node: Object) -> Mapping[str, str]:
    """Return all labels of a node, because any label can be a topology key."""
    return node["metadata"].get("labels") or {}


def node_name(pod: Object) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")
