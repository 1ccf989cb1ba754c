"""Write objects without effect. A proxy that has seen these objects has also seen all earlier writes.

A proxy watches Services and EndpointSlices separately, each in order. A Service without cluster IP and an EndpointSlice
without Service do not change any rule. If they appear in a proxy's log, the proxy has received all earlier writes.
"""

from __future__ import annotations

import itertools
from typing import Any

from harness.api.client import Api, RefusedError, path_of
from harness.errors import InconclusiveError


class BarrierObjects:
    """Writes new Services and EndpointSlices, and deletes the previous ones."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._numbers = itertools.count(1)
        self._last = ""
        self._made_namespace = False

    def revision(self) -> str:
        """Return the API server's resource version, which changes with each write, or "" during an outage."""
        try:
            listed = self._api.request("GET", path_of("services"), query={"limit": "1"})
        except InconclusiveError:
            return ""
        return str((listed.body.get("metadata") or {}).get("resourceVersion") or "")

    def write(self) -> tuple[str, str]:
        """Write a new Service and EndpointSlice. Returns their name and resource version, or "" during an outage."""
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
            if error.response.code != 409:  # the object already exists
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
