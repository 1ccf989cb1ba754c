"""The drawn surroundings of a scenario: Services of the same name elsewhere or earlier, and other Services and pods.

Surroundings are written through the same API as the scenario's own objects. They never change the right answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.api.client import Object, RefusedError
from harness.backends.backend import Backend, WantedPod
from harness.backends.protocols import PodReports
from harness.backends.scenario_backend import ScenarioBackend
from harness.model import manifests
from harness.model.manifests import Endpoint, Port
from harness.variation import axes
from harness.variation.axes import PLAIN, Draw

MANY = 30
_DECOYS = {"IPv4": "192.0.2.7", "IPv6": "2001:db8::7"}
"""Addresses of endpoints that must never receive a packet. They are documentation addresses, which no node routes."""
_CHANGES = 4  # changes of an object's annotations
_NEIGHBOURS = "neighbours"


@dataclass(slots=True)
class Standing:
    """The other Services of a cluster, which remain until a scenario draws surroundings without them."""

    prefix: str = "td-"
    exist: bool = False

    def make(self, backend: Backend, *, wanted: bool) -> None:
        """Create or delete the other Services."""
        if wanted == self.exist:
            return
        namespace = self.prefix + _NEIGHBOURS
        self.exist = wanted
        if not wanted:
            backend.delete_namespace(namespace)
            return
        backend.create_namespace(namespace)
        for number in range(1, MANY + 1):
            name = f"web-{number}"
            policy = "Local" if number % 3 == 0 else "Cluster"
            service = manifests.service(name, internalTrafficPolicy=policy)
            created = backend.api.create("services", namespace, service)
            for family in created["spec"]["ipFamilies"]:
                wanted_slice = manifests.endpoint_slice(
                    f"{name}-slice", name, [_decoy(ready=number % 2 == 0)], family=family
                )
                backend.api.create("endpointslices", namespace, wanted_slice)
        backend.settle()


@dataclass(slots=True)
class Surroundings:
    """The surroundings of one scenario."""

    backend: ScenarioBackend
    namespace: str
    draw: Draw = PLAIN
    _twins: set[str] = field(default_factory=set)
    _has_pods: bool = False

    @property
    def twin_namespace(self) -> str:
        """The namespace with objects of the same names."""
        return f"{self.namespace}-twin"

    def close(self) -> None:
        """Delete everything that `before_service` and the other methods created."""
        if self._twins:
            self.backend.booted.delete_namespace(self.twin_namespace)

    def before_service(self, wanted: Object, families: Sequence[str]) -> None:
        """Write what precedes or accompanies a Service: a deleted Service of the same name, and a twin."""
        name, spec = wanted["metadata"]["name"], wanted["spec"]
        if not spec.get("ports") or spec.get("type") == "ExternalName":
            return
        ports = [Port(int(each["port"]), each.get("protocol", "TCP"), each.get("name", "")) for each in spec["ports"]]
        if self.draw[axes.HISTORY] == "remade":
            self._write(self.namespace, name, ports, families)
            self.backend.settle()
            self.backend.api.delete("endpointslices", self.namespace, f"{name}-earlier")
            self.backend.api.delete("services", self.namespace, name)
        if self.draw[axes.NEIGHBOURS] == "twin" and name not in self._twins:
            if not self._twins:
                self.backend.booted.create_namespace(self.twin_namespace)
            self._twins.add(name)
            self._write(self.twin_namespace, name, ports, families)

    def _write(self, namespace: str, name: str, ports: Sequence[Port], families: Sequence[str]) -> None:
        """Create a Service with other policies, whose only endpoint never answers."""
        service = manifests.service(name, ports=ports, internalTrafficPolicy="Local", ipFamilies=list(families[:1]))
        self.backend.api.create("services", namespace, service)
        wanted = manifests.endpoint_slice(f"{name}-earlier", name, [_decoy()], family=families[0], ports=ports)
        self.backend.api.create("endpointslices", namespace, wanted)

    def write_twin(self, obj: Object) -> None:
        """Write a slice of the same name, with another endpoint, in the twin namespace."""
        if not self._twins:
            return
        twin = {**obj, "endpoints": [_decoy().manifest(obj["addressType"])]}
        try:
            self.backend.api.create("endpointslices", self.twin_namespace, twin)
        except RefusedError as error:
            if error.response.code != 409:  # it exists already
                raise

    def before_slice(self, obj: Object, namespace: str) -> bool:
        """Create a slice in an earlier form, and change it several times. Returns False if none is drawn."""
        if self.draw[axes.HISTORY] != "changed":
            return False
        earlier = _decoy(ready=False, serving=False).manifest(obj["addressType"])
        self.backend.api.create("endpointslices", namespace, {**obj, "endpoints": [earlier, *obj["endpoints"][:1]]})
        for number in range(_CHANGES):
            patch = {"metadata": {"annotations": {"example.com/revision": str(number)}}}
            self.backend.api.patch("endpointslices", namespace, obj["metadata"]["name"], patch)
        return True

    def with_pods(self, node: str, labels: Mapping[str, str] | None) -> None:
        """Create a failed and a completed pod with these labels, once."""
        reports = self.backend.find(PodReports)
        if self.draw[axes.PODS] != "others" or not labels or self._has_pods or reports is None:
            return
        self._has_pods = True
        for phase in ("Failed", "Succeeded"):
            pod = WantedPod(f"ended-{phase.lower()}", node, labels, (), ready=False)
            reports.create_reported_pod(self.namespace, pod, phase=phase)


def _decoy(**conditions: Any) -> Endpoint:
    return Endpoint(_DECOYS, **conditions)
