"""The pods of an embedded cluster. The harness acts as their kubelet: it runs pods and reports their state."""

import itertools
import threading
from collections.abc import Mapping, Sequence

from harness.api.client import Api, Object
from harness.backends.backend import TERMINATION_SECONDS, WantedPod
from harness.backends.protocols import PodLifecycle, PodReports
from harness.model import manifests
from harness.model.topology import Topology
from harness.model.workloads import Client, Pod
from harness.netns import addresses
from harness.netns.fabric import Network, NetworkPeer, PodIdentity
from harness.netns.namespace import Namespace
from harness.probes.loop import ProbeLoop, Server, ServerPort

_ALWAYS = (("TCP", manifests.TARGET_PORT), ("UDP", manifests.TARGET_PORT))


class NetnsPods(PodLifecycle, PodReports):
    api: Api
    network: Network
    _loop: ProbeLoop

    def __init__(self, topology: Topology, families: Sequence[str]) -> None:
        self.topology = topology
        self.families = addresses.families_of(families)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._clients: dict[str, NetworkPeer] = {}
        self._hosts: dict[tuple[str, str], tuple[NetworkPeer, Sequence[Server]]] = {}

    def create_namespace(self, namespace: str) -> None:
        self.api.create("namespaces", "", {"metadata": {"name": namespace}})

    def remove_namespace(self, namespace: str) -> None:
        for resource in ("services", "endpointslices", "pods"):
            self.api.delete_all(resource, namespace, grace_seconds=0)
        for name in [name for owner, name in list(self._hosts) if owner == namespace]:
            self._end(namespace, name)
        self.api.delete("namespaces", "", namespace)

    def run_pods(self, namespace: str, wanted: Sequence[WantedPod]) -> list[Pod]:
        return [self._run_pod(namespace, each) for each in wanted]

    def _run_pod(self, namespace: str, wanted: WantedPod) -> Pod:
        name, node = wanted.name, wanted.node
        pod = _manifest(wanted)
        uid = self.api.create("pods", namespace, pod)["metadata"]["uid"]
        of = PodIdentity(namespace, name, uid)
        host = self.network.nodes[node] if wanted.host_network else self.network.add_pod(node, of=of)
        servers = serve(self._loop, namespace, wanted, host.namespace, families=self.families)
        with self._lock:
            self._hosts[namespace, name] = (host, servers)
        ips = by_family(host)
        self.report_pod(namespace, name, node, ips, ready=wanted.ready)
        return Pod(name, namespace, node, self.topology.node(node).zone, ips)

    def report_pod(
        self, namespace: str, name: str, node: str, pod_addresses: Mapping[str, str], *, ready: bool
    ) -> None:
        host_ip = next(iter(self.network.nodes[node].addresses.values()))
        status = manifests.pod_status(pod_addresses, host_ip, ready=ready)
        self.api.patch("pods", namespace, name, {"status": status}, subresource="status")

    def begin_termination(self, namespace: str, name: str) -> None:
        self.api.delete("pods", namespace, name, grace_seconds=TERMINATION_SECONDS)

    def evict_pod(self, namespace: str, name: str) -> None:
        self.api.evict(namespace, name, grace_seconds=TERMINATION_SECONDS)

    def delete_pod(self, namespace: str, name: str) -> None:
        self.api.delete("pods", namespace, name, grace_seconds=0)
        self._end(namespace, name)

    def _end(self, namespace: str, name: str) -> None:
        with self._lock:
            host, servers = self._hosts.pop((namespace, name), (None, ()))
        for each in servers:
            each.close()
        if host is not None and host not in self.network.nodes.values():
            self.network.remove_pod(host)

    def create_pod(self, namespace: str, wanted: WantedPod) -> None:
        self.create_reported_pod(namespace, wanted, phase="Running")

    def create_reported_pod(self, namespace: str, wanted: WantedPod, *, phase: str) -> None:
        obj = _manifest(wanted)
        obj["spec"]["restartPolicy"] = wanted.restart_policy
        self.api.create("pods", namespace, obj)
        exists = any(each.name == wanted.node for each in self.topology.nodes)
        host_ip = next(iter(self.node_addresses(wanted.node).values())) if exists else None
        status = manifests.pod_status(self.free_addresses(), host_ip, ready=wanted.ready, phase=phase)
        self.api.patch("pods", namespace, wanted.name, {"status": status}, subresource="status")

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        reported = manifests.pod_status({}, "", ready=ready)
        status = {key: reported[key] for key in ("conditions", "containerStatuses")}
        self.api.patch("pods", namespace, name, {"status": status}, subresource="status")

    def free_addresses(self) -> dict[str, str]:
        with self._lock:
            number = next(self._numbers)
        both = {"IPv4": f"10.245.{number // 250}.{number % 250 + 1}", "IPv6": f"fd00:10:245::{number:x}"}
        return {family: both[family] for family in self.families}

    def node_addresses(self, node: str) -> dict[str, str]:
        return by_family(self.network.nodes[node])

    def host_of(self, client: Client | Pod) -> NetworkPeer:
        with self._lock:
            if isinstance(client, Pod):
                return self._hosts[client.namespace, client.name][0]
            if client.kind == "external":
                return self.network.external
            if client.kind == "node":
                return self.network.nodes[client.node]
            if client.node not in self._clients:
                self._clients[client.node] = self.network.add_pod(client.node)
            return self._clients[client.node]


