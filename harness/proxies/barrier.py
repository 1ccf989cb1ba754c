"""Objects without effect, written to learn how far a component is with what was written before them.

Services and EndpointSlices come to a proxy by watches of their own, each in order. A Service without cluster IP and an
EndpointSlice of no Service cost a proxy nothing: no rule changes. Where a proxy mentions them, it has seen all that was
written earlier.
"""

from __future__ import annotations

import itertools
from typing import Any

from harness.api.client import Api, RefusedError, path_of
from harness.errors import InconclusiveError


class BarrierObjects:
    """Writes a Service and an EndpointSlice again and again; only the last of each exists."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._numbers = itertools.count(1)
        self._last = ""
        self._made_namespace = False

    def revision(self) -> str:
        """The API server's resource version: as long as it stays, nothing has been written. Empty when it is away."""
        try:
            listed = self._api.request("GET", path_of("services"), query={"limit": "1"})
        except InconclusiveError:
            return ""
        return str((listed.body.get("metadata") or {}).get("resourceVersion") or "")

    def write(self) -> tuple[str, str]:
        """The name of a new Service and a new EndpointSlice, and the resource version; both empty without a server."""
        name = f"c-{next(self._numbers)}"
        try:
            self._make_namespace()
            if self._last:
                self._api.delete("services", self._namespace, self._last)
                self._api.delete("endpointslices", self._namespace, self._last)
            self._api.create("services", self._namespace, _service(name))
            written = self._api.create("endpointslices", self._namespace, _slice(name))
        except InconclusiveError:
            return "", ""
        self._last = name
        return name, str(written["metadata"]["resourceVersion"])

    def _make_namespace(self) -> None:
        if self._made_namespace:
            return
        try:
            self._api.create("namespaces", "", {"metadata": {"name": self._namespace}})
        except RefusedError as error:
            if error.response.code != 409:  # it is there already
                raise
        self._made_namespace = True


def _service(name: str) -> dict[str, Any]:
    spec = {"type": "ExternalName", "externalName": "barrier.invalid"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _slice(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }
