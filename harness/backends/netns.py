"""The embedded cluster. Nodes and pods are network namespaces of this process, and they exchange real packets. The
harness acts as kubelet and cloud provider: it assigns pod CIDRs to nodes, reports pods as running and ready, and routes
load balancer IPs and external IPs to nodes.
"""

import contextlib
import os
import platform
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from harness import eventually, threads
from harness.api import requests
from harness.api.client import Api, Object, RefusedError
from harness.api.name_translation import NameTranslation, TranslatingApi
from harness.backends.component_sync import ComponentSync, ProxyLiveness
from harness.backends.implementation import Implementation, reference
from harness.backends.netns_control_targets import NetnsControlTargets
from harness.backends.netns_pods import NetnsPods, NodeStatusReporter, by_family
from harness.backends.netns_probing import NetnsProbing, kernel_evidence
from harness.backends.protocols import AllAbilities, DisconnectsComponents
from harness.dns.dns import ClusterDns, WritesPodLocators
from harness.errors import DistrustError, EndedError, HarnessError, InconclusiveError, StartError, UnavailableError
from harness.guest.nodes import NodeChange
from harness.model import manifests
from harness.model.abilities import EVERYTHING, Ability
from harness.model.evidence_text import files_of, gathered
from harness.model.outcomes import Observation
from harness.model.release import DNS_SERVER, LOCATOR_CONTROLLER, Component, Release
from harness.model.topology import THREE_ZONES, Topology
from harness.model.workloads import Client, Pod
from harness.netns import addresses, conntrack, fabric_check, kernel, kernel_state, sandbox
from harness.netns.activity import HUNG_EVERY, LOOKS, HangDetector, IdleDetector
from harness.netns.fabric import Network, NetworkPeer, Wiring
from harness.probes.control_probes import ConcurrentControlProbes
from harness.probes.loop import Probe, ProbeLoop, ServerPort
from harness.probes.probe import SocketSource
from harness.proxies.executable import ExecutableProxy
from harness.proxies.proxy import ReportsUnfinishedWork
from harness.recipes.node_processes import server_of

_NODES = re.compile(r"/api/v1/nodes(/[^/]+)?")
BOOT_SECONDS = 15.0  # seconds before `time_scale` is applied, for controller and proxies to process the first objects
RECONNECTED = 40.0  # like `BOOT_SECONDS`, after an API server was unavailable: client-go may back off for 30 s
IDLE_SECONDS = 5.0
"""A wait for a proxy ends when the proxy has been idle for this many seconds (times the time scale)."""


