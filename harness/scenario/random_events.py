"""Random events around a scenario's first writes. They do not affect expected answers."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.api.client import Object
from harness.backends.protocols import ComponentControl, DisconnectsComponents, RestartsDns
from harness.backends.scenario_backend import ScenarioBackend
from harness.errors import EndedError
from harness.judging.history import History
from harness.model.manifests import zone_of
from harness.model.release import DNS_SERVER, PROXY, Component
from harness.model.topology import ZONE_LABEL
from harness.scenario.service import Service
from harness.variation import axes
from harness.variation.axes import DrawnValues

_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_CIDRS = ("podCIDR", "podCIDRs")
_FEW = 4  # number of Services that are created again; a scenario may have thousands


@dataclass(slots=True)
class RandomEvents:
    backend: ScenarioBackend
    history: History
    namespace: str
    draw: DrawnValues
    _has_service: bool = False
    _has_objects: bool = False
    _disconnected_again: bool = False
    _counts: bool = False
    _created_again: int = 0
    without_slices: set[str] = field(default_factory=set)  # existing Services without slices so far

    @property
    def _first_node(self) -> str:
        return self.backend.booted.topology.nodes[0].name

    def before_service(self) -> None:
        """Recreate a Node before the first Service, if `draw` requires it."""
        if self._has_service or self.draw[axes.NODES] != "remade":
            return
        self._has_service = True
        self.backend.begin_to_write("nodes")
        node = self.backend.api.get("nodes", "", self._first_node)
        self.history.change("create node again", node=self._first_node)
        self.backend.api.delete("nodes", "", self._first_node)
        self.backend.api.create("nodes", "", _as_new(node))
        if self._ends_with_its_node():
            self._restart(PROXY)

    def _ends_with_its_node(self) -> bool:
        """Wait for components to settle. Return whether a proxy exited because its Node was deleted."""
        try:
            self.backend.settle()
        except EndedError as error:
            if error.component != PROXY:
                raise
            return True
        return False

    @contextlib.contextmanager
    def first_slices(self, service: Service, *, observed: bool) -> Iterator[None]:
        """Perform random events before and after this block, which writes slices of a Service."""
        is_new = service.name in self.without_slices
        self.without_slices.discard(service.name)
        late = self.draw[axes.NODES] == "late" and not self._has_objects
        again = self.draw[axes.ARRIVAL] == "slices" and is_new and self._created_again < _FEW
        zones = self._remove_zones() if late else {}
        complete = self._make_bare() if self.draw[axes.NODES] == "bare" and not self._has_objects else None
        if again:
            self._created_again += 1
            self.backend.begin_to_write("services")
            self.history.change("delete service", service=service.name)
            self.backend.api.delete("services", self.namespace, service.name)
        with self.change(PROXY, observed=observed):
            yield
        if again:
            self._create_again(service)
        if late:
            self._label({name: {ZONE_LABEL: zone} for name, zone in zones.items()})
        if complete is not None:
            self._complete(complete)

    @contextlib.contextmanager
    def change(self, component: Component, *, observed: bool = False) -> Iterator[None]:
        """Perform random events around the change in this block. `observed` is `ScenarioRecord.has_observed`."""
        first, self._has_objects = not self._has_objects, True
        again = observed and not self._disconnected_again
        disconnects = self.backend.find(DisconnectsComponents)
        if self.draw[axes.COMPONENTS] == "disconnected" and (first or again) and disconnects is not None:
            self._disconnected_again = self._disconnected_again or again
            self.backend.begin_to_write("services")
            self.backend.settle()
            self.history.change("disconnect components")
            with disconnects.disconnected():
                yield
            self.history.change("connect components")
            return
        yield
        if self.draw[axes.COMPONENTS] == "restarted" and first and not self._counts:
            self.backend.settle()
            self._restart(component)
        if self.draw[axes.COMPONENTS] == "dns-restarted" and first and (dns := self.backend.find(RestartsDns)):
            self.backend.settle()
            self.history.change("restart", component=DNS_SERVER)
            dns.restart_dns()

    def begin_to_count(self, component: Component) -> None:
        if self.draw[axes.COMPONENTS] == "restarted" and not (self._has_objects or self._counts):
            self._restart(component)
        self._counts = True

    def _restart(self, component: Component, node: str = "") -> None:
        """Restart a component at its current release. A proxy restarts on one node only, to save time."""
        nodes = [node or self._first_node]
        release = self.backend.releases.current(component, nodes[0])
        if release is not None and (control := self.backend.find(ComponentControl)) is not None:
            self.history.change("restart", component=component, release=release.to_json(), nodes=nodes)
            control.start_component(component, release, nodes)

    def _create_again(self, service: Service) -> None:
        self.backend.settle()
        self.history.change("create service again", service=service.name)
        api, name, status = self.backend.api, service.name, service.object.get("status") or {}
        service.object = api.create("services", self.namespace, _as_new(service.object))
        if (status.get("loadBalancer") or {}).get("ingress"):
            service.object = api.patch("services", self.namespace, name, {"status": status}, subresource="status")
        self.backend.settle()

    def _remove_zones(self) -> dict[str, str]:
        """Remove the zone labels of the nodes in one zone (all zones would take longer), and return the labels."""
        self.backend.begin_to_write("nodes")
        labels = {each["metadata"]["name"]: zone_of(each) for each in self.backend.api.list("nodes", "")}
        first = next(filter(None, labels.values()), None)
        zones = {name: zone for name, zone in labels.items() if zone == first}
        self._label({name: {ZONE_LABEL: None} for name in zones})
        return zones

    def _make_bare(self) -> Object:
        """Restart the last node's proxy while the Node lacks addresses and podCIDR. Return the complete Node."""
        name = self.backend.booted.topology.nodes[-1].name
        self.backend.begin_to_write("nodes")
        self.history.change("create node without addresses", node=name)
        node: Object = self.backend.api.get("nodes", "", name)
        spec = {key: value for key, value in node["spec"].items() if key not in _CIDRS}
        bare = {**_as_new(node), "spec": spec, "status": {**node["status"], "addresses": []}}
        self.backend.api.delete("nodes", "", name)
        self.backend.api.create("nodes", "", bare)
        self._ends_with_its_node()
        self._restart(PROXY, name)
        return node

    def _complete(self, node: Object) -> None:
        name = node["metadata"]["name"]
        self.backend.settle()
        self.history.change("report addresses of node", node=name)
        addresses = {"status": {"addresses": node["status"]["addresses"]}}
        self.backend.api.patch("nodes", "", name, addresses, subresource="status")
        self.backend.settle()
        self.backend.api.patch("nodes", "", name, {"spec": {key: node["spec"][key] for key in _CIDRS}})
        self.backend.settle()

    def _label(self, nodes: dict[str, dict[str, str | None]]) -> None:
        self.backend.settle()
        self.history.change("label nodes", labels=nodes)
        for name, labels in nodes.items():
            self.backend.api.patch("nodes", "", name, {"metadata": {"labels": labels}})
        self.backend.settle()


def _as_new(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_FIELDS}
    return {**obj, "metadata": metadata}
