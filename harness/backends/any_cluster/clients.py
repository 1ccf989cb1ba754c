"""The pods of a worker that ask: one on each node, one on the network of each node when somebody wants it, and the
endpoints of the barrier.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from harness.api.client import Api
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.pod_runner import PodRunner
from harness.backends.any_cluster.pods import ClientPod
from harness.errors import InconclusiveError, UnavailableError
from harness.model.manifests import TARGET_PORT
from harness.model.topology import Topology
from harness.model.workloads import Client, Pod, node_client, pod_client

_NODE_CLIENT_PORTS = 20_480  # the first of two for each worker, on the network of the nodes
_TWINS = 3  # of each client in a pod
_BARRIER_PODS = 3  # two of them take turns, and one may be on a node that is off


class Clients:
    """The client pods of one worker, in namespaces that begin with its prefix."""

    def __init__(
        self,
        api: Api,
        runner: PodRunner,
        topology: Topology,
        *,
        prefix: str,
        worker: int,
        node_addresses: Callable[[str], dict[str, str]],
    ) -> None:
        """`worker` is its number, for ports on the network of nodes; `node_addresses` gives those of a node."""
        self._api = api
        self._runner = runner
        self._nodes = [node.name for node in topology.nodes]
        self.namespace = f"{prefix}-clients"
        self._on_nodes = f"{prefix}-node-clients"
        self._node_client_port = _NODE_CLIENT_PORTS + 2 * worker
        self._node_addresses = node_addresses
        self._places: dict[Client, ClientPod] = {}
        self._twins: dict[ClientPod, list[ClientPod]] = {}  # of each client, and of each twin
        self._turns: dict[str, Iterator[ClientPod]] = {}  # by node
        self._addresses: dict[ClientPod, Mapping[str, str]] = {}
        self._nodes_of: dict[ClientPod, str] = {}
        self._of_barrier: list[ClientPod] = []

    def make(self) -> None:
        """Run a client in a pod on each node. Raises `InconclusiveError`."""
        self._make([pod_client(node) for node in self._nodes])

    def make_barrier_pods(self) -> None:
        """Run the endpoints of the barrier: no clients, since a pod that reaches itself is a case apart."""
        wanted = {f"barrier-{number}": node for number, node in enumerate(self._nodes[:_BARRIER_PODS], 1)}
        self._of_barrier = self._run(self.namespace, wanted, TARGET_PORT, on_host=False)

    def delete(self) -> None:
        """Begin to; where the API server is away, after an interrupt say, the end of the run sees to what is left."""
        with contextlib.suppress(InconclusiveError):
            for namespace in {each.namespace for each in self._places.values()} | {self.namespace}:
                self._runner.delete_namespace(namespace)

    def place_of(self, client: Client | Pod) -> ClientPod:
        """The pod that asks; those on the networks of nodes are made when the first of them is wanted."""
        if isinstance(client, Pod):
            return ClientPod(client.namespace, client.name, TARGET_PORT)
        inside = self._inside(client)
        if inside not in self._places:
            self._make([Client(inside.kind, node) for node in self._nodes])
        return self._places[inside]

    def address_of(self, client: Client | Pod, family: str) -> str:
        """The client's own address. Raises `UnavailableError` where it has none of this family."""
        known = client.addresses if isinstance(client, Pod) else self._addresses[self.place_of(client)]
        if family not in known:
            raise UnavailableError(f"client {client} has no {family} address")
        return known[family]

    def in_turn(self, pod: ClientPod) -> ClientPod:
        """This pod or a twin on the same node, each in turn: flows of before are those of others then.

        Clients of which there is one on a node have no twins.
        """
        return next(self._turns[self._nodes_of[pod]]) if self._twins_of(pod) else pod

    def for_many_flows(self, pod: ClientPod) -> ClientPod:
        """The twin on the same node that has no turns."""
        return self._twins_of(pod)[-1] if self._twins_of(pod) else pod

    def _twins_of(self, pod: ClientPod) -> list[ClientPod]:
        """They are made when the first of them is wanted."""
        if not self._twins and pod in self._places.values() and not pod.on_host:
            self._make_twins()
        return self._twins.get(pod, [])

    def _make_twins(self) -> None:
        wanted = {f"twin-{number}-{node}": node for number in range(_TWINS) for node in self._nodes}
        made = self._run(self.namespace, wanted, TARGET_PORT, on_host=False)
        for node in self._nodes:
            client = self._places[pod_client(node)]
            twins = [each for each in made if self._nodes_of[each] == node]
            self._twins |= dict.fromkeys([client, *twins], twins)
            self._turns[node] = itertools.cycle([client, *twins[:-1]])

    def url_of(self, pod: ClientPod) -> tuple[str, str]:
        """The node of a client's pod, and where its server is reached from there."""
        address = next(iter(self._addresses[pod].values()))
        host = f"[{address}]" if ":" in address else address
        return self._nodes_of[pod], f"http://{host}:{pod.port}"

    def on(self, nodes: Sequence[str]) -> list[ClientPod]:
        """The clients in pods on these nodes."""
        return [self._places[pod_client(node)] for node in nodes]

    def barrier_endpoints(self, *, without: Container[str]) -> list[tuple[str, Mapping[str, str]]]:
        """Hostname, and addresses by family, of the pods of the barrier; not those on some nodes."""
        living = (pod for pod in self._of_barrier if self._nodes_of[pod] not in without)
        return [(pod.name, self._addresses[pod]) for pod in living]

    def look_up_addresses(self) -> None:
        """Find the addresses of pods anew: those of a node that was switched off and on have others."""
        listed = {str(each["metadata"]["name"]): each for each in self._api.list("pods", self.namespace)}
        found = {name: pods.addresses(each) for name, each in listed.items() if pods.addresses(each)}
        for pod, known in self._addresses.items():
            if not pod.on_host:
                self._addresses[pod] = found.get(pod.name, known)

    def _make(self, clients: Sequence[Client]) -> None:
        """Run a client pod of this kind on each node."""
        on_host = clients[0].kind == "node"
        namespace = self._on_nodes if on_host else self.namespace
        port = self._node_client_port if on_host else TARGET_PORT
        self._runner.create_namespace(namespace, privileged=on_host)
        wanted = {f"client-{client.node}": client.node for client in clients}
        self._places |= dict(zip(clients, self._run(namespace, wanted, port, on_host=on_host), strict=True))

    def _run(self, namespace: str, wanted: Mapping[str, str], port: int, *, on_host: bool) -> list[ClientPod]:
        """Run a pod of each name on its node."""
        made = self._runner.run_clients(namespace, wanted, port=port, host_network=on_host)
        found = [ClientPod(namespace, name, port, on_host) for name in wanted]
        for pod, node, obj in zip(found, wanted.values(), made, strict=True):
            self._nodes_of[pod] = node
            self._addresses[pod] = self._node_addresses(node) if on_host else pods.addresses(obj)
        return found

    def _inside(self, client: Client) -> Client:
        """Outside is, for a node, the network of another one: packets come from there as they do from outside."""
        if client.kind != "external":
            return client
        return node_client(next(node for node in self._nodes if node != client.node))
