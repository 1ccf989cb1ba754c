"""Paths from a client to an address of a Service, with their probes and expectations.

Checks differ in their times and judgements. Clients and targets are the same for all of them, and defined here.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.backends.protocols import Probing
from harness.errors import UsageError
from harness.eventually import time_scale
from harness.judging import verdict
from harness.judging.verdict import NoAnswer
from harness.model.manifests import Port
from harness.model.outcomes import Observation, Reached, Refused, TimedOut
from harness.model.workloads import Client, Pod, pod_client
from harness.probes.loop import Probe, SocketSource
from harness.scenario.cluster import Cluster
from harness.scenario.service import AddressKind, Service

Who = str | Client | Pod
"""A client: a node's name (a pod on that node), a `Client`, or a `Pod` of the scenario."""

ANSWER_LIMIT = 0.9  # seconds; the kernel repeats a lost SYN after one second, which must not hide the loss
SILENCE_LIMIT = 0.4  # seconds without an answer that count as silence


@dataclass(frozen=True, slots=True)
class Path:
    """A path from a client to an address of the Service, through the rules of `node`.

    `of` are the name of the Service and the kind of its address.
    """

    label: str
    node: str
    place: SocketSource
    address: str
    port: int
    protocol: str
    expected: verdict.Expected
    of: tuple[str, str] = ("", "")

    @property
    def speaks(self) -> bool:
        """True if an answer is expected."""
        return not isinstance(self.expected, TimedOut | Refused | NoAnswer)

    @property
    def silent(self) -> bool:
        """True if silence is right."""
        return isinstance(self.expected, TimedOut | NoAnswer)

    def probes(self, count: int) -> list[Probe]:
        """Return this number of probes along the path."""
        limit = (SILENCE_LIMIT if self.silent else ANSWER_LIMIT) * time_scale()
        return [Probe(self.place, self.protocol, self.address, self.port, limit)] * count


@dataclass(frozen=True, slots=True)
class Target:
    """The target of probes: an address of a Service, of some kind and family, and a port."""

    cluster: Cluster
    service: Service
    to: AddressKind
    family: str
    port: Port
    via: str | None = None

    def address(self, node: str) -> tuple[str, int]:
        """Return the address and port of a node, or of the whole cluster. Raises `UsageError`."""
        if self.to == "cluster-ip":
            return self.service.cluster_ip(self.family), self.port.port
        if self.to == "node-port":
            addresses = self.cluster.backend.part(Probing, nodes=[node]).node_addresses(node)
            return addresses[self.family], self.service.node_port(self.port)
        if (self.to, node) not in self.service.virtual:
            raise UsageError(f"service {self.service.name} has no {self.to} address that is routed to {node}")
        return self.service.virtual[self.to, node][self.family], self.port.port

    def path(self, who: Who, expected: verdict.Expected) -> Path:
        """Return the path of a client to the target."""
        client = pod_client(who) if isinstance(who, str) else who
        may_change = self.port.protocol == "UDP" and self.service.object["spec"].get("sessionAffinity") != "ClientIP"
        address, number = self.address(self.via or client.node)
        return Path(
            label=f"pod {client.name}" if isinstance(client, Pod) else str(client),
            node=self.via or client.node,
            place=self.cluster.backend.part(Probing, client=client).place_of(client, fresh=may_change),
            address=address,
            port=number,
            protocol=self.port.protocol,
            expected=expected,
            of=(self.service.name, self.to),
        )

    def __str__(self) -> str:
        return f"{self.port.protocol} to the {self.to} of {self.service.name}, {self.family}"


def target_of(
    cluster: Cluster,
    service: Service,
    *,
    to: AddressKind = "cluster-ip",
    family: str | None = None,
    port: Port | None = None,
    via: str | None = None,
) -> Target:
    """Return a target, by default of the Service's first family and first port."""
    return Target(cluster, service, to, family or first_family(service), port or service.ports[0], via)


def first_family(service: Service) -> str:
    """Return the IP family of a Service's first cluster IP."""
    return str(service.object["spec"]["ipFamilies"][0])


def names(pods: AbstractSet[Pod]) -> frozenset[str]:
    """Return the names of pods, which verdicts use."""
    return frozenset(pod.name for pod in pods)


def named(cluster: Cluster, observation: Observation) -> Observation:
    """Return an observation with the pod's name alone: servers answer with namespace/name."""
    if isinstance(observation, Reached):
        return Reached(observation.pod.removeprefix(f"{cluster.namespace}/"))
    return observation
