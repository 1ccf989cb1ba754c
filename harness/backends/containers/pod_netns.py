"""Keeps the netns of a cluster's nodes and pods open, and runs an echo server in each pod's netns."""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.api.client import Object
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.pod_runner import PodRunner
from harness.backends.backend import WantedPod
from harness.backends.containers.netns_lookup import NetnsLookup, holds
from harness.backends.netns_control_targets import Running
from harness.errors import InconclusiveError
from harness.eventually import NotYetError, eventually
from harness.netns.addresses import Family, family_of
from harness.netns.fabric import NetworkPeer
from harness.netns.namespace import Namespace
from harness.probes.loop import Server

SEEN_SECONDS = 120.0  # seconds for a pod to start, before `time_scale` is applied; its kubelet may be busy
_LOOK = 0.05

PodKey = tuple[str, str]  # Kubernetes namespace and name

Serve = Callable[[Namespace], Sequence[Server]]
"""Starts the servers of a pod in its netns. Raises `InconclusiveError`."""

MOST = 6
"""The maximum number of free pods that the pool keeps per node. Only scenarios with many endpoints need more pods."""


@dataclass(frozen=True, slots=True)
class _PodNetns:
    uid: str
    host: NetworkPeer
    serve: Serve
    servers: Sequence[Server] = ()
    is_client: bool = False  # the client pod of its node

    def end_servers(self) -> None:
        for each in self.servers:
            each.close()

    def leave(self) -> None:
        self.end_servers()
        self.host.namespace.close()


class OpenNetns:
    """The open netns of a backend's nodes and pods. Control probes go from `clients` to `running`. Thread-safe."""

    def __init__(
        self, places: NetnsLookup, nodes: Mapping[str, Collection[str]], cidrs: Mapping[str, Sequence[str]]
    ) -> None:
        """`cidrs` are the address ranges that each node routes. Raises `UnavailableError` if a netns is missing."""
        self._places = places
        self._lock = threading.RLock()
        self._pods: dict[PodKey, _PodNetns] = {}
        self.running: Running = {}
        self.clients: dict[str, NetworkPeer] = {}
        self.nodes: dict[str, NetworkPeer] = {}
        with contextlib.ExitStack() as begun:
            begun.callback(self._close_all)
            for name, addresses in nodes.items():
                self.nodes[name] = NetworkPeer(name, places.node(name, addresses), _by_family(addresses), name)
            self.external = begun.enter_context(places.outside(self.nodes, cidrs))
            self._begun = begun.pop_all()

    def close(self) -> None:
        self._begun.close()

    def host(self, key: PodKey) -> NetworkPeer:
        return self._pods[key].host

    def enter(self, created: Sequence[Object], serves: Sequence[Serve], *, are_clients: bool = False) -> None:
        """Open the netns of new pods as soon as they exist, and start the pods' servers. Raises `InconclusiveError`."""
        uids = [str(each["metadata"]["uid"]) for each in created]
        places = self._seen(uids)
        for obj, uid, serve in zip(created, uids, serves, strict=True):
            key = str(obj["metadata"]["namespace"]), str(obj["metadata"]["name"])
            node = str(obj["spec"]["nodeName"])
            host = NetworkPeer(key[1], places[uid], _by_family(pods.addresses(obj).values()), node)
            self._serve(key, _PodNetns(uid, host, serve, is_client=are_clients))

    def rename(self, old: PodKey, new: PodKey, serve: Serve) -> NetworkPeer:
        """Rename a pod, and replace its servers with those that `serve` starts. Raises `InconclusiveError`."""
        with self._lock:
            was = self._pods.pop(old)
            self.running.pop(old, None)
        was.end_servers()
        host = replace(was.host, name=new[1])
        self._serve(new, replace(was, host=host, serve=serve, servers=()))
        return host

    def is_alive(self, key: PodKey) -> bool:
        return _has_all_addresses(self._pods[key].host)

    def set_addresses(self, key: PodKey, addresses: Iterable[str]) -> None:
        entered = self._pods[key]
        self._put(key, replace(entered, host=replace(entered.host, addresses=_by_family(addresses))))

    def leave(self, is_meant: Callable[[PodKey], bool]) -> None:
        with self._lock:
            ended = [self._pods.pop(key) for key in list(self._pods) if is_meant(key)]
            for key in [key for key in self.running if is_meant(key)]:
                del self.running[key]
        for each in ended:
            each.leave()

    def renew(self, listed: Iterable[Object]) -> None:
        """Open the new netns of nodes and pods that have restarted. `listed` are the current pods of the run."""
        for name, node in list(self.nodes.items()):
            if not _has_all_addresses(node):
                node.namespace.close()
                self.nodes[name] = replace(node, namespace=self._places.node(name, node.addresses.values()))
        ended = {each.uid: key for key, each in self._pods.items() if not _has_all_addresses(each.host)}
        places = self._places.pods(ended) if ended else {}
        for obj in listed if places else ():
            uid = str(obj["metadata"]["uid"])
            if uid in places:
                key, place = ended[uid], places.pop(uid)
                old = self._pods[key]
                old.leave()
                host = replace(old.host, namespace=place, addresses=_by_family(pods.addresses(obj).values()))
                self._serve(key, replace(old, host=host, servers=()))
        for place in places.values():  # the pod was deleted in the meantime
            place.close()

    def _serve(self, key: PodKey, entered: _PodNetns) -> None:
        """Register a pod, and start its servers. If they fail to start, `close` still closes the pod's netns."""
        self._put(key, entered)
        self._put(key, replace(entered, servers=entered.serve(entered.host.namespace)))

    def _put(self, key: PodKey, entered: _PodNetns) -> None:
        with self._lock:
            self._pods[key] = entered
            if entered.is_client:
                self.clients[entered.host.node] = entered.host
            elif entered.servers:
                self.running[key] = entered.host, entered.servers

    def _seen(self, uids: Sequence[str]) -> dict[str, Namespace]:
        found: dict[str, Namespace] = {}

        def look() -> bool:
            found.update(self._places.pods([each for each in uids if each not in found]))
            if len(found) < len(uids):
                raise NotYetError(f"only {len(found)} of {len(uids)} pods have started")
            return True

        try:
            eventually(look, within=SEEN_SECONDS, every=_LOOK, describe="pods to start", error=InconclusiveError)
        except BaseException:
            for place in found.values():
                place.close()
            raise
        return found

    def _close_all(self) -> None:
        self.leave(lambda _: True)
        for host in self.nodes.values():
            host.namespace.close()


