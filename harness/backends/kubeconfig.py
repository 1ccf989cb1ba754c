"""Any cluster that a kubeconfig leads to: the same scenarios, with pods and packets of that cluster.

Servers and clients are pods of the standard test image, pinned to nodes; a server says its pod's name. Everything goes
through the API, probes included: no command is started, nothing is installed, no port of a node is opened.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from harness.abilities import Ability
from harness.api import Api, Object, RefusedError, Response
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.barrier import Barrier
from harness.backends.any_cluster.client_pod import ClientPod
from harness.backends.any_cluster.dialing import Dialer, address_seen
from harness.backends.any_cluster.guests import Guests
from harness.backends.any_cluster.names import Names
from harness.backends.any_cluster.places import described
from harness.backends.any_cluster.steady import Steady
from harness.backends.any_cluster.translating import TranslatingApi
from harness.backends.backend import TERMINATION_SECONDS, WantedPod
from harness.backends.components import Components, Untouchable
from harness.components import Component, Release
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.guest import liveness
from harness.guest.marks import run_labels
from harness.guest.nodes import change_node, restore_node
from harness.kubeconfig import find
from harness.manifests import TARGET_PORT
from harness.netns.addresses import by_family
from harness.netns.http import HttpAnswer
from harness.netns.namespace import Namespace
from harness.outcomes import Observation, Unknown
from harness.probes.loop import Probe
from harness.topology import Node, Topology
from harness.workloads import Client, Pod, node_client, pod_client

SETTLED = 10.0  # seconds, before the time scale, in which proxies work on what was written
RESTARTED = 120.0  # the same after a component was replaced: clients ask an API server that was away ever less often
METRICS_PORT = 10249
NODE_CLIENT_PORTS = 20_480  # the first of two for each worker, on the network of the nodes

ALWAYS = frozenset({Ability.PROXY_METRICS, Ability.EXTERNAL_CLIENT, Ability.UNDISTURBED})
"""What a client pod on the host's network can do: it is outside for the node ports of any other node."""


