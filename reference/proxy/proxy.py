"""The service proxy of one node: it follows the API and keeps the kernel's rules as they should be.

One thread, one queue. It takes what is in the queue, works on the Services that these events are about, and writes what
differs to the kernel in one go. Nothing here grows with the number of other Services. Sockets are made in the
constructor, so the proxy works on the netns of the thread that constructs it, from whatever thread it runs.

Out of scope: sessionAffinity ClientIP (said in the log once), loadBalancerSourceRanges, health check node ports.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from reference.client import Client, Event, Object, Subscription
from reference.features import Features
from reference.proxy.conntrack import Conntrack
from reference.proxy.decision import Behaviour, Decision, Family
from reference.proxy.netlink import KernelError, NftSocket
from reference.proxy.nftables import KernelTable
from reference.proxy.objects import family_of
from reference.proxy.ruleset import Stale
from reference.proxy.state import FAMILIES, State
from reference.proxy.text import text

RESOURCES = ("services", "endpointslices", "nodes")
RETRY_SECONDS = 0.5
ANSWER_SECONDS = 0.1
"""How long an endpoint that left has to answer what was asked before (UDP), until its connections are forgotten."""

_log = logging.getLogger(__name__)


class ServiceProxy:
    """Programs cluster IPs, node ports, load balancer IPs and external IPs in the netns of the constructing thread.

    `pod_cidrs` are those of the whole cluster. `stop` leaves the rules in the kernel, `cleanup` takes them away; a
    proxy that starts replaces what a former one left, without a moment in between. Raises `OSError` where netlink is
    forbidden; errors of the kernel later on are logged, kept in `last_error`, and answered by loading everything anew.
    """

    def __init__(
        self,
        node_name: str,
        client: Client,
        *,
        pod_cidrs: Sequence[str],
        features: Features | None = None,
        state: Callable[[str, Behaviour], State] = State,
        kernel_table: Callable[[NftSocket, Family], KernelTable] = KernelTable,
    ) -> None:
        self.last_error: Exception | None = None
        self._client = client
        self._state = state(node_name, Behaviour.of(features or Features()))
        self._pod_cidrs = tuple(pod_cidrs)
        self._nft = NftSocket()
        self._conntrack = Conntrack()
        self._kernel = {family: kernel_table(self._nft, family) for family in FAMILIES}
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._delivered = 0
        self._worked = 0
        self._complete = False
        self._must_load = True
        self._unanswered: deque[tuple[float, Family, list[Stale]]] = deque()
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name=f"proxy-{node_name}", daemon=True)

    def start(self) -> None:
        """Begin to follow the API. Once. What exists already is queued first, so that two threads do not compete."""
        self._subscription = self._client.subscribe(RESOURCES, self._deliver)
        self._thread.start()

    def stop(self) -> None:
        """Follow it no longer; the rules stay as they are. Idempotent."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join()
        self._conntrack.close()
        self._nft.close()

    def cleanup(self) -> None:
        """Take the rules away. Before `stop`, or instead of `start`."""
        with self._lock:
            self._must_load = True
            for table in self._kernel.values():
                table.delete()

    def synced(self) -> bool:
        """Whether all events delivered so far are in the kernel."""
        with self._lock:
            return self._complete and not self._must_load and self._worked == self._delivered

    def decisions(self) -> dict[str, Decision]:
        """What this node does for each service port, by "namespace/name:port/protocol family"."""
        with self._lock:
            return self._state.decisions()

    def explain(self, namespace: str, name: str) -> str:
        """Why this node treats a Service as it does, for a person."""
        with self._lock:
            return self._state.explain(namespace, name)

    def ruleset_text(self) -> str:
        """The rules as nft text."""
        with self._lock:
            return "".join(text(self._state.ruleset(family, self._pods(family))) for family in FAMILIES)

    def _deliver(self, event: Event) -> None:
        self._delivered += 1
        self._events.put(event)

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            self._must_load = True
            self._fail("the proxy ends, through a fault of its own", error)
            raise

    def _follow(self) -> None:
        waiting = False
        while True:
            events = self._take(self._patience(waiting))
            if None in events:
                self._forget_unanswered(math.inf)
                return
            with self._lock:
                for event in events:
                    self._receive(event)
                waiting = self._complete and not self._write()
                self._worked += len(events)
            self._forget_unanswered(time.monotonic())

    def _patience(self, waiting: bool) -> float | None:
        """How long to wait for events, in seconds."""
        if self._unanswered:
            return max(0.0, self._unanswered[0][0] - time.monotonic())
        return RETRY_SECONDS if waiting else None

    def _take(self, seconds: float | None) -> list[Event | None]:
        """What is in the queue: at least one event, or none after `seconds`."""
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
            case Event(kind, resource, obj):
                try:
                    self._state.receive(resource, obj, deleted=kind == "DELETED")
                except (KeyError, TypeError, ValueError) as error:
                    self._fail(f"cannot read {_name(resource, obj)}", error)

    def _write(self) -> bool:
        """Bring the kernel up to date; whether that worked."""
        try:
            self._must_load = self._state.compute() or self._must_load
            while self._state.unreadable:
                (namespace, name), error = self._state.unreadable.popitem()
                self._fail(f"cannot read the slices of {namespace}/{name}", error)
            for family, kernel in self._kernel.items():
                self._load(family, kernel) if self._must_load else self._apply(family, kernel)
        except (KernelError, OSError) as error:
            self._must_load = True
            self._fail("the kernel refused the rules, all are loaded anew", error)
            return False
        self._must_load = False
        return True

    def _load(self, family: Family, kernel: KernelTable) -> None:
        table = self._state.tables[family]
        table.forget_changes()
        ruleset = self._state.ruleset(family, self._pods(family))
        kernel.load(ruleset)
        if stale := [each for each in ruleset.services if each.protocol == "UDP"]:
            self._conntrack.forget_all_but(family, stale, table.backends)

    def _apply(self, family: Family, kernel: KernelTable) -> None:
        table = self._state.tables[family]
        for changes in table.take_changes(kernel.most_elements):
            if changes:
                kernel.apply(changes)
            if changes.stale:
                self._conntrack.forget(family, changes.stale, table.backends, answered=True)
                self._unanswered.append((time.monotonic() + ANSWER_SECONDS, family, changes.stale))

    def _forget_unanswered(self, now: float) -> None:
        """The second round for connections that are due. Not being able to is no reason to load rules anew."""
        while self._unanswered and self._unanswered[0][0] <= now:
            _, family, stale = self._unanswered.popleft()
            try:
                self._conntrack.forget(family, stale, self._state.tables[family].backends)
            except (KernelError, OSError) as error:
                self._fail("stale UDP connections stay", error)

    def _pods(self, family: Family) -> tuple[str, ...]:
        return tuple(each for each in self._pod_cidrs if family_of(each) == family)

    def _fail(self, what: str, error: Exception) -> None:
        self.last_error = error
        _log.error("%s: %s: %s", self._thread.name, what, error)


def _name(resource: str, obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    return f"{resource} {metadata.get('namespace', '')}/{metadata.get('name', '')}"
