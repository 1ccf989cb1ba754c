"""The health of a proxy, and whether its node should receive traffic: /healthz and /livez.

Like kube-proxy on port 10256, a proxy is unhealthy if a change has waited too long. /healthz, but not /livez, also
fails if the node is about to be deleted, so that load balancers can remove the node in time (KEP-3836). Health checks
never wait for the proxy's thread, so a proxy that hangs is reported as unhealthy.
"""

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from reference.client import Object
from reference.features import Features
from reference.serving import Response, not_found

TIMEOUT_SECONDS = 60.0
"""A proxy is unhealthy once a change has waited for this time, twice kube-proxy's full synchronisation period."""

DELETION_TAINT = "ToBeDeletedByClusterAutoscaler"


class Health:
    """The health of one proxy. Any thread may call `queued`; the proxy's thread calls `updated` and `node`."""

    def __init__(self, features: Features, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns the current time in seconds since 1970."""
        self.codes = {"healthz": {200: 0, 503: 0}, "livez": {200: 0, 503: 0}}
        self._clock = clock
        self._knows_livez = features.at_least(28)
        self._watches_node = features.at_least(30)
        self._eligible = True
        self._counting = threading.Lock()
        self._waiting = 0
        self._since: float | None = None
        self._updated = clock()

    def queued(self) -> None:
        """Count a change that is about to be queued for the proxy's thread."""
        with self._counting:
            self._waiting += 1
            if self._since is None:
                self._since = self._clock()

    def updated(self, count: int) -> None:
        """Record that `count` changes are in the kernel. The waiting time of all other changes restarts now."""
        with self._counting:
            self._waiting -= count
            self._updated = self._clock()
            self._since = self._updated if self._waiting else None

    def node(self, node: Object, *, deleted: bool) -> None:
        """Record whether the Node is eligible for traffic. Raises `KeyError` or `TypeError` if it is malformed."""
        taints = (node.get("spec") or {}).get("taints") or ()
        leaving = node["metadata"].get("deletionTimestamp") or any(each["key"] == DELETION_TAINT for each in taints)
        self._eligible = not (self._watches_node and (deleted or leaving))

    def healthy(self) -> bool:
        since = self._since
        return since is None or self._clock() - since < TIMEOUT_SECONDS

    def answer(self, path: str) -> Response:
        """Answer /healthz, and since 1.28 /livez: 200 or 503, with a JSON body like that of kube-proxy."""
        if path == "/healthz":
            return self._answer("healthz", eligible=self._eligible)
        if path == "/livez" and self._knows_livez:
            return self._answer("livez", eligible=True)
        return not_found(path)

    def _answer(self, name: str, *, eligible: bool) -> Response:
        healthy, now = self.healthy(), self._clock()
        code = 200 if healthy and eligible else 503
        self.codes[name][code] += 1
        # As in kube-proxy: `lastUpdated` of a healthy proxy is the current time, even if nothing has changed for days.
        body: Object = {"lastUpdated": _date(now if code == 200 else self._updated), "currentTime": _date(now)}
        if name == "healthz" and self._knows_livez:
            body["nodeEligible"] = eligible
        return as_json(code, body)


def as_json(code: int, body: Object) -> Response:
    """Return a JSON response with the headers that kube-proxy sends."""
    headers = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
    return code, headers, json.dumps(body).encode()


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