def _has_all_addresses(host: NetworkPeer) -> bool:
    return all(holds(host.namespace, each) for each in host.addresses.values())


def _by_family(given: Iterable[str]) -> dict[Family, str]:
    return {family_of(each): each for each in given}


def fits_pool(wanted: WantedPod) -> bool:
    """Return whether the scenario uses this pod only through its address, so that a pooled pod can replace it."""
    return not wanted.labels and wanted.ready and not wanted.host_network


class PodPool:
    """Pods of a pytest worker that keep running between scenarios, because a kubelet needs a second to start a pod.
    They keep no state, because servers end with their scenario and each probe uses a new source port.
    """

    def __init__(self, runner: PodRunner, entered: OpenNetns, namespace: str) -> None:
        self._runner = runner
        self._entered = entered
        self._namespace = namespace
        self._lock = threading.Lock()
        self._made = 0
        self._free: dict[str, list[PodKey]] = {}  # by node
        self._lent: dict[PodKey, PodKey] = {}  # the API's name of a pod, by the scenario's name of that pod
        self._changed: set[PodKey] = set()

    def close(self) -> None:
        """Begin deleting all pooled pods. If the API server is unavailable, they are deleted at the end of the run."""
        with contextlib.suppress(InconclusiveError):
            if self._made:
                self._runner.delete_namespace(self._namespace)

    def lend(self, namespace: str, wanted: Sequence[WantedPod], serves: Sequence[Serve]) -> list[NetworkPeer]:
        """Start each wanted pod's servers in a pooled or new pod. Raises the errors of `PodRunner.run_servers`."""
        with self._lock:
            found = [self._take(each.node) for each in wanted]
        missing = iter(self._make([each.node for each, key in zip(wanted, found, strict=True) if key is None]))
        hosts = []
        for each, key, serve in zip(wanted, found, serves, strict=True):
            own = key or next(missing)
            hosts.append(self._entered.rename(own, (namespace, each.name), serve))
            self._lent[namespace, each.name] = own
        return hosts

    def begin_to_change(self, namespace: str, name: str) -> PodKey:
        """Return the API's name of a pod that a scenario will change. The pod will not return to the pool."""
        if (namespace, name) not in self._lent:
            return namespace, name
        self._changed.add((namespace, name))
        return self._lent[namespace, name]

    def take_back(self, namespace: str) -> None:
        """Stop the servers of a scenario, and return its pods to the pool. Delete changed and surplus pods."""
        with self._lock:
            for key in [each for each in self._lent if each[0] == namespace]:
                own = self._lent.pop(key)
                if key in self._changed:
                    self._changed.discard(key)
                    self._drop(key, own)
                else:
                    self._keep(key, own)

    def _keep(self, key: PodKey, own: PodKey) -> None:
        free = self._free.setdefault(self._entered.host(key).node, [])
        if len(free) >= MOST:
            self._drop(key, own)
        else:
            self._entered.rename(key, own, _nothing)
            free.append(own)

    def _take(self, node: str) -> PodKey | None:
        """Take a free pod on a node from the pool. Delete pods that lost their netns because the node was off."""
        free = self._free.setdefault(node, [])
        while free:
            if self._entered.is_alive(own := free.pop()):
                return own
            self._drop(own, own)
        return None

    def _drop(self, key: PodKey, own: PodKey) -> None:
        self._entered.leave(key.__eq__)
        self._runner.begin_to_delete(*own)

    def _make(self, nodes: Sequence[str]) -> list[PodKey]:
        if not nodes:
            return []
        with self._lock:
            if not self._made:
                self._runner.create_namespace(self._namespace)
            names = [f"kept-{number}" for number in range(self._made, self._made + len(nodes))]
            self._made += len(nodes)
        made = self._runner.run_servers(
            self._namespace,
            [WantedPod(name, node) for name, node in zip(names, nodes, strict=True)],
            before_ready=lambda created: self._entered.enter(created, [_nothing] * len(created)),
        )
        keys = [(self._namespace, name) for name in names]
        for key, obj in zip(keys, made, strict=True):
            self._entered.set_addresses(key, pods.addresses(obj).values())
        return keys


def _nothing(_: Namespace) -> Sequence[Server]:
    return ()
