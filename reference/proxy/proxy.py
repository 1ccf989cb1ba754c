"""The service proxy of one node: it watches the API and keeps the kernel's rules up to date.

One thread handles all events. The constructor starts the thread, so its sockets are in the caller's network namespace.
"""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from reference.client import Client, Event, Subscription
from reference.features import Features
from reference.proxy.acknowledgement import Acknowledgement
from reference.proxy.decision import Behaviour, Decision, Family
from reference.proxy.health import Health
from reference.proxy.kernel import KernelWriter
from reference.proxy.listeners import HEALTH_PORT, METRICS_PORT, Listeners
from reference.proxy.metrics import Metrics
from reference.proxy.netlink import KernelError, NftSocket
from reference.proxy.nft_text import text
from reference.proxy.nftables import KernelTable
from reference.proxy.node_labels import PodLocatorLabels
from reference.proxy.objects import UNREADABLE
from reference.proxy.state import State
from reference.serving import HttpThread

POD_LOCATORS = "podlocators"
RETRY_SECONDS = 0.5

_log = logging.getLogger(__name__)


class ServiceProxy:
    """Programs cluster IPs, node ports, load balancer IPs and external IPs in the calling thread's network namespace.

    `pod_cidrs` contains the pod CIDRs of the whole cluster. A running proxy listens on ports 10256 (/healthz, /livez),
    10249 (/metrics, from `registry`) and the health check node ports of Services. Proxies in one process may share
    `serving`. With `acknowledge`, the proxy writes a Lease with the resource version of the newest change in its
    kernel. If the gate ServiceTopology is enabled (KEP-536), the proxy watches all Nodes, otherwise only its own Node.
    If the gate PodLocator is enabled too, it reads the labels of other nodes from PodLocators instead.

    `stop` leaves the rules in the kernel, and `cleanup` removes them. A new proxy replaces the rules of an earlier
    proxy without interrupting traffic. The constructor raises `OSError` if the process may not use netlink. Later
    kernel errors are logged and stored in `last_error`, and the proxy then reloads all rules.
    """

    def __init__(
        self,
        node_name: str,
        client: Client,
        *,
        pod_cidrs: Sequence[str],
        features: Features | None = None,
        acknowledge: bool = False,
        serving: HttpThread | None = None,
        state: Callable[..., State] = State,
        kernel_table: Callable[[NftSocket, Family], KernelTable] = KernelTable,
    ) -> None:
        features = features or Features()
        self.last_error: Exception | None = None
        self._node_name = node_name
        self._client = client
        behaviour = Behaviour.of(features)
        pod_locators = features.enabled("PodLocator")
        all_nodes = behaviour.topology_keys and not pod_locators
        nodes = "nodes" if all_nodes else f"nodes/{node_name}"
        self._resources = ("services", "endpointslices", nodes, *([POD_LOCATORS] if pod_locators else ()))
        labels: dict[str, Any] = {"labels": PodLocatorLabels()} if pod_locators else {}
        self._state = state(node_name, behaviour, **labels)
        self._health = Health(features)
        self._metrics = Metrics(features, self._health, lambda: self._state.dropped)
        self._kernel = KernelWriter(self._state, pod_cidrs, self._metrics, kernel_table)
        self._acknowledgement = Acknowledgement(node_name, client) if acknowledge else None
        self._own_serving = None
        if serving is None:
            serving = self._own_serving = HttpThread()
        self._listeners = Listeners(serving, self._health.healthy, self._fail)
        self.registry = self._metrics.registry
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._delivered = 0
        self._worked = 0
        self._in_work = 0
        self._complete = False
        self._must_load = True
        self._subscription: Subscription | None = None
        self._begin = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{node_name}", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Start watching. Call `start` once. The proxy's thread begins to work after the initial objects are queued."""
        if self._own_serving is not None:
            self._own_serving.start()
        if self._acknowledgement is not None:
            self._acknowledgement.start()
        self._subscription = self._client.subscribe(self._resources, self._deliver)
        self._begin.set()

    def stop(self) -> None:
        """Stop watching and serving. The rules stay in the kernel. Idempotent."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        self._events.put(None)
        self._begin.set()
        self._thread.join()
        if self._acknowledgement is not None:
            self._acknowledgement.stop()
        if self._own_serving is not None:
            self._own_serving.stop()
        self._kernel.close()

    def cleanup(self) -> None:
        """Remove the rules from the kernel. Call `cleanup` before `stop`, or instead of `start`."""
        with self._lock:
            self._must_load = True
            self._kernel.delete()

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The threads of the proxy, which run until `stop`. The thread of a shared `HttpThread` is not included."""
        parts = (self._acknowledgement, self._own_serving)
        return (self._thread, *(each.thread for each in parts if each is not None))

    @property
    def running(self) -> bool:
        """True until `stop`, unless the thread crashed."""
        return self._thread.is_alive()

    def synced(self) -> bool:
        """Return whether the changes of all delivered events are in the kernel."""
        with self._lock:
            return self._complete and not self._must_load and self._worked == self._delivered

    def decisions(self) -> dict[str, Decision]:
        """Return the decision for each service port, with keys of the form "namespace/name:port/protocol family"."""
        with self._lock:
            return self._state.decisions()

    def explain(self, namespace: str, name: str) -> str:
        with self._lock:
            return self._state.explain(namespace, name)

    def ruleset_text(self) -> str:
        with self._lock:
            return "".join(text(each) for each in self._kernel.rulesets())

    def _deliver(self, event: Event) -> None:
        self._delivered += 1
        self._metrics.seen[event.resource] += 1
        self._metrics.last_queued = time.time()
        self._health.queued()
        self._events.put(event)

    def _run(self) -> None:
        self._begin.wait()
        try:
            self._follow()
        except Exception as error:
            self._must_load = True
            self._fail("the proxy stops after an internal error", error)
            raise
        finally:
            self._listeners.close()

    def _follow(self) -> None:
        waiting = False
        if self._subscription is not None:
            self._listeners.serve(HEALTH_PORT, self._health.answer)
            self._listeners.serve(METRICS_PORT, self._metrics.answer)
        while True:
            patience = self._kernel.patience()
            events = self._take(RETRY_SECONDS if patience is None and waiting else patience)
            if None in events:
                self._forget_later(math.inf)
                return
            with self._lock:
                for event in events:
                    self._receive(event)
                if self._complete and (events or waiting):
                    waiting = not self._write()
                self._worked += len(events)
            self._forget_later(time.monotonic())

    def _take(self, seconds: float | None) -> list[Event | None]:
        events: list[Event | None] = []
        try:
            events.append(self._events.get(timeout=seconds))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events

    def _receive(self, event: Event | None) -> None:
        match event:
            case Event("SYNCED"):
                self._complete = True
                self._in_work += 1
            case Event(kind, resource, obj):
                self._in_work += 1
                self._metrics.done[resource] += 1
                if self._acknowledgement is not None:
                    self._acknowledgement.worked_on(event)
                try:
                    if resource == "nodes" and obj["metadata"]["name"] == self._node_name:
                        self._health.node(obj, deleted=kind == "DELETED")
                    self._state.receive(resource, obj, deleted=kind == "DELETED")
                except UNREADABLE as error:
                    metadata = obj.get("metadata") or {}
                    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
                    self._fail(f"cannot read {resource} {name}", error)

    def _write(self) -> bool:
        try:
            self._must_load = self._state.compute() or self._must_load
            while self._state.unreadable:
                (namespace, name), error = self._state.unreadable.popitem()
                self._fail(f"cannot read the slices of {namespace}/{name}", error)
            self._kernel.write(reload=self._must_load)
        except (KernelError, OSError) as error:
            self._must_load = True
            self._fail("the kernel refused the rules, so all rules are loaded again", error)
            return False
        self._must_load = False
        self._report()
        return True

    def _report(self) -> None:
        self._health.updated(self._in_work)
        self._in_work = 0
        health_checks, self._state.health_checks = self._state.health_checks, {}
        self._listeners.follow(health_checks)
        triggered, self._state.triggered = self._state.triggered, []
        self._metrics.programmed(triggered)
        if self._acknowledgement is not None:
            self._acknowledgement.in_kernel()

    def _forget_later(self, now: float) -> None:
        """After an error, the rules are not reloaded."""
        try:
            self._kernel.forget_later(now)
        except (KernelError, OSError) as error:
            self._fail("stale UDP connections could not be deleted", error)

    def _fail(self, what: str, error: Exception) -> None:
        self.last_error = error
        _log.error("proxy-%s: %s: %s", self._node_name, what, error)
