"""Detect crashes of proxies, which a kubelet of a real cluster restarts immediately.

A kubelet reports how each container last ended. Changes by scenarios do not count as crashes: a replaced proxy has a
new pod, and if a node was switched off, its kubelet does not know how the proxy ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.api.client import Api, Object, log_of_pod
from harness.backends.any_cluster.node_evidence import ProxySelector
from harness.errors import InconclusiveError

_UNKNOWN = "Unknown"  # containerd's reason for a container that was gone when containerd started
_LINES = "20"


class ProxyExits:
    """The containers of proxies, and their exits that are already known."""

    def __init__(self, api: Api, places: Sequence[ProxySelector]) -> None:
        self._api = api
        self._places = places
        self._known: set[tuple[str, str]] = set()
        self.latest()

    def latest(self) -> str:
        """Return which proxy has crashed since the last call or waits for its restart, or "" if none has.

        Returns "" while the API server is unavailable.
        """
        found = []
        try:
            for place in self._places:
                for pod in self._api.list("pods", place.namespace, label_selector=place.selector):
                    found += [self._crash_text(place, pod, each) for each in self._ended(pod)]
        except InconclusiveError:
            return ""
        return next(iter(found), "")

    def _ended(self, pod: Object) -> Iterator[Object]:
        """Yield the containers of a pod that have crashed since the last call or have not been restarted yet."""
        for each in (pod.get("status") or {}).get("containerStatuses") or ():
            end = _end(each)
            if not end or end.get("reason") == _UNKNOWN or "deletionTimestamp" in pod["metadata"]:
                continue
            which = str(end.get("containerID")), str(end.get("finishedAt"))
            runs = "running" in (each.get("state") or {})
            if not runs or which not in self._known:
                yield each
            self._known.add(which)

    def _crash_text(self, place: ProxySelector, pod: Object, container: Object) -> str:
        node, end = pod["spec"].get("nodeName"), _end(container)
        runs = "running" in (container.get("state") or {})
        query = {"container": container["name"], "tailLines": _LINES, **({"previous": "true"} if runs else {})}
        log = log_of_pod(self._api, place.namespace, str(pod["metadata"]["name"]), **query).strip()
        why = f" ({end['reason']})" if end.get("reason") not in (None, "Error", "Completed") else ""
        return (
            f"{place.name} on {node} exited with {end.get('exitCode', '?')}{why}; its log ends with:\n"
            f"{log or '(it wrote nothing)'}"
        )


def _end(container: Object) -> Object:
    for key in ("state", "lastState"):
        if found := (container.get(key) or {}).get("terminated"):
            return dict(found)
    return {}
