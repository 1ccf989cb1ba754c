"""The protocol that all backends implement. Arguments and results use the topology's names for nodes and zones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.api.client import Api
from harness.model.abilities import Ability
from harness.model.outcomes import Observation
from harness.model.release import Release
from harness.model.topology import Topology
from harness.model.workloads import Pod
from harness.probes.loop import Probe, SentProbe
from harness.tracing.path import TracedProbe

TERMINATION_SECONDS = 30  # seconds that a pod still serves after a graceful deletion

ContainerPorts = Sequence[tuple[str, int, str]]  # name, number and protocol of each port


@dataclass(frozen=True, slots=True)
class WantedPod:
    """A pod to create. With `tells_port`, its server answers "name.port" on each port. A node can have only one pod
    with `host_network`. `restart_policy` applies only to pods that exist only in the API. With `sidecar`, the pod has
    additional containers, which exist only in the API.
    """

    name: str
    node: str
    labels: Mapping[str, str] | None = None
    container_ports: ContainerPorts = ()
    ready: bool = True
    tells_port: bool = False
    host_network: bool = False
    restart_policy: str = "Always"
    sidecar: bool = False


class OpenConnection(Protocol):
    opened: Observation

    def ask(self) -> Observation:
        """Send a request, and return its outcome."""

    def close(self) -> None:
        """Close the connection."""


class SteadyTraffic(Protocol):
    @property
    def asked(self) -> int:
        """The number of probes sent so far."""

    def stop(self) -> list[SentProbe]:
        """Stop sending, and return all sent probes, ordered by start time."""


class Backend(Protocol):
    @property
    def name(self) -> str:
        """The backend's name, as in `--backend`."""

    @property
    def topology(self) -> Topology:
        """The zones and nodes, with the names that scenarios use."""

    @property
    def families(self) -> Sequence[str]:
        """The IP families, starting with the primary family."""

    @property
    def release(self) -> Release:
        """The release of the cluster's components at boot."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """The abilities of this cluster. A requirement that needs any other ability is `unavailable`."""

    @property
    def api(self) -> Api:
        """The client of the cluster's API server."""

    def close(self) -> None:
        """Close the cluster, or this worker's part of it. Remove everything that the backend created. Idempotent."""

    def create_namespace(self, namespace: str) -> None:
        """Create the Kubernetes namespace of a scenario."""

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace with all its objects, including running pods."""

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        """Run these pods, whose servers answer with the pods' names. Return the pods in the same order."""

    def delete_pod(self, namespace: str, name: str) -> None:
        """Delete a pod without a grace period."""

    def await_pods(self) -> None:
        """Wait until kubelets report that all pods are in the requested state. Raises `InconclusiveError`."""

    def settle(self) -> float:
        """Wait until components have processed all writes so far. Return for how many seconds they were busy."""

    def check_instruments(self) -> None:
        """Raise `DistrustError` if no observation is reliable, and `InconclusiveError` if recent ones are not."""

    def environment(self) -> dict[str, Any]:
        """Return the facts about the cluster for the report."""

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        """Return evidence, keyed by file name. It includes API requests since `since` (monotonic seconds)."""

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:
        """Return which endpoints the proxies of these nodes chose for a Service, and why, if they report it."""

    def decisions(self) -> dict[str, str]:
        """Return the decisions that proxies report, with their reasons, keyed by node. The result may be empty."""

    def follow(
        self, probe: Probe, node: str, is_same: Callable[[Observation], bool], *, servers: Sequence[Pod] = ()
    ) -> TracedProbe:
        """Trace a probe through a node's rules, and capture its packets at the pods `servers`. Repeat the probe a few
        times, until `is_same` accepts its outcome. The result names missing evidence. Raises `UnavailableError`.
        """
