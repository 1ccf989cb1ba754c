"""One pytest worker's part of a cluster whose nodes are containers on this machine. Sockets in the netns of clients and
pods send the probes, as on the embedded cluster. agnhost only keeps the pods running.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from harness.api.client import Object
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.agnhost_output import Reader
from harness.backends.any_cluster.barrier import ProbeSender, word
from harness.backends.any_cluster.node_evidence import proxy_logs
from harness.backends.any_cluster.pods import ClientPod
from harness.backends.any_cluster.target import ClusterTarget
from harness.backends.backend import WantedPod
from harness.backends.containers.netns_lookup import NetnsLookup, plans
from harness.backends.containers.pod_netns import OpenNetns, PodPool, Serve, fits_pool
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.netns_control_targets import NetnsControlTargets
from harness.backends.netns_pods import serve
from harness.backends.netns_probing import NetnsProbing, kernel_evidence
from harness.backends.protocols import VIRTUAL_ADDRESSES, ClientNetns, VirtualAddresses
from harness.errors import UnavailableError
from harness.model.manifests import TARGET_PORT
from harness.model.outcomes import Observation, Reached, Unknown
from harness.model.workloads import Client, Pod
from harness.netns import sandbox
from harness.netns.fabric import NetworkPeer
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe, ProbeLoop, Server, ServerPort
from harness.tracing.path import TracedProbe

STEP = 61
"""The step between the address numbers of two successive scenarios. No address is reused for 24 scenarios."""


class ContainersBackend(NetnsProbing, KubeconfigBackend, ClientNetns, VirtualAddresses):
    _server_pod = staticmethod(pods.vacant)
    _client_port = pods.VACANT_PORT

    def __init__(self, target: ClusterTarget, *others: Any, places: NetnsLookup, **named: Any) -> None:
        """`places` finds the netns of nodes and pods. The base class documents the other arguments."""
        super().__init__(target, *others, **named)
        self._places = places
        self._scenarios = 0

    def start(self) -> Self:
        super().start()
        barrier = self._clients.barrier_endpoints(without=())
        straight = [
            Probe(self._entered.external.namespace, "UDP", address, TARGET_PORT)
            for _, addresses in barrier
            for address in addresses.values()
        ]
        if any(not isinstance(each, Reached) for each in self._loop.probe(straight)):
            self._control_targets.leave_out_external()  # a network plugin may block external traffic to pods
        return self

    def _start_probing(self, begun: contextlib.ExitStack) -> ProbeSender:
        sandbox.raise_descriptor_limit()
        nodes = {node.name: list(self.node_addresses(node.name).values()) for node in self.topology.nodes}
        self._plans = plans(list(nodes), self._worker)
        pod_cidrs = {name: (self._nodes[name].get("spec") or {}).get("podCIDRs") or () for name in nodes}
        behind = {name: [*pod_cidrs[name], *plan.virtual_cidrs] for name, plan in self._plans.items()}
        self._entered = OpenNetns(self._places, nodes, behind)
        begun.callback(self._entered.close)
        entered = self._entered
        self._pod_pool = PodPool(self._pod_runner, entered, f"{self._prefix}-kept")
        begun.callback(self._pod_pool.close)
        self._control_targets = NetnsControlTargets(
            entered.nodes, entered.external, entered.running, entered.clients, self._off.keys()
        )
        begun.callback(self._control_targets.close)
        self._loop = ProbeLoop(self._control_targets)
        self._loop.start()
        begun.callback(self._loop.close)
        return _NetnsProbeSender(self._loop, entered)

    def _enter_clients(self, made: Sequence[Object]) -> None:
        for obj in made:
            name = str(obj["metadata"]["name"])
            ports = [ServerPort(way, family, TARGET_PORT) for way in ("TCP", "UDP") for family in pods.addresses(obj)]
            serve = partial(self._serve_as, name, ports)
            self._entered.enter([obj], [serve], are_clients=name.startswith("client-"))

    def _serve_as(self, name: str, ports: Sequence[ServerPort], place: Namespace) -> list[Server]:
        return [self._loop.serve(place, name, ports)]

    # Pods

    def _begin_to_serve(self, namespace: str, wanted: Sequence[WantedPod], made: Sequence[Object]) -> None:
        self._entered.enter(made, self._servers_of(namespace, wanted))

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        """Run these pods, each with an echo server. Use pooled pods where possible (`fits_pool`)."""
        kept = [each for each in wanted if fits_pool(each)]
        others = [each for each in wanted if not fits_pool(each)]
        made = {each.name: each for each in (super().run_pods(namespace, others) if others else ())}
        for pod in made.values():
            self._entered.set_addresses((namespace, pod.name), pod.addresses.values())
        hosts = self._pod_pool.lend(namespace, kept, self._servers_of(namespace, kept))
        for each, host in zip(kept, hosts, strict=True):
            addresses = {str(family): address for family, address in host.addresses.items()}
            made[each.name] = Pod(each.name, namespace, each.node, self.topology.node(each.node).zone, addresses)
        return [made[each.name] for each in wanted]

    def _servers_of(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Serve]:
        return [partial(serve, self._loop, namespace, each, families=self.families) for each in wanted]

    def _begin_to_change(self, namespace: str, name: str) -> tuple[str, str]:
        return self._pod_pool.begin_to_change(namespace, name)

    def delete_pod(self, namespace: str, name: str) -> None:
        super().delete_pod(namespace, name)
        self._entered.leave(lambda key: key == (namespace, name))

    def create_namespace(self, namespace: str) -> None:
        self._scenarios += 1
        super().create_namespace(namespace)

    def delete_namespace(self, namespace: str) -> None:
        self._pod_pool.take_back(namespace)
        super().delete_namespace(namespace)
        self._entered.leave(lambda key: key[0] == namespace)

    def _look_up_addresses(self) -> None:
        super()._look_up_addresses()
        mine = ",".join(f"{key}={value}" for key, value in self._labels.items())
        self._entered.renew(self.api.list("pods", label_selector=mine))

    # Clients and probes

    def host_of(self, client: Client | Pod) -> NetworkPeer:
        if isinstance(client, Pod):
            return self._entered.host((client.namespace, client.name))
        if client.kind == "external":
            return self._entered.external
        return (self._entered.nodes if client.kind == "node" else self._entered.clients)[client.node]

    def client_address(self, client: Client | Pod, family: str) -> str:
        found = {str(of): address for of, address in self.host_of(client).addresses.items()}
        if family not in found:
            raise UnavailableError(f"client {client} has no {family} address")
        return found[family]

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        seen = self._loop.probe(probes, in_flight=in_flight)
        if any(isinstance(each, Unknown) for each in seen):
            self._require_nodes()
        return seen

    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:
        """Return addresses routed to `node`. They differ between scenarios, because proxies may remove rules late."""
        chosen = self._plans[node].virtual(kind, (number + self._scenarios * STEP) % VIRTUAL_ADDRESSES + 1)
        return {str(family): each for family, each in chosen.items() if family in self.families}

    # Evidence

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        return super().evidence(namespace, since=since) | kernel_evidence(self._entered.nodes)

    def follow(
        self, probe: Probe, node: str, is_same: Callable[[Observation], bool], *, servers: Sequence[Pod] = ()
    ) -> TracedProbe:
        found = super().follow(probe, node, is_same, servers=servers)
        lacks = proxy_logs(self.api, [node], self._target.proxies[0])[node].missing
        return replace(found, missing=(*found.missing, *([f"the log of its proxy: {lacks}"] if lacks else [])))


class _NetnsProbeSender:
    def __init__(self, loop: ProbeLoop, entered: OpenNetns) -> None:
        self._loop = loop
        self._entered = entered

    def probe(self, probes: Sequence[Probe], read: Reader = word) -> list[Observation]:  # noqa: ARG002  of agnhost alone
        """Send probes, and return their outcomes in order, without the client addresses that servers saw."""
        asked = []
        for each in probes:
            assert isinstance(each.namespace, ClientPod)
            client = each.namespace.namespace, each.namespace.name
            asked.append(replace(each, namespace=self._entered.host(client).namespace))
        return [Reached(each.pod) if isinstance(each, Reached) else each for each in self._loop.probe(asked)]
