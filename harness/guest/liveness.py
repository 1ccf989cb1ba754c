"""Are the nodes of a cluster alive now? Asked when something failed: of a node that went away nothing can be said.

A control plane notices after 40 s only that a kubelet is silent, and by then a scenario has long ended. Kubelets renew
a Lease every 10 s, so whoever waits for the next renewal knows sooner.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from harness.api import Api, path_of
from harness.guest import trouble

RENEWED_SECONDS = 15.0
_NAMESPACE = "kube-node-lease"


def doubt(api: Api, nodes: Mapping[str, str], *, within: float = RENEWED_SECONDS) -> str:
    """Which node is gone, not ready, or gives no sign of life `within` so many seconds from now; "" when none is.

    `nodes` are the cluster's own names by those under which `api` shows them. A node without a Lease is believed.
    """
    if why := not_ready(api, nodes):
        return why
    begin = time.monotonic()
    first = {name: _renewed(api, real) for name, real in nodes.items()}
    silent = {name for name, renewed in first.items() if renewed}
    while silent and time.monotonic() - begin < within:
        time.sleep(min(1.0, within / 20))
        silent = {name for name in silent if _renewed(api, nodes[name]) == first[name]}
    if not silent:
        return ""
    name = min(silent)
    return (
        f"node {name} gives no sign of life (its kubelet last renewed its Lease at {first[name]}): see whether it is "
        "up and reaches the API server, and start again"
    )


def not_ready(api: Api, nodes: Iterable[str]) -> str:
    """Which of these nodes is gone or not ready, as far as the control plane knows; "" when none is."""
    listed = {str(each["metadata"]["name"]): each for each in api.list("nodes")}
    return next(filter(None, (trouble.of_node(name, listed.get(name)) for name in nodes)), "")


def _renewed(api: Api, node: str) -> str:
    """When the kubelet last renewed its Lease, "" where it has none or it may not be read."""
    answer = api.request("GET", path_of("leases", _NAMESPACE, node))
    return str((answer.body.get("spec") or {}).get("renewTime") or "") if answer.code == 200 else ""
