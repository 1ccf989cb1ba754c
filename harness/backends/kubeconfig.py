"""Runs scenarios on any cluster with a kubeconfig. Servers and clients are agnhost pods, pinned to nodes. The backend
uses only the API, even to make clients send probes, and installs nothing on nodes.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from harness.api import requests
from harness.api.client import Api, Object
from harness.api.connection import find
from harness.api.name_translation import TranslatingApi
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.agnhost_output import address_seen
from harness.backends.any_cluster.barrier import Barrier, ProbeSender, StableSlices, ZoneCanary
from harness.backends.any_cluster.clients import ClientPods
from harness.backends.any_cluster.dialing import Bypass, Dialer, SteadyProbes
from harness.backends.any_cluster.node_evidence import missing, proxy_logs
from harness.backends.any_cluster.pod_runner import TROUBLED_SECONDS, PodRunner
from harness.backends.any_cluster.pods import ClientPod
from harness.backends.any_cluster.target import ClusterTarget, described
from harness.backends.backend import TERMINATION_SECONDS, SteadyTraffic, WantedPod
from harness.backends.explanation import explained
from harness.backends.protocols import METRICS_PORT, NodeControl, PodLifecycle, Probing, ProxyMetrics
from harness.errors import DistrustError, InconclusiveError
from harness.guest import liveness
from harness.guest.labels import run_labels
from harness.guest.nodes import NodeChange, change_node, restore_node
from harness.model.abilities import Ability
from harness.model.manifests import TARGET_PORT, internal_addresses, zone_of
from harness.model.outcomes import Observation, Unknown
from harness.model.release import Release
from harness.model.topology import ZONE_LABEL
from harness.model.workloads import Client, Pod, node_client
from harness.netns.addresses import by_family
from harness.probes.loop import Probe, SocketSource
from harness.tracing.path import TracedProbe

API_TIMEOUT = 15.0  # seconds per request, so that a wait for a lost cluster ends within 30 s


class KubeconfigBackend(PodLifecycle, Probing, NodeControl, ProxyMetrics):
    """One pytest worker's part of a cluster whose components are not replaced and whose nodes are not stopped."""

    _kubelet_patience = TROUBLED_SECONDS
    _server_pod = staticmethod(pods.server)
    _client_port = TARGET_PORT
    _root = "`kubectl debug node/{node} -it --profile=sysadmin`, which needs permission for privileged pods"

    def __init__(
        self, target: ClusterTarget, plain_api: Api, *, worker: str = "main", release: Release | None = None
    ) -> None:
        """`plain_api` uses the cluster's own names for nodes and zones. `close` also closes `plain_api`."""
        self._target = target
        self._plain_api = plain_api
        self.name = target.backend
        self.topology = target.topology
        self.release = release or Release()
        self.abilities = target.abilities
        self._lacks_node = False
        self._without_proxy: set[str] = set()  # subclasses that change the cluster set this and the next two
        self._off: dict[str, list[tuple[str, str]]] = {}  # stopped nodes, and the pods that were ready there
        self._has_replaced = False
        self._moved: set[str] = set()  # nodes whose zone has changed since the last barrier
        self._labels = run_labels(target.run_id)
        self._prefix = f"td-{target.run_id}-{worker}"
        self._worker = int(worker.removeprefix("gw")) + 1 if worker.startswith("gw") else 0
        self._begun = contextlib.ExitStack()
        self._begun.callback(plain_api.close)
        self.families: Sequence[str] = ()
        self._zone_canary: ZoneCanary | None = None  # None before `start`
        self._asked = plain_api.asked  # the recorded requests of both API clients

    def start(self) -> Self:
        """Run the client pods, and wait for the barrier. Raises `UnavailableError`."""
        with self._begun.pop_all() as begun:
            loaded = find(self._target.kubeconfig, context=self._target.context)
            self.api: Api = TranslatingApi(
                loaded,
                self._target.names,
                connections=600,
                asked=self._asked,
                services=self._target.services,
                timeout=API_TIMEOUT,
            )
            begun.callback(self.api.close)
            self._slices = StableSlices(self.api)
            self._nodes = {str(each["metadata"]["name"]): each for each in self.api.list("nodes")}
            self._version = self.api.request("GET", "/version").body
            self._pod_runner = PodRunner(
                self.api, self._labels, self._target.registry, self._kubelet_patience, server=self._server_pod
            )
            begun.callback(self._pod_runner.close)
            self._clients = ClientPods(
                self.api,
                self._pod_runner,
                self.topology,
                prefix=self._prefix,
                worker=self._worker,
                node_addresses=self.node_addresses,
                port=self._client_port,
                enter=self._enter_clients,
            )
            asks = self._start_probing(begun)
            begun.callback(self._clients.delete)
            self._clients.make()
            self._barrier = Barrier(self.api, asks, self._clients.namespace, self._labels)
            self._zone_canary = ZoneCanary(self.api, asks, self._clients.namespace, self._labels)
            self._clients.make_barrier_pods()
            self.families = self._barrier.families
            self.settle()
            self._begun = begun.pop_all()
        return self

    def close(self) -> None:
        self._begun.close()

    # Namespaces and pods

    def create_namespace(self, namespace: str) -> None:
        """Raises `InconclusiveError` if a node is missing or not ready."""
        self._require_nodes()
        if Ability.STOP_NODES in self.abilities:  # other workers may have switched nodes off and on
            self._look_up_addresses()
        self._pod_runner.create_namespace(namespace)

    def delete_namespace(self, namespace: str) -> None:
        self._slices.end(namespace)
        self._pod_runner.delete_namespace(namespace)

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        serve = partial(self._begin_to_serve, namespace, wanted)
        made = self._pod_runner.run_servers(namespace, wanted, before_ready=serve)
        return [
            Pod(each.name, namespace, each.node, self.topology.node(each.node).zone, pods.addresses(obj))
            for each, obj in zip(wanted, made, strict=True)
        ]

    def begin_termination(self, namespace: str, name: str) -> None:
        self.api.delete("pods", *self._ending(namespace, name), grace_seconds=TERMINATION_SECONDS)

    def evict_pod(self, namespace: str, name: str) -> None:
        self.api.evict(*self._ending(namespace, name), grace_seconds=TERMINATION_SECONDS)

    def _ending(self, namespace: str, name: str) -> tuple[str, str]:
        """Wait until a pod runs, because only running pods get a grace period. Return the pod's name in the API."""
        self._pod_runner.settle()
        pod = self._begin_to_change(namespace, name)
        self._pod_runner.terminates(*pod)
        return pod

    def delete_pod(self, namespace: str, name: str) -> None:
        self._pod_runner.delete(*self._begin_to_change(namespace, name))

    def create_pod(self, namespace: str, wanted: WantedPod) -> None:
        """Create a pod with running containers, because a real kubelet must report the pod's status."""
        self._slices.begin(namespace)
        self._pod_runner.create(namespace, wanted)
        self._await_late_kubelets()

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        self._pod_runner.open_gate(*self._begin_to_change(namespace, name), ready)
        self._await_late_kubelets()

    # Clients and probes

    def source_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:
        place = self._clients.pod_of(client)
        return self._clients.in_turn(place) if fresh else place

    def client_address(self, client: Client | Pod, family: str) -> str:
        return self._clients.address_of(client, family)

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:  # noqa: ARG002  agnhost's own
        """Send probes. If an outcome is unknown, and a node is missing or not ready, raise `InconclusiveError`."""
        try:
            seen = self._dialer.probe(probes)
        except InconclusiveError:
            self._require_nodes()
            raise
        if any(isinstance(each, Unknown) for each in seen):
            self._require_nodes()
        return seen

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        return self._dialer.glance(probes)

    def addresses_seen(self, probes: Sequence[Probe]) -> list[Observation]:
        return self._dialer.probe(probes, read=address_seen)

    def record(self, interval: float, probes: Sequence[Probe]) -> SteadyTraffic:
        """Send probes in the background. Each client sends a probe every `interval` seconds or less often. UDP probes
        come from other pods on the same nodes, because their flows would affect later probes of the client's pod.
        """
        by_whom = [self._by_another(each) if each.protocol == "UDP" else each for each in probes]
        return SteadyProbes(self._dialer, interval, by_whom)

    def _by_another(self, probe: Probe) -> Probe:
        assert isinstance(probe.namespace, ClientPod)
        return replace(probe, namespace=self._clients.for_many_flows(probe.namespace))

    def proxy_metrics(self, node: str) -> str:
        """Use a host-network pod to fetch the proxy's metrics from the node's loopback interface."""
        return self._dialer.get(self._clients.pod_of(node_client(node)), "127.0.0.1", METRICS_PORT, "metrics")

    # Addresses

    def free_addresses(self) -> dict[str, str]:
        both = {"IPv4": "192.0.2.77", "IPv6": "2001:db8::77"}
        return {family: both[family] for family in self.families}

    def node_addresses(self, node: str) -> dict[str, str]:
        return by_family(internal_addresses(self._nodes[node]))

    # Nodes

    def change_node(self, name: str, change: NodeChange) -> None:
        """Change a node. An annotation stores its former state, for `restore_node` and `trafficdist cleanup`."""
        if self._zone_canary and ZONE_LABEL in change.labels and name not in self._silent:
            self._zone_canary.before_the_change(*self._canary(name))
            self._moved.add(name)
        names = self._target.names
        change = replace(change, labels=names.outgoing(dict(change.labels)))
        change_node(self._plain_api, names.nodes[name], self._target.run_id, change)

    def restore_node(self, name: str, before: Object) -> None:  # noqa: ARG002  an annotation of the node has it
        zone = self._zone_of(name)
        restore_node(self._plain_api, self._target.names.nodes[name])
        self._moved |= {name} if self._zone_of(name) != zone else set()

    def _canary(self, node: str) -> tuple[ClientPod, str | None, list[str], list[tuple[str, Mapping[str, str]]]]:
        """Return arguments for `ZoneCanary`: the node's client, the zone in its label, all zones, and endpoints."""
        (client,) = self._clients.on([node])
        zones = sorted({each.zone for each in self.topology.nodes})
        return client, self._zone_of(node), zones, self._clients.barrier_endpoints(without=self._off)

    def _zone_of(self, node: str) -> str | None:
        return zone_of(self.api.get("nodes", "", node)) or None

    def await_pods(self) -> None:
        self._pod_runner.settle()

    def settle(self) -> float:
        """Wait until pods have the requested state, running proxies have passed the barrier, and slices are stable."""
        if self._lacks_node:  # otherwise the barrier would wait for a node that no longer exists
            self._require_nodes()
        self._pod_runner.settle()
        asking = self._clients.on([node.name for node in self.topology.nodes if node.name not in self._silent])
        endpoints = self._clients.barrier_endpoints(without=self._off)
        self._barrier.pass_(asking, endpoints, when_unable=self._require_nodes)
        if self._zone_canary:
            for name in sorted(self._moved - self._silent):
                self._zone_canary.wait(*self._canary(name))
        self._moved.clear()
        self._slices.wait()
        return 0.0  # unknown, because the barrier itself takes most of the time

    def _await_late_kubelets(self) -> None:
        """If a component was replaced, wait for pods now, because the time limit of a later wait would be too short."""
        if self._has_replaced:
            self._pod_runner.settle()

    @property
    def _silent(self) -> set[str]:
        return self._without_proxy | self._off.keys()

    @property
    def _nodes_on(self) -> dict[str, str]:
        return {ours: theirs for ours, theirs in self._target.names.nodes.items() if ours not in self._off}

    def _require_nodes(self) -> None:
        why = liveness.not_ready(self.api, self._nodes_on)
        self._lacks_node = bool(why)
        if why:
            raise InconclusiveError(why)

    def check_instruments(self) -> None:
        """Raise `DistrustError` if a node is lost, and `InconclusiveError` if a terminating pod ended early."""
        if why := liveness.doubt(self.api, self._nodes_on):
            raise DistrustError(why)
        self._pod_runner.require_terminating()

    # Facts for the report

    def environment(self) -> dict[str, Any]:
        names = self._target.names.nodes
        return {
            "backend": self.name,
            "probes": self._target.probes,
            "servers": {"apiserver": str(self._version.get("gitVersion", "?"))},
            "nodes": [
                described(node, self._nodes[node.name], names.get(node.name, node.name)) for node in self.topology.nodes
            ],
            "ipFamilies": list(self.families),
            **({"services": dict(self._target.services)} if self._target.services else {}),
            **self._target.facts,
        }

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:  # noqa: ARG002  the table has all
        """Return the routing that a Service's objects require, because the proxies do not report their decisions."""
        return f"decisions that its objects require:\n{explained(self.api, namespace, service, self.release)}"

    def decisions(self) -> dict[str, str]:
        return {}

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        names = self._target.names
        nodes = [each.name for each in self.topology.nodes]
        logs = {place.name: proxy_logs(self.api, nodes, place) for place in self._target.proxies}
        return {
            **{f"{name}-{on}.log": log.text for name, found in logs.items() for on, log in found.items() if log.text},
            "nodes.txt": "".join(f"{ours} is {theirs}\n" for ours, theirs in names.nodes.items()),
            "api-requests.txt": requests.as_text(self._asked.copy(), namespace, zero=since),
        }

    def follow(
        self,
        probe: Probe,
        node: str,
        is_same: Callable[[Observation], bool],  # noqa: ARG002  no probe is repeated
        *,
        servers: Sequence[Pod] = (),  # noqa: ARG002
    ) -> TracedProbe:
        """Return the parts of the packet's path that this backend cannot show, each with a command that shows it."""
        theirs = self._target.names.nodes.get(node, node)
        log = proxy_logs(self.api, [node], self._target.proxies[0])[node]
        lacks = missing(probe, theirs, self._root.format(node=theirs), log)
        return TracedProbe(missing=tuple(lacks))

    # Hooks of subclasses

    def _start_probing(self, begun: contextlib.ExitStack) -> ProbeSender:
        twins = self._clients.twins_of
        watch = partial(liveness.begin_watch, self.api, lambda: self._nodes_on)
        self._dialer = Dialer(self.api, watch, bypass=self._bypass(), neighbours=twins)
        begun.callback(self._dialer.close)
        return self._dialer

    def _enter_clients(self, made: Sequence[Object]) -> None:
        """Open the network namespaces of running client pods. The base class does nothing."""

    def _begin_to_serve(self, namespace: str, wanted: Sequence[WantedPod], made: Sequence[Object]) -> None:
        """Start servers for pods that were just created. The base class does nothing: each pod runs its own server."""

    def _begin_to_change(self, namespace: str, name: str) -> tuple[str, str]:
        """Return the namespace and name of a scenario's pod in the API. The base class returns its arguments."""
        return namespace, name

    def _look_up_addresses(self) -> None:
        self._clients.look_up_addresses()

    def _bypass(self) -> Bypass | None:
        """Return a function that reaches client pods while the API server does not answer, or None if there is none."""
        return None
