"""Checks after a failure whether the nodes of a cluster are alive. Observations on a lost node prove nothing. A control
plane takes 40 s to detect that a kubelet does not respond. A Lease that the kubelet no longer renews shows this sooner.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping

from harness.api.client import Api, RefusedError, path_of
from harness.errors import InconclusiveError
from harness.guest import errors

RENEWED_SECONDS = 15.0
_NAMESPACE = "kube-node-lease"


class NodeLeaseMonitor:
    def __init__(self, api: Api, nodes: Mapping[str, str], *, within: float = RENEWED_SECONDS) -> None:
        self._api = api
        self._nodes = nodes
        self._until = time.monotonic() + within
        renewed = {name: _renewed(api, real) for name, real in nodes.items()}
        self._silent = {name: at for name, at in renewed.items() if at}

    def look(self) -> str | None:
        """Return what is wrong with a missing, unready or silent node, "" if all are alive, or None if unknown."""
        if why := not_ready(self._api, self._nodes):
            return why
        self._silent = {name: at for name, at in self._silent.items() if _renewed(self._api, self._nodes[name]) == at}
        if not self._silent:
            return ""
        if time.monotonic() < self._until:
            return None
        name = min(self._silent)
        return (
            f"node {name} does not respond (its kubelet last renewed its Lease at {self._silent[name]}): check "
            "whether it is up and reaches the API server, then start the run again"
        )


def begin_watch(api: Api, nodes: Callable[[], Mapping[str, str]]) -> Callable[[], None]:
    """Return a function to call while replies are late. It raises `InconclusiveError` once a node may be lost."""
    watch = NodeLeaseMonitor(api, nodes())

    def look() -> None:
        nonlocal watch
        why = None
        with contextlib.suppress(InconclusiveError, RefusedError):  # the state is unknown without an answer
            why = watch.look()
        if why:
            raise InconclusiveError(why)
        if why == "":
            watch = NodeLeaseMonitor(api, nodes())

    return look


def doubt(api: Api, nodes: Mapping[str, str], *, within: float = RENEWED_SECONDS) -> str:
    """Watch nodes until one is known to be missing or not responding, and return the reason, or "" if all are alive."""
    watch = NodeLeaseMonitor(api, nodes, within=within)
    while (why := watch.look()) is None:
        time.sleep(min(1.0, within / 20))
    return why


def not_ready(api: Api, nodes: Iterable[str]) -> str:
    """Return what is wrong with the first node that is missing or not ready in the API, or "" if all are ready."""
    listed = {str(each["metadata"]["name"]): each for each in api.list("nodes")}
    return next(filter(None, (errors.of_node(name, listed.get(name)) for name in nodes)), "")


def _renewed(api: Api, node: str) -> str:
    """Return the last renewal time of the kubelet's Lease, or "" if there is no Lease or the run cannot read it."""
    answer = api.request("GET", path_of("leases", _NAMESPACE, node))
    return str((answer.body.get("spec") or {}).get("renewTime") or "") if answer.code == 200 else ""
