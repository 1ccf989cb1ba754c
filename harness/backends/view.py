"""One scenario's view of its backend: notes what the scenario needs, and refuses what the backend lacks.

The noted needs become the suite's table of needs: `harness.model.needs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from harness.api.client import Api, Object
from harness.backends.backend import Backend, OpenConnection, SteadyTraffic, WantedPod
from harness.backends.protocols import (
    ComponentControl,
    ControllerMetrics,
    Explaining,
    FollowsPackets,
    ForgetsConnections,
    NodeControl,
    NodePower,
    PodLifecycle,
    PodReports,
    Probing,
    ProxyMetrics,
    RecordsReads,
    SeesRest,
    ServesDns,
    Sockets,
    VirtualAddresses,
)
from harness.backends.releases import ComponentReleases, Releases
from harness.errors import DistrustError, EndedError, UnavailableError
from harness.model.abilities import Ability
from harness.model.needs import Needs
from harness.model.outcomes import Observation
from harness.model.release import Component, Release
from harness.model.topology import Topology
from harness.model.workloads import Client, Pod
from harness.netns.http import HttpAnswer
from harness.netns.namespace import Namespace
from harness.probes.beside import Beside
from harness.probes.loop import Probe, SocketSource
from harness.tracing.path import Followed

_RESTART = {
    Component.API_SERVER: Ability.RESTART_API_SERVER,
    Component.CONTROLLER: Ability.RESTART_CONTROLLER,
    Component.PROXY: Ability.RESTART_PROXY,
    Component.LOCATOR_CONTROLLER: Ability.DNS,
}
_VIRTUAL = {"load-balancer": Ability.LOAD_BALANCER, "external-ip": Ability.EXTERNAL_IPS}

_P = TypeVar("_P")

Stream = Literal["nodes", "pods", "services"]
"""What controllers and proxies watch apart; slices, which scenarios write for proxies alone, are as Services are."""


class View:
    """The cluster as a scenario uses it. Methods raise `UnavailableError` if the backend lacks an ability."""

    def __init__(self, backend: Backend, releases: Releases | None = None) -> None:
        """`releases` are those that the scenario before left (see `ComponentReleases`)."""
        self._cluster = backend
        self._releases = ComponentReleases(backend, self._start, releases)
        self._abilities: set[Ability] = set()
        self._nodes: set[str] = set()
        self._terminating: set[tuple[str, str]] = set()  # pods, by namespace
        self._wrote: Stream | None = None
        self.changes = 0  # that the scenario has begun, of objects, nodes and components

    @property
    def needs(self) -> Needs:
        """The needs of the scenario so far."""
        return Needs(frozenset(map(str, self._abilities)), frozenset(self._nodes))

    @property
    def _backend(self) -> Backend:
        """The backend, with components as the scenario expects them. Raises `UnavailableError`."""
        self._releases.restore_left()
        return self._cluster

    def need(self, *abilities: Ability, nodes: Iterable[str] = ()) -> None:
        """Note needs of the scenario. Raises `UnavailableError` that names the missing abilities."""
        self._abilities.update(abilities)
        known = {each.name for each in self.topology.nodes}
        self._nodes.update(node for node in nodes if node in known)
        lacks = [each for each in abilities if each not in self.abilities]
        if lacks:
            raise self._lack(", ".join(lacks))

    def _part(self, protocol: type[_P], ability: Ability | None = None) -> _P:
        """Return the backend, as one of this protocol. Raises `UnavailableError` that names the ability."""
        backend = self._backend
        if not isinstance(backend, protocol):
            raise self._lack(ability or protocol.__name__)
        return backend

    def _lack(self, what: str) -> UnavailableError:
        return UnavailableError(f"backend {self.name} has no {what} here")

    # The core

    @property
    def name(self) -> str:
        """See `Backend`."""
        return self._cluster.name

    @property
    def topology(self) -> Topology:
        """See `Backend`."""
        return self._cluster.topology

    @property
    def families(self) -> Sequence[str]:
        """See `Backend`."""
        return self._cluster.families

    @property
    def release(self) -> Release:
        """See `Backend`."""
        return self._cluster.release

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `Backend`."""
        return self._cluster.abilities

    @property
    def api(self) -> Api:
        """See `Backend`."""
        return self._backend.api

    def create_namespace(self, namespace: str) -> None:
        """See `Backend`."""
        self._cluster.create_namespace(namespace)

    def delete_namespace(self, namespace: str) -> None:
        """See `Backend`."""
        self._cluster.delete_namespace(namespace)

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        """See `Backend`."""
        self.need(nodes=[each.node for each in wanted])
        return self._backend.run_pods(namespace, wanted)

    def delete_pod(self, namespace: str, name: str) -> None:
        """See `Backend`."""
        self._backend.delete_pod(namespace, name)

    def await_pods(self) -> None:
        """See `Backend`."""
        self._backend.await_pods()

    def settle(self) -> float:
        """See `Backend`."""
        self._wrote = None
        return self._backend.settle()

    def begin_to_write(self, stream: Stream) -> None:
        """Settle first if the last write was of another stream.

        Components watch each apart, so they might see this write before that one, and some outcomes depend on the
        order. Raises `InconclusiveError`.
        """
        self.restore_left_releases()
        self.changes += 1
        if self._wrote not in (None, stream):
            self.settle()
        self._wrote = stream

    def check_instruments(self) -> None:
        """See `Backend`."""
        self._cluster.check_instruments()

    def environment(self) -> dict[str, Any]:
        """See `Backend`."""
        return self._cluster.environment()

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        """See `Backend`."""
        return self._cluster.evidence(namespace, since=since)

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:
        """See `Explaining`; "" for a backend without it."""
        return self._cluster.explain(namespace, service, nodes) if isinstance(self._cluster, Explaining) else ""

    def decisions(self) -> dict[str, str]:
        """See `Explaining`; empty for a backend without it."""
        return self._cluster.decisions() if isinstance(self._cluster, Explaining) else {}

    def follow(
        self, probe: Probe, node: str, is_same: Callable[[Observation], bool], *, servers: Sequence[Pod] = ()
    ) -> Followed:
        """See `FollowsPackets`; no need of the scenario, as it is for evidence."""
        return self._part(FollowsPackets).follow(probe, node, is_same, servers=servers)

    def rest(self) -> Callable[[], str]:
        """See `SeesRest`; where nobody sees it, there is never a reason."""
        return self._cluster.rest() if isinstance(self._cluster, SeesRest) else str

    def forget_connections(self) -> None:
        """See `ForgetsConnections`; does nothing for a backend without it."""
        if isinstance(self._cluster, ForgetsConnections):
            self._cluster.forget_connections()

    # Pods

    def create_pod(self, namespace: str, wanted: WantedPod, *, phase: str = "Running") -> None:
        """See `PodLifecycle`; for another phase, or without a node, see `PodReports`."""
        exists = any(each.name == wanted.node for each in self.topology.nodes)
        if exists and phase == "Running":
            self.need(nodes=[wanted.node])
            self._part(PodLifecycle).create_pod(namespace, wanted)
        else:
            self.need(Ability.REPORT_PODS, nodes=[wanted.node])
            self._part(PodReports, Ability.REPORT_PODS).create_reported_pod(namespace, wanted, phase=phase)

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """See `PodLifecycle`; of a pod that terminates, see `PodReports`: a kubelet does not report it anew."""
        if (namespace, name) in self._terminating:
            self.need(Ability.REPORT_PODS)
        self._part(PodLifecycle).set_ready(namespace, name, ready)

    def begin_termination(self, namespace: str, name: str) -> None:
        """See `PodLifecycle`."""
        self._part(PodLifecycle).begin_termination(namespace, name)
        self._terminating.add((namespace, name))

    def evict_pod(self, namespace: str, name: str) -> None:
        """See `PodLifecycle`."""
        self._part(PodLifecycle).evict_pod(namespace, name)
        self._terminating.add((namespace, name))

    # Clients and probes

    def place_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:
        """See `Probing`."""
        self._need_client(client)
        return self._part(Probing).place_of(client, fresh=fresh)

    def client_address(self, client: Client | Pod, family: str) -> str:
        """See `Probing`."""
        self._need_client(client)
        return self._part(Probing).client_address(client, family)

    def node_addresses(self, node: str) -> dict[str, str]:
        """See `Probing`."""
        self.need(nodes=[node])
        return self._part(Probing).node_addresses(node)

    def free_addresses(self) -> dict[str, str]:
        """See `Probing`."""
        return self._part(Probing).free_addresses()

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        """See `Probing`."""
        return self._part(Probing).probe(probes, in_flight=in_flight)

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        """See `Probing`."""
        return self._part(Probing).glance(probes)

    def addresses_seen(self, probes: Sequence[Probe]) -> list[Observation]:
        """See `Probing`."""
        return self._part(Probing).addresses_seen(probes)

    def record(self, interval: float, probes: Sequence[Probe]) -> SteadyTraffic:
        """See `Probing`."""
        return self._part(Probing).record(interval, probes)

    def namespace_of(self, client: Client | Pod) -> Namespace:
        """See `Sockets`."""
        self.need(Ability.SOURCE_PORTS)
        return self._part(Sockets, Ability.SOURCE_PORTS).namespace_of(client)

    def connect(self, probe: Probe) -> OpenConnection:
        """See `Sockets`."""
        self.need(Ability.OPEN_CONNECTIONS)
        return self._part(Sockets, Ability.OPEN_CONNECTIONS).connect(probe)

    def http_get(self, client: Client | Pod, address: str, port: int, path: str) -> HttpAnswer:
        """See `Sockets`."""
        self._need_client(client)
        self.need(Ability.HTTP)
        return self._part(Sockets, Ability.HTTP).http_get(client, address, port, path)

    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:
        """See `VirtualAddresses`."""
        self.need(_VIRTUAL[kind], nodes=[node])
        return self._part(VirtualAddresses, _VIRTUAL[kind]).virtual_addresses(kind, node, number)

    def dns(self) -> dict[str, str]:
        """See `ServesDns`."""
        self.need(Ability.DNS)
        return self._part(ServesDns, Ability.DNS).dns()

    def beside_dns(self, client: Client | Pod, family: str) -> Beside:
        """See `ServesDns`."""
        self._need_client(client)
        return self._part(ServesDns, Ability.DNS).beside_dns(client, family)

    def _need_client(self, client: Client | Pod) -> None:
        outside = isinstance(client, Client) and client.kind == "external"
        self.need(*([Ability.EXTERNAL_CLIENT] if outside else []), nodes=[client.node])

    # Nodes

    def change_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        taints: Sequence[Object] | None = None,
        unschedulable: bool | None = None,
    ) -> None:
        """See `NodeControl`."""
        control = self._part(NodeControl, Ability.CHANGE_NODES)
        control.change_node(name, labels=labels, taints=taints, unschedulable=unschedulable)

    def restore_node(self, name: str, before: Object) -> None:
        """See `NodeControl`."""
        self._part(NodeControl, Ability.CHANGE_NODES).restore_node(name, before)

    def stop_node(self, name: str) -> None:
        """See `NodePower`."""
        self.need(nodes=[name])
        self._part(NodePower, Ability.STOP_NODES).stop_node(name)

    def start_node(self, name: str) -> None:
        """See `NodePower`."""
        self._part(NodePower, Ability.STOP_NODES).start_node(name)

    # Components

    def need_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Note that the scenario changes a component to this release. Raises `UnavailableError`."""
        changes = [Ability.CHANGE_RELEASE] if release != self.release else []
        self.need(_RESTART[component], *changes, nodes=nodes if component is Component.PROXY else ())

    def take_over(self, component: Component, release: Release) -> list[str]:
        """See `ComponentReleases`."""
        return self._releases.take_over(component, release)

    def restore_left_releases(self) -> None:
        """See `ComponentReleases.restore_left`."""
        self._releases.restore_left()

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """See `ComponentControl`; what the scenario before left of other components may stay for now."""
        self._releases.start(component, release, nodes)

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        """See `ComponentControl`."""
        self.changes += 1
        control = self._part(ComponentControl, _RESTART[component])
        self._releases.note(component, nodes, None)
        control.stop_component(component, nodes)

    def end(self) -> None:
        """See `ComponentReleases`. Raises `UnavailableError`."""
        self._releases.end(self._has_ended)

    def _start(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        self.changes += 1
        if not isinstance(self._cluster, ComponentControl):
            raise self._lack(_RESTART[component])
        self._cluster.start_component(component, release, nodes)

    def _has_ended(self) -> str:
        try:
            self._cluster.check_instruments()
        except EndedError as error:
            return error.component
        except DistrustError:  # whoever judges asks too
            return ""
        return ""

    def proxy_metrics(self, node: str) -> str:
        """See `ProxyMetrics`."""
        self.need(Ability.PROXY_METRICS, nodes=[node])
        return self._part(ProxyMetrics, Ability.PROXY_METRICS).proxy_metrics(node)

    def controller_metrics(self) -> str:
        """See `ControllerMetrics`."""
        self.need(Ability.CONTROLLER_METRICS)
        return self._part(ControllerMetrics, Ability.CONTROLLER_METRICS).controller_metrics()

    def reads(self, component: Component, *, since: float) -> list[str]:
        """See `RecordsReads`."""
        self.need(Ability.API_READS)
        return self._part(RecordsReads, Ability.API_READS).reads(component, since=since)
