"""The optional abilities of backends. Each has a small protocol, which a scenario requests with `part_of`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, runtime_checkable

from harness.api.client import Object
from harness.backends.backend import Backend, OpenConnection, SteadyTraffic, WantedPod
from harness.errors import UnavailableError
from harness.guest.nodes import NodeChange
from harness.model.abilities import Ability
from harness.model.outcomes import Observation
from harness.model.release import Component, Release
from harness.model.workloads import Client, Pod
from harness.netns.http import HttpResponse
from harness.netns.namespace import Namespace
from harness.probes.control_probes import ConcurrentControlProbes
from harness.probes.loop import Probe, SocketSource

P = TypeVar("P")

_ABILITIES: dict[type, Ability] = {}


def _needs(ability: Ability) -> Callable[[type[P]], type[P]]:
    def declare(protocol: type[P]) -> type[P]:
        _ABILITIES[protocol] = ability
        return runtime_checkable(protocol)

    return declare


def abilities_of(protocol: type) -> list[Ability]:
    """Return the abilities that a scenario needs for a protocol. The list is empty if the protocol needs none."""
    return [_ABILITIES[protocol]] if protocol in _ABILITIES else []


def part_of(backend: Backend, protocol: type[P], *abilities: Ability) -> P:
    """Return the backend, typed as this protocol. Raises `UnavailableError` with the missing abilities."""
    if isinstance(backend, protocol):
        return backend
    missing: Sequence[str] = abilities or abilities_of(protocol)
    raise lacks(backend, *(missing or [protocol.__name__]))


def lacks(backend: Backend, *abilities: str) -> UnavailableError:
    return UnavailableError(f"backend {backend.name} has no {', '.join(abilities)} here")


# Every cluster


@runtime_checkable
class PodLifecycle(Protocol):
    def create_pod(self, namespace: str, wanted: WantedPod) -> None:
        """Create a pod to which the caller sends no traffic. It may exist in the API only."""

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Make a pod ready or not ready."""

    def begin_termination(self, namespace: str, name: str) -> None:
        """Delete a running pod gracefully. The pod continues to run for `TERMINATION_SECONDS`."""

    def evict_pod(self, namespace: str, name: str) -> None:
        """Evict a running pod gracefully, as draining its node does. Raises `RefusedError`."""


@runtime_checkable
class Probing(Protocol):
    def source_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:
        """Return the object that opens a client's sockets. With `fresh`, it may use another pod on the same node."""

    def client_address(self, client: Client | Pod, family: str) -> str:
        """Return the address of a client in an IP family."""

    def node_addresses(self, node: str) -> dict[str, str]:
        """Return the addresses of a node, keyed by family."""

    def free_addresses(self) -> dict[str, str]:
        """Return addresses that no running pod has."""

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        """Send probes, and return their outcomes. The outcomes of equal probes are in no particular order."""

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        """Send probes with a short time limit, and return their outcomes in order. Verdicts must not depend on them."""

    def addresses_seen(self, probes: Sequence[Probe]) -> list[Observation]:
        """Send probes, and return for each the client address that the server saw."""

    def record(self, interval: float, probes: Sequence[Probe]) -> SteadyTraffic:
        """Send probes in the background. Send each probe every `interval` seconds, or as often as the backend can."""


@_needs(Ability.CHANGE_NODES)
class NodeControl(Protocol):
    def change_node(self, name: str, change: NodeChange) -> None:
        """Change a node's labels or taints, or cordon it."""

    def restore_node(self, name: str, before: Object) -> None:
        """Restore a node to its state before the scenario's changes."""


METRICS_PORT = 10249
"""The port of a proxy's metrics on the loopback interface of its node. The number is kube-proxy's default."""


@_needs(Ability.PROXY_METRICS)
class ProxyMetrics(Protocol):
    def proxy_metrics(self, node: str) -> str:
        """Return the metrics of a node's proxy in Prometheus text format. Raises `OSError` if they cannot be read."""


# The embedded cluster and kind clusters


