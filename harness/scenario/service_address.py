"""Addresses of Services as targets of probes, and the clients' paths to these addresses."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.backends.protocols import Probing
from harness.errors import UsageError
from harness.judging import verdict
from harness.judging.verdict import NoAnswer
from harness.model.manifests import Port
from harness.model.outcomes import Observation, Reached, Refused, TimedOut, Unknown
from harness.model.workloads import Client, Pod, node_client, pod_client
from harness.scenario.cluster import Cluster
from harness.scenario.paths import PacketPath, names
from harness.scenario.service import AddressKind, Service
from harness.variation import axes

ClientRef = str | Client | Pod
"""A client: the name of a node (meaning a pod on that node), a `Client`, or a `Pod` of the scenario."""

Expected = AbstractSet[Pod] | TimedOut | Refused | NoAnswer
Traffic = Mapping[ClientRef, Expected]


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """An address of a Service: kind, IP family and port. Packets enter at node `via`, or else at the client's node."""

    cluster: Cluster
    service: Service
    to: AddressKind
    family: str
    port: Port
    via: str | None = None

    def address(self, node: str) -> tuple[str, int]:
        """Return the address and port that a client on a node uses. Raises `UsageError` if there is no such address."""
        if self.to == "cluster-ip":
            return self.service.cluster_ip(self.family), self.port.port
        if self.to == "node-port":
            addresses = self.cluster.backend.part(Probing, nodes=[node]).node_addresses(node)
            if (number := self.service.node_port(self.port)) is None:
                port = f"{self.port.protocol} {self.port.port}"
                raise UsageError(f"service {self.service.name} has no node port for {port}")
            return addresses[self.family], number
        if (self.to, node) not in self.service.virtual:
            raise UsageError(f"service {self.service.name} has no {self.to} address that is routed to {node}")
        return self.service.virtual[self.to, node][self.family], self.port.port

    def path(self, who: ClientRef, expected: verdict.Expected) -> PacketPath:
        if not isinstance(who, str):
            return self._path(who, who, expected)
        on_node = self.to == "cluster-ip" and self.cluster.draw[axes.CLIENT] == "node"
        return self._path(who, node_client(who) if on_node else pod_client(who), expected)

    def paths(self, traffic: Traffic) -> list[PacketPath]:
        """Return the path of each client. With client=endpoint in `draw`, endpoints replace the clients on their nodes.

        Only endpoints with a published nodeName replace clients, because proxies may need it for such connections.
        """
        pods = {each for what in traffic.values() if isinstance(what, AbstractSet) for each in what}
        from_endpoints = self.to == "cluster-ip" and self.cluster.draw[axes.CLIENT] == "endpoint"
        node_names = self.cluster.published.nodes
        running = {
            each.node: each
            for each in reversed(self.cluster.running if from_endpoints else ())
            if each in pods and node_names.get(each.addresses.get(self.family, "")) == each.node
        }
        found = []
        for who, what in traffic.items():
            expected = names(what) if isinstance(what, AbstractSet) else what
            own = running.get(who) if isinstance(who, str) else None
            found.append(self._path(who, own, expected) if own else self.path(who, expected))
        return found

    def _path(self, who: ClientRef, client: Client | Pod, expected: verdict.Expected) -> PacketPath:
        may_change = self.port.protocol == "UDP" and self.service.object["spec"].get("sessionAffinity") != "ClientIP"
        address, number = self.address(self.via or client.node)
        self.cluster.record.used.add(f"{self.port.protocol} {self.to} {self.family}")
        return PacketPath(
            label=label(who),
            node=self.via or client.node,
            place=self.cluster.backend.part(Probing, client=client).source_of(client, fresh=may_change),
            address=address,
            port=number,
            protocol=self.port.protocol,
            expected=expected,
            of=(self.service.name, self.to),
        )

    def __str__(self) -> str:
        return f"{self.port.protocol} to the {self.to} of {self.service.name}, {self.family}"


def label(who: ClientRef) -> str:
    return f"pod {who.name}" if isinstance(who, Pod) else str(who)


def service_address(
    cluster: Cluster,
    service: Service,
    *,
    to: AddressKind | None = None,
    family: str | None = None,
    port: Port | None = None,
    via: str | None = None,
) -> ServiceAddress:
    """Return an address of a Service, by default of a random kind, in the first family and for the first port."""
    at = port or service.ports[0]
    return ServiceAddress(cluster, service, to or _random_kind(service, at), family or first_family(service), at, via)


def _random_kind(service: Service, port: Port) -> AddressKind:
    """Return the drawn kind of address, or "cluster-ip" if the Service lacks it or has internalTrafficPolicy Local."""
    spec = service.object["spec"]
    if spec.get("internalTrafficPolicy") == "Local":
        return "cluster-ip"
    match service.draw[axes.ADDRESS]:
        case "node-port" if service.node_port(port):
            return "node-port"
        case "external-ip" if spec.get("externalIPs"):
            return "external-ip"
    return "cluster-ip"


def first_family(service: Service) -> str:
    """Return the IP family of a Service's first cluster IP, or "IPv4" for an ExternalName Service."""
    return str((service.object["spec"].get("ipFamilies") or ["IPv4"])[0])


def named(cluster: Cluster, observation: Observation) -> Observation:
    """Return an observation without the namespace of the pod. Servers answer with namespace/name."""
    if isinstance(observation, Reached):
        return Reached(observation.pod.removeprefix(f"{cluster.namespace}/"))
    return observation


def in_words(observation: Observation) -> str:
    """Return the name of the pod that answered, or the class of the outcome, such as "TimedOut"."""
    return observation.pod if isinstance(observation, Reached) else type(observation).__name__


def why_unknown(observations: Iterable[Observation]) -> str:
    """Return why the first `Unknown` observation is inconclusive, or "" if there is none."""
    return next((each.why for each in observations if isinstance(each, Unknown)), "")
