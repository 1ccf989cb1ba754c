"""The pods of a pytest worker: a client on each node, host-network clients on demand, and endpoints of the barrier."""

import contextlib
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from harness.api.client import Api, Object
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.pod_runner import PodRunner
from harness.backends.any_cluster.pods import ClientPod
from harness.errors import InconclusiveError, UnavailableError
from harness.model.manifests import TARGET_PORT
from harness.model.topology import Topology
from harness.model.workloads import Client, Pod, node_client, pod_client

_NODE_CLIENT_PORTS = 20_480  # the first port of host-network clients; each worker uses two ports
_TWINS = 3  # additional client pods on each node (twins), which send flows in turn with the client's own pod
_BARRIER_PODS = 3  # two alternate, and the third is used if one is on a stopped node


class ClientPods:
    def __init__(
        self,
        api: Api,
        runner: PodRunner,
        topology: Topology,
        *,
        prefix: str,
        worker: int,
        node_addresses: Callable[[str], dict[str, str]],
        port: int = TARGET_PORT,
        enter: Callable[[Sequence[Object]], None] = lambda _: None,
    ) -> None:
        """`worker` is the number of the pytest worker. `enter` is called with new pods when they are running."""
        self._port, self._enter, self._api, self._runner = port, enter, api, runner
        self._nodes = [node.name for node in topology.nodes]
        self.namespace = f"{prefix}-clients"
        self._on_nodes = f"{prefix}-node-clients"
        self._node_client_port = _NODE_CLIENT_PORTS + 2 * worker
        self._node_addresses = node_addresses
        self._places: dict[Client, ClientPod] = {}
        self._twins: dict[ClientPod, list[ClientPod]] = {}  # the twins of a client pod; each twin is also a key
        self._turns: dict[str, Iterator[ClientPod]] = {}  # by node
        self._addresses: dict[ClientPod, Mapping[str, str]] = {}
        self._nodes_of: dict[ClientPod, str] = {}
        self._of_barrier: list[ClientPod] = []

    def make(self) -> None:
        self._make([pod_client(node) for node in self._nodes])

    def make_barrier_pods(self) -> None:
        """Run the barrier's endpoint pods. They are not client pods, because hairpin traffic is a special case."""
        wanted = {f"barrier-{number}": node for number, node in enumerate(self._nodes[:_BARRIER_PODS], 1)}
        self._of_barrier = self._run(self.namespace, wanted, self._port, on_host=False)

    def delete(self) -> None:
        """Begin deleting all pods. If the API server is unavailable, they are deleted at the end of the run."""
        with contextlib.suppress(InconclusiveError):
            for namespace in {each.namespace for each in self._places.values()} | {self.namespace}:
                self._runner.delete_namespace(namespace)

    def pod_of(self, client: Client | Pod) -> ClientPod:
        """Return the pod of a client. Host-network clients are created on first use."""
        if isinstance(client, Pod):
            return ClientPod(client.namespace, client.name, TARGET_PORT)
        inside = self._inside(client)
        if inside not in self._places:
            self._make([Client(inside.kind, node) for node in self._nodes])
        return self._places[inside]

    def address_of(self, client: Client | Pod, family: str) -> str:
        known = client.addresses if isinstance(client, Pod) else self._addresses[self.pod_of(client)]
        if family not in known:
            raise UnavailableError(f"client {client} has no {family} address")
        return known[family]

    def in_turn(self, pod: ClientPod) -> ClientPod:
        """Return a client's pod and its twins (other pods on the node) in turn. Host-network clients have no twins."""
        return next(self._turns[self._nodes_of[pod]]) if self.twins_of(pod) else pod

    def for_many_flows(self, pod: ClientPod) -> ClientPod:
        """Return the client's twin that `in_turn` never returns. For a host-network client, return its own pod."""
        return self.twins_of(pod)[-1] if self.twins_of(pod) else pod

    def twins_of(self, pod: ClientPod) -> list[ClientPod]:
        if not self._twins and pod in self._places.values() and not pod.on_host:
            self._make_twins()
        return self._twins.get(pod, [])

    def _make_twins(self) -> None:
        wanted = {f"twin-{number}-{node}": node for number in range(_TWINS) for node in self._nodes}
        made = self._run(self.namespace, wanted, self._port, on_host=False)
        for node in self._nodes:
            client = self._places[pod_client(node)]
            twins = [each for each in made if self._nodes_of[each] == node]
            self._twins |= dict.fromkeys([client, *twins], twins)
            self._turns[node] = itertools.cycle([client, *twins[:-1]])

    def url_of(self, pod: ClientPod) -> tuple[str, str]:
        """Return the node of a client's pod, and the URL of the pod's server as seen from that node."""
        address = next(iter(self._addresses[pod].values()))
        host = f"[{address}]" if ":" in address else address
        return self._nodes_of[pod], f"http://{host}:{pod.port}"

    def on(self, nodes: Sequence[str]) -> list[ClientPod]:
        return [self._places[pod_client(node)] for node in nodes]

    def barrier_endpoints(self, *, without: Container[str]) -> list[tuple[str, Mapping[str, str]]]:
        """Return the hostname and addresses (by family) of each barrier pod that is not on a node in `without`."""
        living = (pod for pod in self._of_barrier if self._nodes_of[pod] not in without)
        return [(pod.name, self._addresses[pod]) for pod in living]

    def look_up_addresses(self) -> None:
        """Read the addresses of pods again, because they change when a node is switched off and on."""
        listed = {str(each["metadata"]["name"]): each for each in self._api.list("pods", self.namespace)}
        found = {name: pods.addresses(each) for name, each in listed.items() if pods.addresses(each)}
        for pod, known in self._addresses.items():
            if not pod.on_host:
                self._addresses[pod] = found.get(pod.name, known)

    def _make(self, clients: Sequence[Client]) -> None:
        on_host = clients[0].kind == "node"
        namespace = self._on_nodes if on_host else self.namespace
        port = self._node_client_port if on_host else self._port
        self._runner.create_namespace(namespace, privileged=on_host)
        wanted = {f"client-{client.node}": client.node for client in clients}
        self._places |= dict(zip(clients, self._run(namespace, wanted, port, on_host=on_host), strict=True))

    def _run(self, namespace: str, wanted: Mapping[str, str], port: int, *, on_host: bool) -> list[ClientPod]:
        made = self._runner.run_clients(namespace, wanted, port=port, host_network=on_host)
        self._enter(made)
        found = [ClientPod(namespace, name, port, on_host) for name in wanted]
        for pod, node, obj in zip(found, wanted.values(), made, strict=True):
            self._nodes_of[pod] = node
            self._addresses[pod] = self._node_addresses(node) if on_host else pods.addresses(obj)
        return found

    def _inside(self, client: Client) -> Client:
        """Return the client that sends the probes. For an external client, it is a node client on another node."""
        if client.kind != "external":
            return client
        return node_client(next(node for node in self._nodes if node != client.node))