def abilities(*, disruptive: bool, equal_nodes: bool) -> frozenset[Ability]:
    """What can be done on a cluster of somebody else's, whose components stay as they are."""
    return (
        ALWAYS
        | (frozenset({Ability.CHANGE_NODES}) if disruptive else frozenset())
        | (frozenset({Ability.EQUAL_NODES}) if equal_nodes else frozenset())
    )


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of a cluster before anything is made on it. `topology` has the nodes that were found."""

    kubeconfig: str
    context: str
    run_id: str
    names: Names
    topology: Topology
    abilities: frozenset[Ability]
    registry: str = ""
    backend: str = "kubeconfig"

    def to_json(self) -> dict[str, Any]:
        """Plain values, to hand over to a worker."""
        return {**asdict(self), "abilities": sorted(map(str, self.abilities))}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Target:
        """The inverse of `to_json`."""
        topology = values["topology"]
        made = {
            "names": Names(**values["names"]),
            "topology": Topology(topology["name"], tuple(Node(**each) for each in topology["nodes"])),
            "abilities": frozenset(map(Ability, values["abilities"])),
        }
        return cls(**{**values, **made})


class KubeconfigBackend:
    """One worker's share of somebody's cluster."""

    def __init__(
        self,
        target: Target,
        *,
        worker: str = "main",
        release: Release | None = None,
        components: Components | None = None,
    ) -> None:
        self._target = target
        self.name = target.backend
        self.components: Components = components or Untouchable()
        self.topology = target.topology
        self.release = release or Release()
        self.abilities = target.abilities
        self.hints_matter: bool | None = None
        self._lacks_node = False
        self._without_proxy: set[str] = set()
        self._without_controller = False
        self._labels = run_labels(target.run_id)
        self._prefix = f"td-{target.run_id}-{worker}"
        number = int(worker.removeprefix("gw")) + 1 if worker.startswith("gw") else 0
        self._node_client_port = NODE_CLIENT_PORTS + 2 * number
        self._begun = contextlib.ExitStack()
        self._clients: dict[Client, ClientPod] = {}
        self._client_addresses: dict[Client, dict[str, str]] = {}
        self.families: Sequence[str] = ()

    def start(self) -> KubeconfigBackend:
        """Make the client pods, and see the canary go round. Raises `UnavailableError` with the remedy."""
        with contextlib.ExitStack() as begun:
            loaded = find(self._target.kubeconfig, context=self._target.context)
            self.api: Api = TranslatingApi(loaded, self._target.names, connections=600)
            begun.callback(self.api.close)
            self._guests = Guests(self.api, self._labels, self._target.registry)
            begun.callback(self._guests.close)
            self._dialer = Dialer(self.api, self._vigil)
            begun.callback(self._dialer.close)
            begun.callback(self._delete_own_namespaces)
            self._make_clients([pod_client(node.name) for node in self.topology.nodes])
            self._barrier = Barrier(self.api, self._dialer, self._clients_namespace, self._labels)
            self._barrier.create()
            self._make_canaries()
            self.families = self._barrier.families
            self._nodes = {str(each["metadata"]["name"]): each for each in self.api.list("nodes")}
            self._version = self.api.request("GET", "/version").body
            self.settle()
            self._begun = begun.pop_all()
        return self

    def ask_aside(self, get: Callable[[str, str, float], Response]) -> None:
        """Have client pods asked by `get(node, url, seconds)` whenever the API server does not answer."""

        def ask(pod: ClientPod, path: str, seconds: float) -> Response:
            client = next(each for each, made in self._clients.items() if made == pod)
            address = next(iter(self._client_addresses[client].values()))
            host = f"[{address}]" if ":" in address else address
            return get(client.node, f"http://{host}:{pod.port}/{path}", seconds)

        self._dialer.aside = ask

    def close(self) -> None:
        """Leave components as they were found, and take away all namespaces of this worker. Idempotent."""
        with self._begun:
            self.components.close()

    # Namespaces and pods

    def create_namespace(self, namespace: str) -> None:
        """Make the Kubernetes namespace of a scenario. Raises `InconclusiveError` when a node has gone."""
        self._require_nodes()
        self._guests.create_namespace(namespace)

    def delete_namespace(self, namespace: str) -> None:
        """Begin to take it away; nothing waits for that."""
        self._guests.delete_namespace(namespace)

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        """Run these pods, all at once; they are ready in the time of the slowest."""
        made = self._guests.run_servers(namespace, wanted)
        return [
            Pod(each.name, namespace, each.node, self.topology.node(each.node).zone, pods.addresses(obj))
            for each, obj in zip(wanted, made, strict=True)
        ]

    def begin_termination(self, namespace: str, name: str) -> None:
        """Delete a pod gracefully, once it runs: a kubelet ends at once what it has not started."""
        self._guests.settle()
        self.api.delete("pods", namespace, name, grace_seconds=TERMINATION_SECONDS)

    def delete_pod(self, namespace: str, name: str) -> None:
        """End a pod at once, and wait until it is gone."""
        self._guests.delete(namespace, name)

    def create_pod(self, namespace: str, wanted: WantedPod, *, phase: str = "Running") -> None:
        """Have a pod; unlike on the embedded cluster it runs, since a kubelet reports it."""
        if phase != "Running":
            self._lacks(Ability.REPORT_PODS, "pods are what their kubelets report")
        self._guests.create(namespace, wanted)

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Open or close the pod's readiness gate."""
        self._guests.open_gate(namespace, name, ready)

    def forget_connections(self) -> None:
        """Nothing: connection tracking belongs to the nodes, and pods of scenarios have addresses of their own."""

    # Clients and probes

    def place_of(self, client: Client | Pod) -> ClientPod:
        """The pod that asks."""
        if isinstance(client, Pod):
            return ClientPod(client.namespace, client.name, TARGET_PORT)
        if client.kind == "external":
            return self.place_of(node_client(self._other_node(client.node)))
        if client not in self._clients:
            self._make_clients([Client(client.kind, node.name) for node in self.topology.nodes])
        return self._clients[client]

    def client_address(self, client: Client | Pod, family: str) -> str:
        """The client's own address. Raises `UnavailableError` where it has none of this family."""
        self.place_of(client)
        if isinstance(client, Client) and client.kind == "external":
            client = node_client(self._other_node(client.node))
        known = client.addresses if isinstance(client, Pod) else self._client_addresses[client]
        if family not in known:
            raise UnavailableError(f"client {client} has no {family} address")
        return known[family]

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:  # noqa: ARG002  agnhost's own
        """What came of each probe; outcomes of equal probes come in any order.

        Raises `InconclusiveError` when somebody could not ask, and a node has gone.
        """
        try:
            seen = self._dialer.probe(probes)
        except InconclusiveError:
            self._require_nodes()
            raise
        if any(isinstance(each, Unknown) for each in seen):
            self._require_nodes()
        return seen

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        """The same, at a glance: agnhost would wait for five seconds where nobody answers."""
        return self._dialer.glance(probes)

    def addresses_seen(self, probes: Sequence[Probe]) -> list[Observation]:
        """The same, and each answer says from which address the question came."""
        return self._dialer.probe(probes, read=address_seen)

    def record(self, interval: float, probes: Sequence[Probe]) -> Steady:
        """Probes in the background, by each client as fast as it can, but not faster than every `interval` seconds."""
        return Steady(self._dialer, interval, probes)

    def connect(self, probe: Probe) -> NoReturn:
        """Raises `UnavailableError`: agnhost's connections end with the answer."""
        self._lacks(Ability.OPEN_CONNECTIONS, f"no connection to {probe.address} can be kept open in a pod")

    def namespace_of(self, client: Client | Pod) -> Namespace:
        """Raises `UnavailableError`."""
        self._lacks(Ability.SOURCE_PORTS, f"client {client} is on another machine")

    def http_get(self, client: Client | Pod, address: str, port: int, path: str) -> HttpAnswer:  # noqa: ARG002
        """Raises `UnavailableError`: agnhost does not tell the status of an answer."""
        self._lacks(Ability.HTTP, f"client {client} cannot tell the status of an answer")

    def metrics(self, component: Component, node: str) -> str:
        """What a proxy exposes on its node's loopback, asked by a pod on the host's network."""
        if component is not Component.PROXY:
            return self.components.metrics(component, node)
        client = self.place_of(node_client(node))
        try:
            return self._dialer.get(client, "127.0.0.1", METRICS_PORT, "metrics")
        except OSError as error:
            raise InconclusiveError(f"the metrics of {component} on {node} cannot be read: {error}") from error

    def dns(self) -> dict[str, str]:
        """Raises `UnavailableError`."""
        self._lacks(Ability.DNS, "the topology-aware DNS server is not part of a cluster")

    # Addresses

    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:  # noqa: ARG002
        """Raises `UnavailableError`: nobody routes them to a node of choice."""
        self._lacks(Ability(kind.replace("external-ip", "external-ips")), f"no {kind} address is routed to {node}")

    def free_addresses(self) -> dict[str, str]:
        """Addresses that no pod has: of the ranges for documentation."""
        both = {"IPv4": "192.0.2.77", "IPv6": "2001:db8::77"}
        return {family: both[family] for family in self.families}

    def node_addresses(self, node: str) -> dict[str, str]:
        """The internal addresses of a node, by family."""
        reported = (self._nodes[node].get("status") or {}).get("addresses") or ()
        return by_family(str(each["address"]) for each in reported if each.get("type") == "InternalIP")

    # Components

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        """Have one started as this release. Raises `UnavailableError` where nothing may."""
        self.components.start(component, release, nodes)
        if component is Component.PROXY:
            self._without_proxy.difference_update(nodes)
        elif component is Component.CONTROLLER:
            self._without_controller = False
        if component is not Component.PROXY and not self._without_controller:
            self._barrier.hear_from_controller(self._canaries[0][0], within=RESTARTED)
        self._barrier.expect_news()
        self.settle(within=RESTARTED)

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        """Have one stopped. Raises `UnavailableError` where nothing may."""
        self.components.stop(component, nodes)
        if component is Component.PROXY:
            self._without_proxy.update(nodes)
        elif component is Component.CONTROLLER:
            self._without_controller = True

    def change_node(
        self, name: str, *, labels: Mapping[str, str | None] | None = None, taints: Sequence[Object] | None = None
    ) -> None:
        """Change a node, and leave word on it how it was: `trafficdist cleanup` finds that too."""
        names = self._target.names
        outgoing = names.outgoing(dict(labels or {}))
        change_node(self.plain_api, names.nodes[name], self._target.run_id, labels=outgoing, taints=taints)

    def restore_node(self, name: str, before: Object) -> None:  # noqa: ARG002  the node itself tells it
        """Give a node back the labels and taints that it had."""
        restore_node(self.plain_api, self._target.names.nodes[name])

    @functools.cached_property
    def plain_api(self) -> Api:
        """The API in which nodes and zones have the cluster's own names; closed with this backend."""
        api = Api(find(self._target.kubeconfig, context=self._target.context))
        return self._begun.enter_context(contextlib.closing(api))

    def settle(self, within: float = SETTLED) -> None:
        """Wait until pods are as they were asked to be, and proxies that run have seen the canary go round."""
        if self._lacks_node:  # the canary would be waited for on a node that is gone
            self._require_nodes()
        self._guests.settle()
        nodes = [node.name for node in self.topology.nodes if node.name not in self._without_proxy]
        clients = [self._clients[pod_client(node)] for node in nodes]
        self._barrier.pass_(clients, self._canaries, within=within, when_unable=self._require_nodes)

    def _require_nodes(self) -> None:
        why = liveness.not_ready(self.api, self._target.names.nodes)
        self._lacks_node = bool(why)
        if why:
            raise InconclusiveError(why)

    def _vigil(self) -> Callable[[], None]:
        """To be called while answers are late; raises `InconclusiveError` once a node is to be doubted."""
        vigil = liveness.Vigil(self.api, self._target.names.nodes)

        def look() -> None:
            nonlocal vigil
            why = None
            with contextlib.suppress(InconclusiveError, RefusedError):  # the API server is away: nodes may be well
                why = vigil.look()
            if why:
                raise InconclusiveError(why)
            if why == "":
                vigil = liveness.Vigil(self.api, self._target.names.nodes)

        return look

    def check_instruments(self) -> None:
        """Raise `DistrustError` when a node has gone: what was seen since then says nothing about its proxy."""
        if why := liveness.doubt(self.api, self._target.names.nodes):
            raise DistrustError(why)

    # What the report says

    def environment(self) -> dict[str, Any]:
        """Where the run took place."""
        names = self._target.names.nodes
        return {
            "backend": self.name,
            "servers": {"apiserver": str(self._version.get("gitVersion", "?"))},
            "nodes": [
                described(node, self._nodes[node.name], names.get(node.name, node.name)) for node in self.topology.nodes
            ],
            "ipFamilies": list(self.families),
            **({} if self.hints_matter is None else {"hintsChangeSomething": self.hints_matter}),
        }

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:  # noqa: ARG002
        """Where to ask further."""
        return f"Ask why: trafficdist explain {namespace}/{service} (while the scenario lasts)"

    def evidence(self) -> dict[str, str]:
        """Which node of the cluster plays which of the topology."""
        names = self._target.names
        return {"nodes.txt": "\n".join(f"{ours} is {theirs}" for ours, theirs in names.nodes.items())}

    # Inside

    @property
    def _clients_namespace(self) -> str:
        return f"{self._prefix}-clients"

    def _make_clients(self, clients: Sequence[Client]) -> None:
        """Run a client pod of this kind on each node."""
        on_host = clients[0].kind == "node"
        namespace = f"{self._prefix}-node-clients" if on_host else self._clients_namespace
        port = self._node_client_port if on_host else TARGET_PORT
        self._guests.create_namespace(namespace, privileged=on_host)
        wanted = {f"client-{client.node}": client.node for client in clients}
        made = self._guests.run_clients(namespace, wanted, port=port, host_network=on_host)
        for client, obj in zip(clients, made, strict=True):
            self._clients[client] = ClientPod(namespace, f"client-{client.node}", port, on_host)
            self._client_addresses[client] = self.node_addresses(client.node) if on_host else pods.addresses(obj)

    def _make_canaries(self) -> None:
        """The two pods between which the canary goes: no clients, since a pod that reaches itself is a case apart."""
        wanted = {f"canary-{number}": node.name for number, node in enumerate(self.topology.nodes[:2], 1)}
        made = self._guests.run_clients(self._clients_namespace, wanted, port=TARGET_PORT, host_network=False)
        self._canaries = [(name, pods.addresses(obj)) for name, obj in zip(wanted, made, strict=True)]

    def _delete_own_namespaces(self) -> None:
        """Begin to; where the API server is away, after an interrupt say, the end of the run sees to what is left."""
        with contextlib.suppress(InconclusiveError):
            for namespace in {each.namespace for each in self._clients.values()} | {self._clients_namespace}:
                self._guests.delete_namespace(namespace)

    def _other_node(self, node: str) -> str:
        """A node from which packets come to this node as they do from outside."""
        return next(each.name for each in self.topology.nodes if each.name != node)

    def _lacks(self, ability: Ability, why: str) -> NoReturn:
        raise UnavailableError(f"{ability}: {why}")
