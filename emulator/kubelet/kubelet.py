"""The kubelet of an embedded cluster, which runs pods that clients create through the API.

One kubelet serves all nodes, because all nodes are in this process. A cluster uses either this kubelet or
`NetnsBackend.run_pod`. Without a real control plane, there is no scheduler, so a pod must specify its node. Volumes,
liveness probes and evictions are not supported. Images are only names, and programs run in a sandbox.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self

from emulator.kubelet.running_pod import RunningPod
from emulator.kubelet.server.server import PORT, KubeletServer
from harness.api.client import Api, RefusedError
from harness.control_planes.control_plane import KubeletCertificates
from harness.errors import HarnessError, InconclusiveError
from harness.event_loop import EventLoop
from harness.netns.fabric import Network, NetworkPeer
from reference.client import Event, Key, Object, key_of
from reference.client.remote import RemoteClient

_WORKERS = 4
_RETRY = 0.2  # seconds until a failed request is repeated

_log = logging.getLogger(__name__)


class WorkQueue:
    """A thread-safe queue of keys. If a key is added while a worker processes it, the key is queued again."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: deque[Key] = deque()
        self._added: set[Key] = set()
        self._taken: set[Key] = set()
        self._closed = False

    def add(self, key: Key) -> None:
        with self._condition:
            if key not in self._added:
                self._added.add(key)
                if key not in self._taken:
                    self._waiting.append(key)
                    self._condition.notify()

    def take(self) -> Key | None:
        """Return the next key, or None if the queue is closed. Blocks. The worker must call `done` afterwards."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            key = self._waiting.popleft()
            self._added.discard(key)
            self._taken.add(key)
            return key

    def done(self, key: Key) -> None:
        with self._condition:
            self._taken.discard(key)
            if key in self._added:
                self._waiting.append(key)
                self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()


class Kubelet:
    """A kubelet as a context manager. `close` removes the pods' processes and netns, but not the API objects."""

    def __init__(
        self,
        kubeconfig: Mapping[str, Any],
        network: Network,
        *,
        changed: Callable[[dict[Key, NetworkPeer]], None] = lambda _hosts: None,
        dns: str = "",
        trust: KubeletCertificates | None = None,
    ) -> None:
        """`dns` is the address of the cluster's DNS for programs in pods, or "". Logs and exec need `trust`.

        `changed` is called with the network peers of all pods when one of them changes, by one thread at a time.
        """
        self._api = Api(kubeconfig)
        self._client = RemoteClient(kubeconfig)  # watches the pods
        self._network = network
        self._changed = changed
        self._dns = dns
        self._loop = EventLoop("kubelet-loop")
        self._queue = WorkQueue()
        self._lock = threading.Lock()  # guards the next two attributes
        self._wanted: dict[Key, Object] = {}
        self._running: dict[Key, RunningPod] = {}
        self._closing = threading.Event()
        self._trust = trust
        self._server = KubeletServer(self.pod, self._loop)
        self._threads = [threading.Thread(target=self._work, name=f"kubelet-{i}", daemon=True) for i in range(_WORKERS)]

    def start(self) -> None:
        """Start running all pods that exist or that clients create later. Call this method once."""
        self._loop.start()
        for thread in self._threads:
            thread.start()
        self._client.subscribe(["pods"], self._receive)
        if self._trust is not None:
            self._serve(self._trust)

    def close(self) -> None:
        with self._lock:
            self._closing.set()
        self._client.close()
        self._server.close()
        self._queue.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for running in self._running.values():
            running.remove()
        self._running.clear()
        self._loop.close()
        self._api.close()

    def threads(self) -> tuple[threading.Thread, ...]:
        return (*self._threads, *self._client.threads, self._loop.thread)

    def pod(self, namespace: str, name: str) -> RunningPod | None:
        with self._lock:
            return self._running.get((namespace, name))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, trust: KubeletCertificates) -> None:
        nodes = self._network.nodes
        addresses = [address for host in nodes.values() for address in host.addresses.values()]
        self._server.start(nodes.values(), trust.of_kubelet(addresses))
        for name in nodes:
            endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}}}
            self._api.patch("nodes", "", name, {"status": endpoint}, subresource="status")

    def _receive(self, event: Event) -> None:
        pod = event.object
        if not self._is_ours(pod):
            return
        with self._lock:
            if event.type == "DELETED":
                self._wanted.pop(key_of(pod), None)
            else:
                self._wanted[key_of(pod)] = pod
        self._queue.add(key_of(pod))

    def _is_ours(self, pod: Object) -> bool:
        return (pod.get("spec") or {}).get("nodeName") in self._network.nodes

    def _work(self) -> None:
        while (key := self._queue.take()) is not None:
            try:
                self._sync(key)
            except InconclusiveError:
                self._retry(key)
            except (HarnessError, RefusedError, OSError) as error:
                _log.warning("pod %s/%s: %s", *key, error)
                self._retry(key)
            except Exception:  # noqa: BLE001  the error is logged, and the worker continues
                _log.exception("pod %s/%s", *key)
                self._retry(key)
            finally:
                self._queue.done(key)

    def _retry(self, key: Key) -> None:
        if not self._closing.is_set():
            self._loop.after(_RETRY, lambda: self._queue.add(key))

    def _sync(self, key: Key) -> None:
        with self._lock:
            pod, running = self._wanted.get(key), self._running.get(key)
        if running is not None and (pod is None or pod["metadata"]["uid"] != running.uid):
            running.remove()
            running = None
            with self._lock:
                del self._running[key]
        if pod is None:
            return
        if running is None:
            running = RunningPod(
                pod,
                api=self._api,
                network=self._network,
                loop=self._loop,
                wake=lambda: self._queue.add(key),
                host_changed=self._host_changed,
                dns=self._dns,
            )
            with self._lock:
                self._running[key] = running
        running.sync(pod)

    def _host_changed(self) -> None:
        with self._lock:
            if not self._closing.is_set():
                self._changed({key: pod.host for key, pod in self._running.items() if pod.host is not None})
