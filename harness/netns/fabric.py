"""The network of an embedded cluster: a netns for each node, each pod and the external client, joined by a fabric.

            external ──┐
                       │
    pod ── node a1 ── fabric ── node a2 ── pod       every line is a veth pair, every word a netns

The fabric is a router. It has routes to nodes and pods. It also routes load balancer and external IPs to their node,
but only for packets from the external client. It drops all other packets silently. So a connection to a virtual address
times out unless a proxy has programmed the address.
"""

import contextlib
import errno
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from harness.errors import DistrustError, HarnessError, UnavailableError, UsageError
from harness.model.topology import Topology
from harness.netns import addresses, iproute, kernel, rtnetlink, sysctls
from harness.netns.addresses import EVERYTHING, EXTERNAL_CLIENT, GATEWAY, Family, NodeAddresses, family_of
from harness.netns.namespace import Namespace
from harness.netns.rtnetlink import LOOPBACK, Request

_UPLINK = 2  # index of eth0, the uplink of a node, pod or external client
_FIRST_NODE_LINK = 100  # index in the fabric of the link to node 0
_EXTERNAL_LINK = 2  # index in the fabric of the link to the external client
_FIRST_POD_LINK = 1000  # index in a node of the link to pod 0
FROM_EXTERNAL = 100  # the fabric's routing table, and the rule's priority, for packets from the external client
_SILENCED = 50  # priority of the rule for a disconnected node, before any route lookup
_NAME_LIMIT = 15  # IFNAMSIZ without the final NUL


@dataclass(frozen=True, slots=True, eq=False)
class NetworkPeer:
    """A node, a pod or the external client. `node` is the name of the node, or "" for the external client."""

    name: str
    namespace: Namespace
    addresses: Mapping[Family, str]
    node: str = ""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """The identity of a pod in the Kubernetes API. A pod that does not exist in the API has only a `uid`."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodAttachment:
    """A pod to connect to its node, with the pod's MAC address and the name of the new interface on the node."""

    pod: NetworkPeer
    of: PodIdentity
    mac: str
    link: str


class Wiring(Protocol):
    """Creates the interfaces of pods, in place of the harness's own veth pairs."""

    def attach(self, port: PodAttachment) -> None:
        """Connect a pod, whose loopback is up, to its node. Before raising `InconclusiveError`, undo all changes."""

    def detach(self, pod: NetworkPeer) -> None:
        """Undo `attach`. Raises `InconclusiveError`."""


@dataclass(slots=True, eq=False)
class _NodePods:
    by_number: dict[int, NetworkPeer]
    last: int = 1

    def free_number(self, node: str) -> int:
        for step in range(addresses.MAX_PODS):
            number = 2 + (self.last - 1 + step) % addresses.MAX_PODS
            if number not in self.by_number:
                return number
        raise UsageError(f"node {node} has no address for another pod: it already has {addresses.MAX_PODS} pods")


