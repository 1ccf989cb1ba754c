"""Any cluster that a kubeconfig leads to: the same scenarios, with pods and packets of that cluster.

Servers and clients are pods of the standard test image, pinned to nodes; a server says its pod's name. Everything goes
through the API, probes included: no command is started, nothing is installed, no port of a node is opened.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn

from harness.api import requests
from harness.api.client import Api, Object, RefusedError, Response, new_record
from harness.api.kubeconfig import find
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.barrier import Barrier
from harness.backends.any_cluster.client_pod import ClientPod
from harness.backends.any_cluster.clients import Clients
from harness.backends.any_cluster.dialing import Dialer, address_seen
from harness.backends.any_cluster.names import TranslatingApi
from harness.backends.any_cluster.places import described
from harness.backends.any_cluster.pod_runner import PodRunner
from harness.backends.any_cluster.steady import Steady
from harness.backends.any_cluster.target import Target
from harness.backends.backend import TERMINATION_SECONDS, WantedPod
from harness.backends.components import Components, Untouchable
from harness.backends.node_lifecycle import ready_pods_on
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.eventually import eventually
from harness.guest import liveness
from harness.guest.labels import run_labels
from harness.guest.nodes import change_node, restore_node
from harness.model.abilities import Ability
from harness.model.outcomes import Observation, Unknown
from harness.model.release import Component, Release
from harness.model.workloads import Client, Pod, node_client
from harness.netns.addresses import by_family
from harness.netns.http import HttpAnswer
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe

SETTLED = 10.0  # seconds, before the time scale, in which proxies work on what was written
RESTARTED = 120.0  # the same after a component was replaced: clients ask an API server that was away ever less often
NOTICED = 180.0  # until a node that is off counts as lost: 40 to 50 s, and what a busy control plane takes
BOOTED = 300.0  # until one that is on again is ready
METRICS_PORT = 10249


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
        self._off: dict[str, list[tuple[str, str]]] = {}  # nodes, and the pods on them that were ready
        self._without_controller = False
        self._has_replaced = False
        self._labels = run_labels(target.run_id)
        self._prefix = f"td-{target.run_id}-{worker}"
        self._worker = int(worker.removeprefix("gw")) + 1 if worker.startswith("gw") else 0
        self._begun = contextlib.ExitStack()
        self.families: Sequence[str] = ()
        self._asked = new_record()  # what a scenario asks for, by whatever names of nodes

    def start(self) -> KubeconfigBackend:
        """Make the client pods, and see the canary go round. Raises `UnavailableError` with the remedy."""
        with contextlib.ExitStack() as begun:
            loaded = find(self._target.kubeconfig, context=self._target.context)
            self.api: Api = TranslatingApi(loaded, self._target.names, connections=600, asked=self._asked)
            begun.callback(self.api.close)
            self._guests = PodRunner(self.api, self._labels, self._target.registry)
            begun.callback(self._guests.close)
            self._guests.kubelets_may_be_late = self.name == "kind"  # all of them on this machine, beside this run
            self._dialer = Dialer(self.api, self._vigil)
            begun.callback(self._dialer.close)
            self._clients = self._new_clients()
            begun.callback(self._clients.delete)
            self._clients.make()
            self._barrier = Barrier(self.api, self._dialer, self._clients.namespace, self._labels)
            self._barrier.create()
            self._clients.make_canaries()
            self.families = self._barrier.families
            self._nodes = {str(each["metadata"]["name"]): each for each in self.api.list("nodes")}
            self._version = self.api.request("GET", "/version").body
            self.settle()
            self._begun = begun.pop_all()
        return self

    def ask_aside(self, get: Callable[[str, str, float], Response]) -> None:
        """Have client pods asked by `get(node, url, seconds)` whenever the API server does not answer."""

        def ask(pod: ClientPod, path: str, seconds: float) -> Response:
            node, url = self._clients.url_of(pod)
            return get(node, f"{url}/{path}", seconds)

        self._dialer.aside = ask

    def close(self) -> None:
        """Leave components as they were found, and take away all namespaces of this worker. Idempotent."""
        with self._begun:
            self.components.close()

    # Namespaces and pods

    def create_namespace(self, namespace: str) -> None:
        """Make the Kubernetes namespace of a scenario. Raises `InconclusiveError` when a node has gone."""
        self._require_nodes()
        if Ability.STOP_NODES in self.abilities:  # other workers may have switched nodes off and on
            self._clients.look_up_addresses()
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

    def evict_pod(self, namespace: str, name: str) -> None:
        """The same, as a drain of its node does it."""
        self._guests.settle()
        self.api.evict(namespace, name, grace_seconds=TERMINATION_SECONDS)

    def delete_pod(self, namespace: str, name: str) -> None:
        """End a pod at once, and wait until it is gone."""
        self._guests.delete(namespace, name)

    def create_pod(self, namespace: str, wanted: WantedPod, *, phase: str = "Running") -> None:
        """Have a pod; unlike on the embedded cluster it runs, since a kubelet reports it."""
        if phase != "Running":
            self._lacks(Ability.REPORT_PODS, "pods are what their kubelets report")
        self._guests.create(namespace, wanted)
        self._await_late_kubelets()

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Open or close the pod's readiness gate."""
        self._guests.open_gate(namespace, name, ready)
        self._await_late_kubelets()

    def forget_connections(self) -> None:
        """Nothing: connection tracking belongs to the nodes, and pods of scenarios have addresses of their own."""

    # Clients and probes

    def place_of(self, client: Client | Pod, *, fresh: bool = False) -> ClientPod:
        """The pod that asks."""
        place = self._clients.place_of(client)
        return self._clients.in_turn(place) if fresh else place

    def client_address(self, client: Client | Pod, family: str) -> str:
        """The client's own address. Raises `UnavailableError` where it has none of this family."""
        return self._clients.address_of(client, family)

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
        """Probes in the background, by each client as fast as it can, but not faster than every `interval` seconds.

        Over UDP others ask in the place of the clients: so many flows would be in the way of all that follow.
        """
        by_whom = [self._by_another(each) if each.protocol == "UDP" else each for each in probes]
        return Steady(self._dialer, interval, by_whom)

    def _by_another(self, probe: Probe) -> Probe:
        assert isinstance(probe.namespace, ClientPod)
        return replace(probe, namespace=self._clients.for_many_flows(probe.namespace))

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
        """Have one started as this release. Raises `UnavailableError` where nothing may.

        Proxies and kubelets hear of an API server that was away after up to a minute, and are waited for when it
        matters what they know: proxies before something is seen or one is replaced, kubelets when they have a pod.
        """
        self.components.start(component, release, nodes)
        if component is Component.PROXY:
            self._without_proxy.difference_update(nodes)
        elif component is Component.CONTROLLER:
            self._without_controller = False
        if component is not Component.PROXY and not self._without_controller:
            self._barrier.hear_from_controller(self._clients.canaries(without=self._off)[0][0], within=RESTARTED)
        self._barrier.expect_news()
        self._has_replaced = self._guests.kubelets_may_be_late = True
        if component is Component.PROXY:
            self.settle()

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        """Have one stopped. Raises `UnavailableError` where nothing may."""
        self.components.stop(component, nodes)
        if component is Component.PROXY:
            self._without_proxy.update(nodes)
        elif component is Component.CONTROLLER:
            self._without_controller = True

    def change_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        taints: Sequence[Object] | None = None,
        unschedulable: bool | None = None,
    ) -> None:
        """Change a node, and leave word on it how it was: `trafficdist cleanup` finds that too."""
        names = self._target.names
        outgoing = names.outgoing(dict(labels or {}))
        run_id = self._target.run_id
        change_node(
            self.plain_api, names.nodes[name], run_id, labels=outgoing, taints=taints, unschedulable=unschedulable
        )

    def restore_node(self, name: str, before: Object) -> None:  # noqa: ARG002  the node itself tells it
        """Give a node back what it had."""
        restore_node(self.plain_api, self._target.names.nodes[name])

    def stop_node(self, name: str) -> None:
        """Have a node switched off. Raises `UnavailableError` where nothing may, `InconclusiveError`."""
        self._off[name] = self._ready_pods_on(name)
        self.components.stop_node(name)
        eventually(
            lambda: self._is_silent(name),
            within=NOTICED,
            every=0.5,
            describe=f"the control plane to notice that node {name} is off",
            error=InconclusiveError,
        )
        self.settle()

    def start_node(self, name: str) -> None:
        """Have it switched on again; its pods come back under the same names. Raises as `stop_node` does."""
        self.components.start_node(name)
        eventually(
            lambda: not liveness.not_ready(self.api, [name]),
            within=BOOTED,
            every=0.5,
            describe=f"node {name} to be ready again",
            error=InconclusiveError,
        )
        for namespace, pod in self._off[name]:
            self._guests.wait(namespace, {pod: True}, all_exist=False)
        del self._off[name]
        self._clients.look_up_addresses()
        self._barrier.expect_news()
        self.settle()

    def _is_silent(self, node: str) -> bool:
        """Whether the control plane counts a node as lost, and every pod of the run on it as not ready."""
        return bool(liveness.not_ready(self.api, [node])) and not self._ready_pods_on(node)

    def _ready_pods_on(self, node: str) -> list[tuple[str, str]]:
        """The pods of all workers of this run on a node that are ready."""
        mine = ",".join(f"{key}={value}" for key, value in self._labels.items())
        return ready_pods_on(self.api, node, label_selector=mine)

    @functools.cached_property
    def plain_api(self) -> Api:
        """The API in which nodes and zones have the cluster's own names; closed with this backend."""
        api = Api(find(self._target.kubeconfig, context=self._target.context), asked=self._asked)
        return self._begun.enter_context(contextlib.closing(api))

    def settle(self) -> None:
        """Wait until pods are as they were asked to be, and proxies that run have seen the canary go round."""
        if self._lacks_node:  # the canary would be waited for on a node that is gone
            self._require_nodes()
        self._guests.settle()
        silent = self._without_proxy | self._off.keys()
        asking = self._clients.on([node.name for node in self.topology.nodes if node.name not in silent])
        canaries = self._clients.canaries(without=self._off)
        within = RESTARTED if self._barrier.expects_news else SETTLED
        self._barrier.pass_(asking, canaries, within=within, when_unable=self._require_nodes)

    def _await_late_kubelets(self) -> None:
        """Wait for a pod now, and not while a scenario waits for what follows from it, once an API server was away."""
        if self._has_replaced:
            self._guests.settle()

    @property
    def _nodes_on(self) -> dict[str, str]:
        """The nodes that have not been switched off: the cluster's own names by those of the topology."""
        return {ours: theirs for ours, theirs in self._target.names.nodes.items() if ours not in self._off}

    def _require_nodes(self) -> None:
        why = liveness.not_ready(self.api, self._nodes_on)
        self._lacks_node = bool(why)
        if why:
            raise InconclusiveError(why)

    def _vigil(self) -> Callable[[], None]:
        """To be called while answers are late; raises `InconclusiveError` once a node is to be doubted."""
        vigil = liveness.Watch(self.api, self._nodes_on)

        def look() -> None:
            nonlocal vigil
            why = None
            with contextlib.suppress(InconclusiveError, RefusedError):  # the API server is away: nodes may be well
                why = vigil.look()
            if why:
                raise InconclusiveError(why)
            if why == "":
                vigil = liveness.Watch(self.api, self._nodes_on)

        return look

    def check_instruments(self) -> None:
        """Raise `DistrustError` when a node has gone: what was seen since then says nothing about its proxy."""
        if why := liveness.doubt(self.api, self._nodes_on):
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

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:  # noqa: ARG002  the table has all
        """What nodes are to do with a Service, by its objects: what its proxies decide is theirs to know."""
        from harness.explain.service import explained  # noqa: PLC0415  who has the suite alone, without reference, goes on

        follow: Literal["kep", "released"] = "kep" if self.release.follows == "kep" else "released"
        return f"what its objects ask for:\n{explained(self.api, namespace, service, follow)}"

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        """Which node of the cluster plays which of the topology, and the requests of this run."""
        names = self._target.names
        return {
            "nodes.txt": "".join(f"{ours} is {theirs}\n" for ours, theirs in names.nodes.items()),
            "api-requests.txt": requests.as_text(self._asked.copy(), namespace, zero=since),
        }

    # Inside

    def _new_clients(self) -> Clients:
        return Clients(
            self.api,
            self._guests,
            self.topology,
            prefix=self._prefix,
            worker=self._worker,
            node_addresses=self.node_addresses,
        )

    def _lacks(self, ability: Ability, why: str) -> NoReturn:
        raise UnavailableError(f"{ability}: {why}")
