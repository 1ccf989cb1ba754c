"""What scenarios ask of a booted cluster, whatever it is made of.

Node and zone names are those of the topology, also where the cluster's own are others: a backend translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.api.client import Api, Object
from harness.model.abilities import Ability
from harness.model.outcomes import Observation
from harness.model.release import Component, Release
from harness.model.topology import Topology
from harness.model.workloads import Client, Pod
from harness.netns.http import HttpAnswer
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe, Sample, SocketSource

TERMINATION_SECONDS = 30  # that a pod goes on serving after a graceful deletion

ContainerPorts = Sequence[tuple[str, int, str]]
"""Name, number and protocol of each."""


@dataclass(frozen=True, slots=True)
class WantedPod:
    """A pod to be made: where, with which labels, named ports, and readiness."""

    name: str
    node: str
    labels: Mapping[str, str] | None = None
    container_ports: ContainerPorts = ()
    ready: bool = True


class OpenConnection(Protocol):
    """A connection that stays."""

    opened: Observation

    def ask(self) -> Observation:
        """Ask who is at the other end."""

    def close(self) -> None:
        """Close it."""


class SteadyTraffic(Protocol):
    """Probes in the background, at a steady rate."""

    @property
    def asked(self) -> int:
        """How many have left so far."""

    def stop(self) -> list[Sample]:
        """Ask no more, and give all samples in the order in which they left."""


class Backend(Protocol):
    """A booted cluster. Verbs raise `UnavailableError` for what it cannot do: see `abilities`."""

    name: str
    hints_matter: bool | None

    @property
    def topology(self) -> Topology:
        """The nodes that scenarios know, in their zones."""

    @property
    def families(self) -> Sequence[str]:
        """Its IP families, the primary one first."""

    @property
    def release(self) -> Release:
        """What its components are of, unless a scenario changes one."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it can do beside the common things."""

    @property
    def api(self) -> Api:
        """Its API server."""

    def close(self) -> None:
        """Leave nothing behind. Idempotent."""

    def create_namespace(self, namespace: str) -> None:
        """Make the Kubernetes namespace of a scenario."""

    def delete_namespace(self, namespace: str) -> None:
        """Take it away with everything in it, pods that run included."""

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Start a component as one of this release, in place of one that runs. `nodes` are those of proxies."""

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        """Stop a component; what it has stored, written or programmed stays."""

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        """Run pods with a server that says who it is; all at once, in the order asked for."""

    def delete_pod(self, namespace: str, name: str) -> None:
        """End a pod at once."""

    def begin_termination(self, namespace: str, name: str) -> None:
        """Delete a pod gracefully: it runs, and goes on running for `TERMINATION_SECONDS`."""

    def evict_pod(self, namespace: str, name: str) -> None:
        """The same, as a drain of its node does it. Raises `RefusedError`."""

    def create_pod(self, namespace: str, wanted: WantedPod, *, phase: str = "Running") -> None:
        """Have a pod that nobody sends anything to. Its node need not exist."""

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Have a pod reported as ready or not ready."""

    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:
        """Address `number` (1 to 254) of the "load-balancer" or "external-ip" addresses that are routed to `node`."""

    def free_addresses(self) -> dict[str, str]:
        """Addresses that no running pod has."""

    def node_addresses(self, node: str) -> dict[str, str]:
        """The addresses of a node, by family."""

    def place_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:
        """Where a client is, for `Probe`; `fresh`: it may be somebody in its stead, of whom there are fewer flows."""

    def namespace_of(self, client: Client | Pod) -> Namespace:
        """The network namespace in which a client is."""

    def client_address(self, client: Client | Pod, family: str) -> str:
        """The client's own address."""

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        """What seems to come of each probe, in their order, as soon as possible; nothing is judged by it."""

    def addresses_seen(self, probes: Sequence[Probe]) -> list[Observation]:
        """The same as `probe`, and each answer says from which address the question came."""

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        """What came of each probe; those that are equal may come in any order."""

    def connect(self, probe: Probe) -> OpenConnection:
        """A connection that stays."""

    def record(self, interval: float, probes: Sequence[Probe]) -> SteadyTraffic:
        """Probes in the background, each of them `interval` seconds apart or as fast as the backend can."""

    def http_get(self, client: Client | Pod, address: str, port: int, path: str) -> HttpAnswer:
        """Ask an HTTP server from where a client is. Raises `OSError` as connecting does."""

    def metrics(self, component: Component, node: str) -> str:
        """What a component exposes as Prometheus text; `node` is that of a proxy. Raises `InconclusiveError`."""

    def dns(self) -> dict[str, str]:
        """The addresses of the cluster's topology-aware DNS server, by family."""

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

    def stop_node(self, name: str) -> None:
        """Switch a node off, as a power failure would; return when the control plane has noticed.

        That is when the node is not ready, and neither is any pod on it.
        """

    def start_node(self, name: str) -> None:
        """Switch it on again, and return when the pods on it are ready again."""

    def settle(self) -> None:
        """Wait until components have worked on everything written so far, as far as that can be known."""

    def forget_connections(self) -> None:
        """Nothing of one scenario is left for the next."""

    def check_instruments(self) -> None:
        """Raise `DistrustError` when what is seen here cannot be trusted any more."""

    def environment(self) -> dict[str, Any]:
        """What the report says about where the run took place."""

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:
        """Why these nodes do what they do with a Service, as far as somebody can say."""

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        """What components say of themselves, as texts by file name, and the requests about a Kubernetes namespace since
        that time (monotonic seconds).
        """