@runtime_checkable
class ComponentControl(Protocol):
    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Replace a component (proxies only on `nodes`). Raises `UnavailableError` if the new one does not start."""

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        """Stop a component. The API objects or kernel rules that it wrote remain."""


@_needs(Ability.STOP_NODES)
class NodePower(Protocol):
    def stop_node(self, name: str) -> None:
        """Switch a node off, and wait until the control plane reports the node and its pods as not ready."""

    def start_node(self, name: str) -> None:
        """Switch a node on again, and wait until its pods are ready again."""


@_needs(Ability.CONTROLLER_METRICS)
class ControllerMetrics(Protocol):
    def controller_metrics(self) -> str:
        """Return the controller's metrics in Prometheus text format. Raises `InconclusiveError`."""


# The embedded cluster only


@_needs(Ability.API_READS)
class RecordsApiReads(Protocol):
    def reads(self, component: Component, *, since: float) -> list[str]:
        """Return a component's API reads after `since` (monotonic s), like "get nodes". Raises `UnavailableError`."""


@_needs(Ability.REPORT_PODS)
class PodReports(Protocol):
    def create_reported_pod(self, namespace: str, wanted: WantedPod, *, phase: str) -> None:
        """Create a pod that exists in the API only, in any phase. Its node need not exist."""


@_needs(Ability.SOURCE_PORTS)
class ClientNetns(Protocol):
    def namespace_of(self, client: Client | Pod) -> Namespace:
        """Return the netns of a client."""


@_needs(Ability.OPEN_CONNECTIONS)
class OpensConnections(Protocol):
    def connect(self, probe: Probe) -> OpenConnection:
        """Open a long-lived connection."""


@_needs(Ability.HTTP)
class SendsHttpRequests(Protocol):
    def http_get(self, client: Client | Pod, address: str, port: int, path: str) -> HttpResponse:
        """Send a GET request from a client's netns. Raises `OSError` if the connection fails."""


VIRTUAL_ADDRESSES = 254  # number of addresses of each kind that are routed to a node

VIRTUAL = {"load-balancer": Ability.LOAD_BALANCER, "external-ip": Ability.EXTERNAL_IPS}
"""The ability that a scenario needs to use addresses of each kind."""


@runtime_checkable
class VirtualAddresses(Protocol):
    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:
        """Return address `number` (1 to 254) of a kind ("load-balancer" or "external-ip"), routed to `node`."""


@_needs(Ability.DNS)
class ServesDns(Protocol):
    def dns(self) -> dict[str, str]:
        """Return the addresses of the topology-aware DNS server, keyed by family."""

    def beside_dns(self, client: Client | Pod, family: str) -> ConcurrentControlProbes:
        """Return a context manager that sends control probes to the DNS server's pod during the block."""


@runtime_checkable
class RestartsDns(Protocol):
    def restart_dns(self) -> None:
        """Replace the DNS server with a new one at the same addresses, if it has been started."""


@runtime_checkable
class FlushesConntrack(Protocol):
    def forget_connections(self) -> None:
        """Delete all conntrack entries, so that one scenario's connections do not affect the next scenario."""


@runtime_checkable
class DetectsIdleProxies(Protocol):
    def watch_idle(self) -> Callable[[], str]:
        """Return a function that returns why a wait for idle proxies can end, or "" if the wait must go on."""


@runtime_checkable
class DisconnectsComponents(Protocol):
    def disconnected(self) -> AbstractContextManager[None]:
        """Disconnect components from the API server during a block. Afterwards, they must relist (HTTP 410)."""


class AllAbilities(
    Probing,
    PodLifecycle,
    NodeControl,
    ProxyMetrics,
    ComponentControl,
    NodePower,
    ControllerMetrics,
    RecordsApiReads,
    PodReports,
    ClientNetns,
    OpensConnections,
    SendsHttpRequests,
    VirtualAddresses,
    ServesDns,
    RestartsDns,
    FlushesConntrack,
    DetectsIdleProxies,
    DisconnectsComponents,
    Protocol,
):
    """All protocols of this module. The embedded cluster implements them."""