class NetnsBackend(NetnsPods, NetnsProbing, AllAbilities):
    """An embedded cluster. `start` may be called only once. `close` removes everything that `start` created."""

    name = "netns"
    abilities: frozenset[Ability] = EVERYTHING
    idle_seconds = IDLE_SECONDS

    def __init__(
        self,
        topology: Topology = THREE_ZONES,
        *,
        families: Sequence[str] = addresses.FAMILIES,
        implementation: Implementation | None = None,
        release: Release | None = None,
        names: NameTranslation | None = None,
    ) -> None:
        """`release` is the release of all components at boot. `names` translates node names in API objects."""
        super().__init__(topology, families)
        self.names = names or NameTranslation()
        self.release = release or Release()
        self._implementation = implementation or reference()
        self._off: dict[str, NodeStatusReporter] = {}
        self._begun = contextlib.ExitStack()
        self._witnesses: dict[str, Callable[[], Mapping[str, str]]] = {}  # functions that return logs, by program
        self._dns: tuple[ClusterDns, NetworkPeer] | None = None
        self._components = ComponentSync(
            (Component.CONTROLLER, Component.PROXY, LOCATOR_CONTROLLER, DNS_SERVER),
            self._is_synced,
            self._lacking,
            lambda within: self._proxy_liveness.unresponsive(self._present(), within),
            self._hangs,
        )
        self._without_proxy: set[str] = set()  # nodes whose proxy a scenario has stopped
        self._proxy_liveness = ProxyLiveness(self)
        self._hung = HangDetector({}, 0)  # there are no nodes before boot

    def start(self) -> Self:
        """Boot the cluster. Raises `UnavailableError`. After an error, everything is closed."""
        sandbox.enter()
        kernel.require(self.families)
        with contextlib.ExitStack() as begun:
            try:
                self._boot(begun)
                self._await_boot()
            except HarnessError as error:
                error.logs = self._logs()
                raise
            self._servers = {
                "apiserver": self.control_plane.version,
                "controller": self.control_plane.controller,
                "proxy": f"{self.proxy.name} {self.proxy.version}".rstrip(),
            }
            self._begun = begun.pop_all()
        return self

    def _is_synced(self, component: str) -> bool:
        match component:
            case Component.CONTROLLER:
                return self.control_plane.synced()
            case Component.PROXY:
                return self.proxy.synced()
        if self._dns is None:
            return True
        dns = self._dns[0]
        if component == DNS_SERVER:
            return dns.synced()
        return not isinstance(dns, WritesPodLocators) or dns.locators_synced()

    def _lacking(self, component: str) -> str:
        part = {Component.PROXY: self.proxy, Component.CONTROLLER: self.control_plane}.get(component)  # type: ignore[call-overload]
        return part.lacking if isinstance(part, ReportsUnfinishedWork) else ""

    def _hangs(self) -> str:
        found = self._hung.hung(self._present())
        seconds = LOOKS * HUNG_EVERY * eventually.time_scale()
        asleep = f"has not run for {seconds:g} s, was never ready to run, and has not read the API server's data"
        return f"on {', '.join(found)} it {asleep}" if found else ""

    def _present(self) -> list[str]:
        absent = self._without_proxy | self._off.keys()
        return [node.name for node in self.topology.nodes if node.name not in absent]

    def _await_boot(self) -> None:
        try:
            self.settle(within=BOOT_SECONDS)
        except EndedError as error:
            if isinstance(error.__cause__, EndedError):  # a component crashed, so a second boot would not help
                raise DistrustError(str(error)) from error
            raise

    def _logs(self) -> dict[str, str]:
        return {file: text for who, ask in self._witnesses.items() for file, text in files_of(who, ask).items()}

    def _evidence_of_proxy(self, node: str) -> dict[str, str]:
        real = self.names.node(node)  # may be too long for the name of a file
        return {file.replace(real, node): text for file, text in self.proxy.evidence(real).items()}

    def _boot(self, begun: contextlib.ExitStack) -> None:
        self.network = Network(self.topology, families=self.families)
        begun.callback(self.network.close)
        self._control_targets = NetnsControlTargets(
            self.network.nodes, self.network.external, self._hosts, self._clients, self._off.keys()
        )
        begun.callback(self._control_targets.close)
        self._loop = ProbeLoop(self._control_targets)
        self._loop.start()
        begun.callback(self._loop.close)
        self.control_plane = self._implementation.control_plane(self.release)
        begun.callback(self.control_plane.stop)
        self._witnesses["control-plane"] = self.control_plane.evidence
        self.control_plane.start()
        begun.push(self._explain)
        places = {name: host.namespace for name, host in self.network.nodes.items()}
        _, (_, port) = server_of(self.control_plane.kubeconfig())
        self._hung = HangDetector(places, port)
        self.control_plane.reach_pods(self.network.external.namespace.socket)
        self.api: Api = TranslatingApi(
            self.control_plane.kubeconfig(), self.names, services=self._implementation.services
        )
        begun.callback(self.api.close)
        pod_cidrs = [addresses.POD_CIDRS[family] for family in self.families]
        self.proxy = self._implementation.proxy(self.control_plane, pod_cidrs)
        begun.callback(self.proxy.close)
        self.network.programs = f"programs of the proxy {self.proxy.name}"
        if isinstance(self.proxy, ExecutableProxy):
            self.proxy.setup_cluster(self.network.external)
        for place in self.topology.nodes:
            host = self.network.nodes[place.name]
            planned = self.network.plan(place.name).pod_cidrs
            cidrs = [planned[family] for family in self.families]
            self.api.create("nodes", "", manifests.node(place, list(host.addresses.values()), cidrs))
            self._witnesses[f"proxy-{place.name}"] = partial(self._evidence_of_proxy, place.name)
            self.proxy.setup(self.names.node(place.name), host.namespace, self.release)
        if isinstance(self.proxy, ExecutableProxy) and self.proxy.wiring:
            self._wire_by(self.proxy.wiring)
        begun.enter_context(threads.watched(self._threads))

    def _wire_by(self, wiring: Wiring) -> None:
        """Let the proxy connect all later pods to the network, and test this on each node. Raises `StartError`."""
        self.network.wire_by(wiring)
        try:
            for node in self.network.nodes:
                self.network.remove_pod(self.network.add_pod(node))
        except InconclusiveError as error:
            raise StartError(str(error), exited=True) from error

    def _threads(self) -> list[threading.Thread]:
        parts = (self._loop, self.control_plane, self.proxy, *(() if self._dns is None else (self._dns[0],)))
        return [thread for part in parts if isinstance(part, threads.ThreadOwner) for thread in part.threads()]

    def close(self) -> None:
        self._begun.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_component(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        match component:
            case Component.API_SERVER:
                self.control_plane.start_api_server(release)
            case Component.CONTROLLER:
                self.control_plane.start_controller(release)
            case Component.PROXY:
                for node in nodes:
                    self.proxy.setup(self.names.node(node), self.network.nodes[node].namespace, release)
                self._without_proxy.difference_update(nodes)
            case Component.LOCATOR_CONTROLLER:
                self._locators().start_locators()
        self._components.started()
        self.settle(None if component is not Component.API_SERVER else RECONNECTED)

    def stop_component(self, component: Component, nodes: Sequence[str]) -> None:
        match component:
            case Component.API_SERVER:
                self.control_plane.stop_api_server()
            case Component.CONTROLLER:
                self.control_plane.stop_controller()
            case Component.PROXY:
                self._without_proxy.update(nodes)
                for node in nodes:
                    self.proxy.stop(self.names.node(node))
            case Component.LOCATOR_CONTROLLER:
                self._locators().stop_locators()

    @contextlib.contextmanager
    def disconnected(self) -> Iterator[None]:
        if not isinstance(self.control_plane, DisconnectsComponents):
            yield
            return
        with self.control_plane.disconnected():
            yield
        self.settle(RECONNECTED)

    def _locators(self) -> WritesPodLocators:
        if self._dns is None:
            self.dns()
        assert self._dns is not None, "dns() starts it"
        if not isinstance(dns := self._dns[0], WritesPodLocators):
            raise UnavailableError(f"DNS server {dns.name} has no PodLocator controller")
        return dns

    def dns(self) -> dict[str, str]:
        if self._dns is None:
            made, pod = self._implementation.dns(self.control_plane), self.network.add_pod(self.topology.nodes[0].name)
            self._begun.callback(made.stop)
            made.start(pod)
            heard = [ServerPort("UDP", family, manifests.TARGET_PORT) for family in self.families]
            self._loop.serve(pod.namespace, "dns", heard)  # for control probes
            self._dns = made, pod
            self.settle()
        return by_family(self._dns[1])

    def restart_dns(self) -> None:
        if self._dns is None:
            return
        before, pod = self._dns
        before.stop()
        made = self._implementation.dns(self.control_plane)
        self._begun.callback(made.stop)
        made.start(pod)
        self._dns = made, pod
        self.settle()

    def beside_dns(self, client: Client | Pod, family: str) -> ConcurrentControlProbes:
        assert self._dns is not None, "dns() comes first"
        pod = self._dns[1]
        probe = Probe(self.namespace_of(client), "UDP", by_family(pod)[family], manifests.TARGET_PORT)
        return self._loop.controlled(probe, self._control_targets.of_pod("of the DNS server", pod))

    def kubeconfig(self) -> dict[str, Any]:
        return self.control_plane.kubeconfig()

    def change_node(self, name: str, change: NodeChange) -> None:
        self.api.patch("nodes", "", name, {"metadata": {"labels": dict(change.labels)}, "spec": change.spec})

    def restore_node(self, name: str, before: Object) -> None:
        had = before["metadata"].get("labels") or {}
        new = (self.api.get("nodes", "", name)["metadata"].get("labels") or {}).keys() - had.keys()
        patch = {
            "metadata": {"labels": {**had, **dict.fromkeys(new)}},
            "spec": {key: before["spec"].get(key) for key in ("taints", "unschedulable")},
        }
        self.api.patch("nodes", "", name, patch)

    def stop_node(self, name: str) -> None:
        """Disconnect a node, and report its status as unknown, as a control plane does if kubelet heartbeats stop."""
        self._off[name] = NodeStatusReporter(self.api, name)
        self.network.disconnect(name)
        self._off[name].report_silence()

    def start_node(self, name: str) -> None:
        self.network.reconnect(name)
        self._off.pop(name).report_again()

    def delete_namespace(self, namespace: str) -> None:
        self.remove_namespace(namespace)
        self.settle()

    def forget_connections(self) -> None:
        for host in self.network.nodes.values():
            conntrack.flush(host.namespace)

    def virtual_addresses(self, kind: str, node: str, number: int) -> dict[str, str]:
        chosen = self.network.plan(node).virtual(kind, number)
        return {family: chosen[family] for family in self.network.families}

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        observed = self._loop.probe(probes, in_flight=in_flight)
        if self._proxy_liveness.note(probes, observed):
            self._components.check_hung()
        return observed

    def source_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:  # noqa: ARG002  all ports are fresh
        """Return the object that opens a client's sockets: its netns, or a helper process in its control group."""
        host = self.host_of(client)
        groups = self.proxy.clients if host.node and isinstance(self.proxy, ExecutableProxy) else None
        return groups.of(host) if groups else host.namespace

    def controller_metrics(self) -> str:
        return self.control_plane.metrics()

    def reads(self, component: Component, *, since: float) -> list[str]:
        asked = self.control_plane.asked()
        if asked is None:
            raise UnavailableError(f"control plane {self.control_plane.name} does not record API reads by client")
        read = (each.read for each in asked if each.at >= since and _component(each.by) == component)
        return [each for each in read if each and not each.endswith(" leases")]

    def client_address(self, client: Client | Pod, family: str) -> str:
        return by_family(self.host_of(client))[family]

    def await_pods(self) -> None:
        """Return immediately, because this process acts as kubelet and has reported all pods."""

    def settle(self, within: float | None = None) -> float:
        """See `Backend.settle`. Raises `EndedError` for a component that has crashed or does not finish in time."""
        return self._components.settle(within)

    def watch_idle(self) -> Callable[[], str]:
        if not (isinstance(self.proxy, ExecutableProxy) and self.proxy.tells_when_done):
            return str
        _, (_, port) = server_of(self.control_plane.kubeconfig())
        seen = IdleDetector({node: self.network.nodes[node].namespace for node in self._present()}, port)
        enough = self.idle_seconds * eventually.time_scale()

        def reason() -> str:
            idle = seen.seconds() >= enough and self.proxy.synced()
            return f"the proxy has been idle for {enough:g} s, and claims to have processed everything" if idle else ""

        return reason

    def check_instruments(self) -> None:
        """Raise `EndedError` if a component crashed or hangs, and `DistrustError` if the network fabric is broken."""
        self._components.check()
        fabric_check.check(self.network)
        self._check_nodes()
        self._components.check_progress()

    def _explain(self, _: object, error: BaseException | None, __: object) -> None:
        """After an error at boot, raise `DistrustError` if a program has deleted a Node object."""
        if isinstance(error, (HarnessError, RefusedError)):
            self._check_nodes()

    def _check_nodes(self) -> None:
        for each in self.control_plane.asked() or ():
            if each.method == "DELETE" and each.code == 200 and _NODES.fullmatch(each.path):
                raise DistrustError(
                    f"a client that is not the suite (user agent {each.by}) has deleted nodes from the API "
                    f"({each.path}); besides the suite, only programs of {self.proxy.name} and of the control plane "
                    "have access to the API"
                )

    def environment(self) -> dict[str, Any]:
        return {
            "backend": self.name,
            "controlPlane": self.control_plane.name,
            "servers": self._servers,  # the proxies at boot: a scenario may have replaced a proxy
            "featureGates": dict(self.release.gates),
            "nodes": [
                {"name": node.name, "zone": node.zone, "kernel": platform.release(), "os": platform.system()}
                for node in self.topology.nodes
            ],
            "ipFamilies": list(self.families),
            "podNetwork": "veth" if self.network.is_wired_by_us else f"of {self.proxy.name}",
            "cpus": os.cpu_count() or 1,
            **({"services": dict(self._implementation.services)} if self._implementation.services else {}),
        }

    def explain(self, namespace: str, service: str, nodes: Sequence[str]) -> str:
        return "\n".join(
            f"the proxy reports: {self.proxy.explain(self.names.node(node), namespace, service)}" for node in nodes
        )

    def decisions(self) -> dict[str, str]:
        names = [node.name for node in self.topology.nodes]
        found = {name: gathered(partial(self.proxy.decisions, self.names.node(name))) for name in names}
        return {name: text for name, text in found.items() if text}

    def evidence(self, namespace: str, *, since: float) -> dict[str, str]:
        asked = [*self.api.asked.copy(), *(self.control_plane.asked() or ())]
        texts = {"api-requests.txt": requests.as_text(asked, namespace, zero=since)}
        texts |= self._logs()
        if not self.names.trivial:
            texts["names.txt"] = self.names.as_text()
        texts |= kernel_evidence({node.name: self.network.nodes[node.name] for node in self.topology.nodes})
        if self._dns is not None:
            texts |= files_of("dns", self._dns[0].evidence)
        return texts | {"network-fabric.txt": gathered(partial(kernel_state.as_text, self.network.fabric))}


def _component(client: str) -> str:
    """Return the component that has this user agent. Any unknown user agent counts as the proxy's."""
    if client.startswith("kube-controller-manager/"):
        return Component.CONTROLLER
    return client if client in (Component.CONTROLLER, LOCATOR_CONTROLLER, DNS_SERVER) else Component.PROXY
