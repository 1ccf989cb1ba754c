"""The protocol of every booted cluster; `harness.backends.protocols` has protocols that only some clusters implement.

All node and zone names are the topology's names. A backend translates them if the cluster has other names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.api.client import Api
from harness.model.abilities import Ability
from harness.model.outcomes import Observation
from harness.model.release import Release
from harness.model.topology import Topology
from harness.model.workloads import Pod
from harness.probes.loop import Probe, Sample
from harness.tracing.path import Followed

TERMINATION_SECONDS = 30  # seconds that a pod still serves after a graceful deletion

ContainerPorts = Sequence[tuple[str, int, str]]
"""Name, number and protocol of each port."""


@dataclass(frozen=True, slots=True)
class WantedPod:
    """A pod to create: its node, labels, named ports, and readiness.

    With `tells_port` its server answers "name.port" on each port. With `host_network` the pod has the addresses of its
    node. A node can have one host-network pod.
    """

    name: str
    node: str
    labels: Mapping[str, str] | None = None
    container_ports: ContainerPorts = ()
    ready: bool = True
    tells_port: bool = False
    host_network: bool = False


class OpenConnection(Protocol):
    """A long-lived connection."""

    opened: Observation

    def ask(self) -> Observation:
        """Send a question, and return its outcome."""

    def close(self) -> None:
        """Close the connection."""


class SteadyTraffic(Protocol):
    """Probes in the background, at a steady rate."""

    @property
    def asked(self) -> int:
        """The number of probes sent so far."""

    def stop(self) -> list[Sample]:
        """Stop sending, and return all samples in the order of their start."""


class Backend(Protocol):
    """A booted cluster."""

    @property
    def name(self) -> str:
        """The name, as in `--backend`."""

    @property
    def topology(self) -> Topology:
        """The zones and nodes, by the names that scenarios use."""

    @property
    def families(self) -> Sequence[str]:
        """The IP families, the primary family first."""

    @property
    def release(self) -> Release:
        """The release of its components at boot."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """The abilities in addition to the abilities of every cluster."""

    @property
    def api(self) -> Api:
        """The client of its API server."""

    def close(self) -> None:
        """Close the cluster or this worker's share of it, and remove everything that was created. Idempotent."""

    def create_namespace(self, namespace: str) -> None:
        """Create the Kubernetes namespace of a scenario."""

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace with everything in it, running pods included."""

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        """Run pods whose servers answer with their names, all at once. Returns them in the same order."""

    def delete_pod(self, namespace: str, name: str) -> None:
        """Delete a pod without grace period."""

    def await_pods(self) -> None:
        """Wait until kubelets report the wanted state of all pods: earlier observations prove nothing about components.

        Raises `InconclusiveError` with the reason why a pod is not in the wanted state.
        """

    def settle(self) -> float:
        """Wait until components have processed everything written so far, as far as the backend can know.

        Returns the seconds in which components had work left, without the backend's own time; 0.0 if unknown.
        """

    def check_instruments(self) -> None:
        """Raise `DistrustError` if no observation is trustworthy, `InconclusiveError` if recent ones are not."""

    def environment(self) -> dict[str, Any]:
        """Return the facts about the cluster for the report."""

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        """Return the components' evidence as file contents by file name, and the requests in a Kubernetes namespace.

        `since` is the time of the first request, in monotonic seconds.
        """

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:
        """Return the decisions of these nodes for a Service and their reasons, as far as known."""

    def decisions(self) -> dict[str, str]:
        """Return all decisions with their reasons, by node; empty if the proxies do not report theirs."""

    def follow(
        self, probe: Probe, node: str, is_same: Callable[[Observation], bool], *, servers: Sequence[Pod] = ()
    ) -> Followed:
        """Repeat a probe through the rules of a node, a few times at most, until its outcome is the same again.

        Also captures packets at the pods `servers`. The result names the parts that the backend cannot provide. Raises
        `UnavailableError`.
        """
