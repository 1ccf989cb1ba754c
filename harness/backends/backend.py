"""What every booted cluster can do, whatever it is made of; `harness.backends.protocols` has what only some can.

Node and zone names are those of the topology, also where the cluster's own are others: a backend translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.api.client import Api
from harness.model.abilities import Ability
from harness.model.outcomes import Observation
from harness.model.release import Release
from harness.model.topology import Topology
from harness.model.workloads import Pod
from harness.probes.loop import Sample

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
    """A booted cluster."""

    @property
    def name(self) -> str:
        """As `--backend` names it."""

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

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        """Run pods with a server that says who it is; all at once, in the order asked for."""

    def delete_pod(self, namespace: str, name: str) -> None:
        """End a pod at once."""

    def settle(self) -> None:
        """Wait until components have worked on everything written so far, as far as that can be known."""

    def check_instruments(self) -> None:
        """Raise `DistrustError` when what is seen here cannot be trusted any more."""

    def environment(self) -> dict[str, Any]:
        """What the report says about where the run took place."""

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        """What components say of themselves, as texts by file name, and the requests about a Kubernetes namespace since
        that time (monotonic seconds).
        """