def _manifest(wanted: WantedPod) -> Object:
    pod = manifests.pod(
        wanted.name,
        wanted.node,
        labels=wanted.labels,
        container_ports=wanted.container_ports,
        host_network=wanted.host_network,
    )
    if wanted.sidecar:
        pod["spec"]["initContainers"] = manifests.other_containers(wanted.container_ports)
    return pod


def by_family(host: NetworkPeer) -> dict[str, str]:
    return {str(family): address for family, address in host.addresses.items()}


def serve(
    loop: ProbeLoop, namespace: str, wanted: WantedPod, place: Namespace, *, families: Sequence[str]
) -> list[Server]:
    """Start a pod's servers on `TARGET_PORT` and container ports. Raises `InconclusiveError` if a port is in use."""
    listening: dict[str, list[ServerPort]] = {}
    for protocol, port in sorted({*_ALWAYS, *((protocol, port) for _, port, protocol in wanted.container_ports)}):
        name = f"{namespace}/{wanted.name}"
        identity = f"{name}.{port}" if wanted.tells_port else name
        listening.setdefault(identity, []).extend(ServerPort(protocol, family, port) for family in families)
    return [loop.serve(place, identity, ports) for identity, ports in listening.items()]


class NodeStatusReporter:
    """Reports a node and its pods as lost or as ready again, like the node lifecycle controller, but immediately."""

    def __init__(self, api: Api, name: str) -> None:
        self._api, self._name = api, name
        self._conditions: list[Object] = api.get("nodes", "", name)["status"]["conditions"]
        self._pods = ready_pods_on(api, name)

    def report_silence(self) -> None:
        unknown = {"status": "Unknown", "reason": "NodeStatusUnknown"}
        self._report_node([{**each, **unknown} for each in self._conditions])
        for namespace, pod in self._pods:
            self._report_pod(namespace, pod, ready=False)

    def report_again(self) -> None:
        self._report_node(self._conditions)
        there = {_key(each) for each in self._api.list("pods")}
        for namespace, pod in self._pods:
            if (namespace, pod) in there:
                self._report_pod(namespace, pod, ready=True)

    def _report_node(self, conditions: list[Object]) -> None:
        self._api.patch("nodes", "", self._name, {"status": {"conditions": conditions}}, subresource="status")

    def _report_pod(self, namespace: str, name: str, *, ready: bool) -> None:
        """Set only the condition Ready, because an unresponsive kubelet does not report that containers have ended."""
        conditions = self._api.get("pods", namespace, name)["status"]["conditions"]
        status = "True" if ready else "False"
        changed = [{**each, "status": status} if each["type"] == "Ready" else each for each in conditions]
        self._api.patch("pods", namespace, name, {"status": {"conditions": changed}}, subresource="status")


def ready_pods_on(api: Api, node: str, *, label_selector: str = "") -> list[tuple[str, str]]:
    listed = api.list("pods", label_selector=label_selector)
    return [
        _key(each) for each in listed if each["spec"].get("nodeName") == node and manifests.has_condition(each, "Ready")
    ]


def _key(pod: Object) -> tuple[str, str]:
    return str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])