class Network:
    """The running network of a cluster. Thread-safe. Raises `UnavailableError` if it cannot be created here."""

    def __init__(self, topology: Topology, *, families: Sequence[str] = addresses.FAMILIES) -> None:
        self.families = addresses.families_of(families)
        self._plans = {node.name: NodeAddresses(i) for i, node in enumerate(topology.nodes, 1)}
        self._pods = {name: _NodePods({}) for name in self._plans}
        self._lock = threading.RLock()
        self._open: list[Namespace] = []
        self._wiring: Wiring | None = None
        self.programs = "programs of the node"  # what else could change the interfaces of nodes, for error messages
        try:
            self.fabric = self._namespace(sysctls.of_router(self.families))
            self.external = self._attach_external()
            self.nodes = {name: self._attach_node(name, plan) for name, plan in self._plans.items()}
        except BaseException:
            self.close()
            raise

    def plan(self, node_name: str) -> NodeAddresses:
        if node_name not in self._plans:
            raise UsageError(f"no node {node_name!r}: the cluster has {', '.join(self._plans)}")
        return self._plans[node_name]

    @property
    def is_wired_by_us(self) -> bool:
        return self._wiring is None

    def wire_by(self, wiring: Wiring) -> None:
        """Let `wiring` create the interfaces of pods from now on. New links on nodes get link-local addresses."""
        self._wiring = wiring
        for node in self.nodes.values():
            sysctls.apply(node.namespace, sysctls.of_neighbours(self.families))

    def add_pod(self, node_name: str, *, name: str = "", of: PodIdentity | None = None) -> NetworkPeer:
        """Create a pod on a node. `of` is its identity in the API. Raises `UsageError` or `InconclusiveError`."""
        plan = self.plan(node_name)
        with self._lock:
            if not self._open:
                raise HarnessError("the network is closed")
            pods = self._pods[node_name]
            number = pods.free_number(node_name)
            namespace = self._namespace(sysctls.of_host(self.families))
            named = name or f"{node_name}-{number}"
            pod = NetworkPeer(named, namespace, self._of_families(plan.pod(number)), node_name)
            try:
                self._attach_pod(node_name, number, pod, of or PodIdentity("", "", str(uuid.uuid4())))
            except BaseException:
                self._release(namespace)
                raise
            pods.by_number[number], pods.last = pod, number
            return pod

    def remove_pod(self, pod: NetworkPeer) -> None:
        """Remove a pod from its node. Idempotent. Raises `InconclusiveError` if the wiring fails to detach it."""
        with self._lock, contextlib.ExitStack() as then:
            for node_name, pods in self._pods.items():
                for number in [number for number, each in pods.by_number.items() if each is pod]:
                    then.callback(self._release, pod.namespace)
                    if self._wiring:
                        self._wiring.detach(pod)  # if that fails, no other pod gets the address
                    else:
                        with self._expected(node_name, _link_name(pod.name, f"pod{number}")):
                            rtnetlink.execute(
                                self.nodes[node_name].namespace, [rtnetlink.remove_link(_FIRST_POD_LINK + number)]
                            )
                    del pods.by_number[number]

    def disconnect(self, node_name: str) -> None:
        self._silence("add", node_name, f"disconnect {node_name}")

    def reconnect(self, node_name: str) -> None:
        self._silence("del", node_name, f"reconnect {node_name}")

    def _silence(self, command: str, node_name: str, what: str) -> None:
        """Add or delete the rule that drops all packets from a node's link before any route lookup."""
        link = link_of(node_name, self.plan(node_name))
        with iproute.routing(self.fabric, what) as ip:
            for family in self.families:
                ip.rule(command, family=addresses.NUMBERS[family], iifname=link, priority=_SILENCED, action="blackhole")

    def close(self) -> None:
        """Close every netns. The kernel destroys a netns once it has no threads and no sockets. Idempotent."""
        with self._lock:
            while self._open:
                self._open.pop().close()
            for pods in self._pods.values():
                pods.by_number.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _namespace(self, settings: sysctls.Settings) -> Namespace:
        namespace = Namespace.create()
        self._open.append(namespace)
        sysctls.apply(namespace, settings)
        return namespace

    def _release(self, namespace: Namespace) -> None:
        if namespace in self._open:
            self._open.remove(namespace)
            namespace.close()

    def _of_families(self, by_family: Mapping[Family, str]) -> dict[Family, str]:
        return {family: by_family[family] for family in self.families}

    def _attach_external(self) -> NetworkPeer:
        namespace = self._namespace(sysctls.of_host(self.families))
        host = NetworkPeer("external", namespace, self._of_families(EXTERNAL_CLIENT))
        requests = [rtnetlink.up(LOOPBACK), _pair("external", _EXTERNAL_LINK, host.namespace)]
        for family in self.families:
            requests += [
                rtnetlink.blackhole(EVERYTHING[family]),
                rtnetlink.route(host.addresses[family], _EXTERNAL_LINK),
                rtnetlink.rule(family, "external", table=FROM_EXTERNAL, priority=FROM_EXTERNAL),
            ]
        _execute(self.fabric, requests)
        _execute(host.namespace, _of_end(host.addresses))
        rtnetlink.wait_until_up(self.fabric, _EXTERNAL_LINK)
        return host

    def _attach_node(self, name: str, plan: NodeAddresses) -> NetworkPeer:
        namespace = self._namespace(sysctls.of_router(self.families))
        node = NetworkPeer(name, namespace, self._of_families(plan.addresses), name)
        link = _FIRST_NODE_LINK + plan.number
        requests = [_pair(link_of(name, plan), link, node.namespace)]
        for family, node_ip in node.addresses.items():
            requests += [rtnetlink.route(node_ip, link), rtnetlink.route(plan.pod_cidrs[family], link, via=node_ip)]
            virtual = [each for each in plan.virtual_cidrs if family_of(each) == family]
            requests += [rtnetlink.route(each, link, via=node_ip, table=FROM_EXTERNAL) for each in virtual]
        _execute(self.fabric, requests)
        # Without this route, packets to pods that do not exist would return to the fabric.
        gone = [rtnetlink.blackhole(plan.pod_cidrs[family]) for family in self.families]
        _execute(node.namespace, [*_of_end(node.addresses), *gone])
        rtnetlink.wait_until_up(self.fabric, link)
        return node

    def _attach_pod(self, node_name: str, number: int, pod: NetworkPeer, of: PodIdentity) -> None:
        node, link = self.nodes[node_name], _FIRST_POD_LINK + number
        link_name = _link_name(pod.name, f"pod{number}")
        if self._wiring:
            sysctls.apply(pod.namespace, sysctls.of_neighbours(self.families))
            _execute(pod.namespace, [rtnetlink.up(LOOPBACK)])
            mac = f"02:74:64:00:{self.plan(node_name).number:02x}:{number:02x}"
            self._wiring.attach(PodAttachment(pod, of, mac, link_name))
            return
        requests = [_pair(link_name, link, pod.namespace)]
        for family, pod_ip in pod.addresses.items():
            # REDIRECT sends a packet to an address of the link on which it arrives, so each link needs an address.
            # It is the node's own, so that answers and masqueraded packets have the same source on every link.
            requests.append(rtnetlink.address(link, node.addresses[family])[0])
            requests.append(rtnetlink.route(pod_ip, link, source=node.addresses[family]))
        with self._expected(node_name, link_name):
            _execute(node.namespace, requests)
            _execute(pod.namespace, _of_end(pod.addresses))
            rtnetlink.wait_until_up(node.namespace, link)

    @contextlib.contextmanager
    def _expected(self, node_name: str, link_name: str) -> Iterator[None]:
        try:
            yield
        except rtnetlink.NetlinkError as error:
            if error.number != errno.ENODEV:
                raise
            raise DistrustError(self.deleted(f"{link_name} of node {node_name}")) from error

    def deleted(self, interfaces: str) -> str:
        return f"interface {interfaces} has been deleted, and not by the suite: only {self.programs} could do this"


def _pair(name: str, index: int, peer: Namespace) -> Request:
    return rtnetlink.veth(name, index, peer, peer_name="eth0", peer_index=_UPLINK)


def _of_end(host_addresses: Mapping[Family, str]) -> list[Request]:
    requests = [rtnetlink.up(LOOPBACK), rtnetlink.up(_UPLINK)]
    for family, host in host_addresses.items():
        requests += rtnetlink.address(_UPLINK, host)
        requests.append(rtnetlink.route(EVERYTHING[family], _UPLINK, via=GATEWAY[family], source=host))
    return requests


def link_of(node_name: str, plan: NodeAddresses) -> str:
    return _link_name(node_name, f"node{plan.number}")


def _link_name(name: str, otherwise: str) -> str:
    return name if len(name) <= _NAME_LIMIT and name not in ("lo", "eth0", "external") else otherwise


def _execute(namespace: Namespace, requests: Sequence[Request]) -> None:
    try:
        rtnetlink.execute(namespace, requests)
    except rtnetlink.NetlinkError as error:
        if error.number in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT):
            raise UnavailableError(f"{error}; {kernel.explain(kernel.missing())}") from error
        raise
