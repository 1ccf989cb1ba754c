"""What a backend may have beside the core: a small protocol each, and a backend has it when it is of that type.

`harness.backends.view.View` finds them, and leaves a scenario unjudged that needs one which is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from harness.api.client import Object
from harness.backends.backend import OpenConnection, SteadyTraffic, WantedPod
from harness.model.outcomes import Observation
from harness.model.release import Component, Release
from harness.model.workloads import Client, Pod
from harness.netns.http import HttpAnswer
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe, SocketSource

# What both the embedded cluster and a cluster of somebody else's have


@runtime_checkable
class PodLifecycle(Protocol):
    """Pods come, get ready and go as a scenario says."""

    def create_pod(self, namespace: str, wanted: WantedPod) -> None:
        """Have a pod that nobody sends anything to."""

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Have a pod reported as ready or not ready."""

    def begin_termination(self, namespace: str, name: str) -> None:
        """Delete a pod gracefully: it runs, and goes on running for `TERMINATION_SECONDS`."""

    def evict_pod(self, namespace: str, name: str) -> None:
        """The same, as a drain of its node does it. Raises `RefusedError`."""


@runtime_checkable
class Probing(Protocol):
    """Clients ask, from pods and from nodes."""

    def place_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:
        """Where a client is, for `Probe`; `fresh`: it may be somebody in its stead, of whom there are fewer flows."""

    def client_address(self, client: Client | Pod, family: str) -> str:
        """The client's own address."""

    def node_addresses(self, node: str) -> dict[str, str]:
        """The addresses of a node, by family."""

    def free_addresses(self) -> dict[str, str]:
        """Addresses that no running pod has."""

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        """What came of each probe; those that are equal may come in any order."""

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        """What seems to come of each probe, in their order, as soon as possible; nothing is judged by it."""

    def addresses_seen(self, probes: Sequence[Probe]) -> list[Observation]:
        """The same as `probe`, and each answer says from which address the question came."""

    def record(self, interval: float, probes: Sequence[Probe]) -> SteadyTraffic:
        """Probes in the background, each of them `interval` seconds apart or as fast as the backend can."""


@runtime_checkable
class NodeControl(Protocol):
    """Nodes can be changed, and given back as they were."""

    def change_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        taints: Sequence[Object] | None = None,
        unschedulable: bool | None = None,
    ) -> None:
        """Change labels of a node (`None` removes one), give it these taints and no others, or cordon it."""

    def restore_node(self, name: str, before: Object) -> None:
        """Give a node back what it had before it was changed."""


@runtime_checkable
class ProxyMetrics(Protocol):
    """Proxies can be asked for their metrics."""

    def proxy_metrics(self, node: str) -> str:
        """What the proxy of a node exposes as Prometheus text. Raises `InconclusiveError`."""


@runtime_checkable
class Explaining(Protocol):
    """Somebody can say why nodes do what they do."""

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:
        """Why these nodes do what they do with a Service, as far as somebody can say."""


# What only the makers of a cluster have: the embedded cluster, and a cluster that kind made


@runtime_checkable
class ComponentControl(Protocol):
    """API server, controller and proxies can be replaced."""

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Start a component as one of this release, in place of one that runs. `nodes` are those of proxies.

        Raises `UnavailableError` for a release that cannot be had.
        """

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        """Stop a component; what it has stored, written or programmed stays."""


@runtime_checkable
class NodePower(Protocol):
    """Nodes can be switched off and on."""

    def stop_node(self, name: str) -> None:
        """Switch a node off, as a power failure would; return when the control plane has noticed.

        That is when the node is not ready, and neither is any pod on it.
        """

    def start_node(self, name: str) -> None:
        """Switch it on again, and return when the pods on it are ready again."""


@runtime_checkable
class ControllerMetrics(Protocol):
    """The EndpointSlice controller can be asked for its metrics."""

    def controller_metrics(self) -> str:
        """What the controller exposes as Prometheus text. Raises `InconclusiveError`."""


# What only the embedded cluster has


@runtime_checkable
class PodReports(Protocol):
    """Pods are what somebody reports of them, whether or not anything runs."""

    def create_reported_pod(self, namespace: str, wanted: WantedPod, *, phase: str) -> None:
        """Have a pod that exists in the API only, in any phase. Its node need not exist."""


@runtime_checkable
class Sockets(Protocol):
    """Sockets can be opened where clients are."""

    def namespace_of(self, client: Client | Pod) -> Namespace:
        """The network namespace in which a client is."""

    def connect(self, probe: Probe) -> OpenConnection:
        """A connection that stays."""

    def http_get(self, client: Client | Pod, address: str, port: int, path: str) -> HttpAnswer:
        """Ask an HTTP server from where a client is. Raises `OSError` as connecting does."""


@runtime_checkable
class VirtualAddresses(Protocol):
    """Addresses that a cloud would give are routed to a node of choice."""

    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:
        """Address `number` (1 to 254) of the "load-balancer" or "external-ip" addresses that are routed to `node`."""


@runtime_checkable
class ServesDns(Protocol):
    """There is a topology-aware DNS server."""

    def dns(self) -> dict[str, str]:
        """The addresses of the cluster's topology-aware DNS server, by family."""


@runtime_checkable
class ForgetsConnections(Protocol):
    """Nodes know connections of earlier scenarios, and can be made to forget them."""

    def forget_connections(self) -> None:
        """Nothing of one scenario is left for the next."""
