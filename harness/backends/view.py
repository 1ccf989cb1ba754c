"""One scenario's view of its backend: notes what the scenario needs, and refuses what the backend lacks.

What was noted becomes the suite's table of needs: `harness.model.needs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.api.client import Api, Object
from harness.backends.backend import Backend, OpenConnection, WantedPod
from harness.errors import UnavailableError
from harness.model.abilities import Ability
from harness.model.needs import Needs
from harness.model.release import Component, Release
from harness.model.topology import Topology
from harness.model.workloads import Client, Pod
from harness.netns.http import HttpAnswer
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe, SocketSource

_RESTART = {
    Component.API_SERVER: Ability.RESTART_API_SERVER,
    Component.CONTROLLER: Ability.RESTART_CONTROLLER,
    Component.PROXY: Ability.RESTART_PROXY,
}
_VIRTUAL = {"load-balancer": Ability.LOAD_BALANCER, "external-ip": Ability.EXTERNAL_IPS}


class View:
    """A `Backend` like the one behind it, for one scenario."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._abilities: set[Ability] = set()
        self._nodes: set[str] = set()

    @property
    def needs(self) -> Needs:
        """What the scenario has needed so far."""
        return Needs(frozenset(map(str, self._abilities)), frozenset(self._nodes))

    def need(self, *abilities: Ability, nodes: Iterable[str] = ()) -> None:
        """Note that the scenario needs these. Raises `UnavailableError` that names what the backend lacks."""
        self._abilities.update(abilities)
        known = {each.name for each in self.topology.nodes}
        self._nodes.update(node for node in nodes if node in known)
        lacks = [each for each in abilities if each not in self.abilities]
        if lacks:
            raise UnavailableError(f"backend {self.name} has no {', '.join(lacks)} here")

    # What is only passed on

    @property
    def name(self) -> str:
        return self._backend.name

    @property
    def hints_matter(self) -> bool | None:
        return self._backend.hints_matter

    @property
    def topology(self) -> Topology:
        return self._backend.topology

    @property
    def families(self) -> Sequence[str]:
        return self._backend.families

    @property
    def release(self) -> Release:
        return self._backend.release

    @property
    def abilities(self) -> frozenset[Ability]:
        return self._backend.abilities

    @property
    def api(self) -> Api:
        return self._backend.api

    def change_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        taints: Sequence[Object] | None = None,
        unschedulable: bool | None = None,
    ) -> None:
        self._backend.change_node(name, labels=labels, taints=taints, unschedulable=unschedulable)

    def restore_node(self, name: str, before: Object) -> None:
        self._backend.restore_node(name, before)

    def stop_node(self, name: str) -> None:
        self.need(nodes=[name])
        self._backend.stop_node(name)

    def start_node(self, name: str) -> None:
        self._backend.start_node(name)

    def __getattr__(self, name: str) -> Any:
        """Verbs that need nothing special."""
        return getattr(self._backend, name)

    # What needs something

    def need_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Note that the scenario changes a component to this release. Raises `UnavailableError`."""
        changes = [Ability.CHANGE_RELEASE] if release != self.release else []
        self.need(_RESTART[component], *changes, nodes=nodes if component is Component.PROXY else ())

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        self.need(nodes=[each.node for each in wanted])
        return self._backend.run_pods(namespace, wanted)

    def create_pod(self, namespace: str, wanted: WantedPod, *, phase: str = "Running") -> None:
        exists = any(each.name == wanted.node for each in self.topology.nodes)
        self.need(*([] if exists and phase == "Running" else [Ability.REPORT_PODS]), nodes=[wanted.node])
        self._backend.create_pod(namespace, wanted, phase=phase)

    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:
        self.need(_VIRTUAL[kind], nodes=[node])
        return self._backend.virtual_addresses(kind, node, number)

    def node_addresses(self, node: str) -> dict[str, str]:
        self.need(nodes=[node])
        return self._backend.node_addresses(node)

    def place_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:
        self._need_client(client)
        return self._backend.place_of(client, fresh=fresh)

    def namespace_of(self, client: Client | Pod) -> Namespace:
        self.need(Ability.SOURCE_PORTS)
        return self._backend.namespace_of(client)

    def client_address(self, client: Client | Pod, family: str) -> str:
        self._need_client(client)
        return self._backend.client_address(client, family)

    def connect(self, probe: Probe) -> OpenConnection:
        self.need(Ability.OPEN_CONNECTIONS)
        return self._backend.connect(probe)

    def http_get(self, client: Client | Pod, address: str, port: int, path: str) -> HttpAnswer:
        self._need_client(client)
        self.need(Ability.HTTP)
        return self._backend.http_get(client, address, port, path)

    def metrics(self, component: Component, node: str) -> str:
        of_proxy = component is Component.PROXY
        self.need(Ability.PROXY_METRICS if of_proxy else Ability.CONTROLLER_METRICS, nodes=[node])
        return self._backend.metrics(component, node)

    def dns(self) -> dict[str, str]:
        self.need(Ability.DNS)
        return self._backend.dns()

    def _need_client(self, client: Client | Pod) -> None:
        outside = isinstance(client, Client) and client.kind == "external"
        self.need(*([Ability.EXTERNAL_CLIENT] if outside else []), nodes=[client.node])
