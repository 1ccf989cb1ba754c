"""The EndpointSlice controller: one thread that keeps slices as `plan` wants them.

The only file of the package with a thread, a clock and a client. Events go into an unbounded queue, so no writer ever
waits for a sync; the thread takes in all that are there before it works on the next Service, so a burst of pod changes
is one sync.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from reference.client import ApiError, Client, Event, Object, Subscription
from reference.endpointslice.allocation import rules
from reference.endpointslice.cpu_services import CpuServices
from reference.endpointslice.desired import Memo
from reference.endpointslice.index import ClusterIndex
from reference.endpointslice.plan import MAX_ENDPOINTS_PER_SLICE, Plan, plan_deleted_service, plan_service
from reference.endpointslice.recorder import Recorder
from reference.endpointslice.slices import Key
from reference.endpointslice.work_queue import WorkQueue
from reference.features import Features

SLICE_CHANGE_DELAY = 0.01  # seconds; so that two controllers that disagree do not keep a machine busy

_HOPELESS = frozenset({"Invalid", "Forbidden", "NotFound", "BadRequest", "MethodNotAllowed"})
logger = logging.getLogger(__name__)


class SyncError(Exception):
    """A sync did not reach what the Service asks for. `hopeful`: the same sync can succeed later by itself.

    `topic` is equal for failures that need no second Event; messages are not, they name slices that do not exist yet.
    """

    def __init__(self, message: str, *, topic: str, hopeful: bool) -> None:
        super().__init__(message)
        self.topic = topic
        self.hopeful = hopeful


class EndpointSliceController:
    """Makes and updates EndpointSlices for all Services with a selector, with hints as `features` says.

    Source: KEP-0752, and for hints KEP-4444 and KEP-3015. `start` once, `stop` at the end; both are for one thread,
    `synced` for any.
    """

    def __init__(
        self,
        client: Client,
        *,
        features: Features | None = None,
        max_endpoints_per_slice: int = MAX_ENDPOINTS_PER_SLICE,
        plan: Callable[..., Plan] = plan_service,
    ) -> None:
        self._client = client
        self._features = features or Features()
        self._max_endpoints = max_endpoints_per_slice
        self._plan_service = plan
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._delivered = 0
        self._taken_in = 0
        self._has_state = False
        self._index = ClusterIndex(self._features)
        self._work = WorkQueue()
        self._memos: dict[Key, Memo] = {}
        self._recorder = Recorder(client)
        self._cpu_services = CpuServices(rules(self._features))
        self._judged_zones = 0  # version of the zones' weights that all Services were looked at for
        self._told: dict[Key, str] = {}  # topic of the last failure that an Event was written for
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="endpointslice-controller", daemon=True)

    def start(self) -> None:
        """Begin to watch and to write. Returns at once. Raises `RuntimeError` when called again."""
        self._thread.start()
        self._subscription = self._client.subscribe(("services", "pods", "nodes", "endpointslices"), self._deliver)

    def stop(self) -> None:
        """End the watch and the thread; slices stay. A sync in progress is finished. May be called again."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join()

    def synced(self) -> bool:
        """Whether every event delivered so far is worked on and its slices are written.

        A sync that failed and can succeed when tried again (a conflict, a server that is away) counts as not worked on.
        One that cannot succeed before something else changes (a pod's Node is missing, the API server refuses the
        slice) counts as worked on: that change is an event of its own, and to wait for it would be to wait for ever.
        """
        delivered = self._delivered
        if not (self._has_state and self._taken_in >= delivered):
            return False
        return self._judged_zones == self._index.zones.version and self._work.is_idle  # in this order

    def _deliver(self, event: Event) -> None:
        """The subscription's sink: runs in the writer's thread while the store is locked, so the count is exact."""
        self._delivered += 1
        self._events.put(event)

    def _run(self) -> None:
        while self._take_in_events():
            self._look_at_zones()
            key = self._work.pop(time.monotonic())
            if key is not None:
                self._work_on(key)

    def _take_in_events(self) -> bool:
        """Take in what has come, and wait for it if there is nothing else to do. False when told to stop."""
        try:
            event = self._events.get(timeout=self._patience())
        except Empty:
            return True
        for more in range(self._events.qsize(), -1, -1):
            if event is None:
                return False
            self._take_in(event)
            if more:
                event = self._events.get_nowait()
        return True

    def _patience(self) -> float | None:
        """Seconds until there is something to do without an event; None if never."""
        if not self._has_state:
            return None
        if self._work.has_ready:
            return 0.0
        due = self._work.next_due()
        return None if due is None else max(0.0, due - time.monotonic())

    def _take_in(self, event: Event) -> None:
        """Queue what the event concerns. Its count comes last, so that `synced` never sees a gap between the two."""
        if event.type == "SYNCED":
            for key in {*self._index.services, *self._index.slices.services()}:
                self._work.add(key)
            self._has_state = True
        else:
            self._queue(event)
        self._taken_in += 1

    def _queue(self, event: Event) -> None:
        for key in self._index.apply(event):
            if not self._has_state:
                continue
            if event.resource == "endpointslices":
                self._work.add_at(key, time.monotonic() + SLICE_CHANGE_DELAY)
            else:
                self._work.add(key)

    def _look_at_zones(self) -> None:
        """Queue the Services for whose hints other weights of the zones may make a difference."""
        version = self._index.zones.version
        if version != self._judged_zones and self._has_state:
            for key in self._cpu_services.affected(self._index.zones.shares):
                self._work.add(key)
            self._judged_zones = version

    def _work_on(self, key: Key) -> None:
        logger.debug("Service %s/%s: sync", *key)
        try:
            self._sync(key)
        except SyncError as error:
            logger.info("Service %s/%s: %s", *key, error)
            self._tell(key, error)
            self._work.retry(key, time.monotonic(), hopeful=error.hopeful)
        except Exception:
            logger.exception("Service %s/%s: the sync broke off", *key)
            self._work.retry(key, time.monotonic(), hopeful=False)
        else:
            self._told.pop(key, None)
            self._work.done(key)

    def _sync(self, key: Key) -> None:
        service = self._index.services.get(key)
        existing = self._index.slices.of(key)
        if service is None:
            self._memos.pop(key, None)
            self._cpu_services.forget(key)
            self._apply(key[0], plan_deleted_service(key[1], existing))
            return
        first_look = key not in self._memos
        plan = self._plan_service(
            service,
            self._index.pods_of(key),
            self._index.nodes,
            existing,
            features=self._features,
            max_endpoints=self._max_endpoints,
            memo=self._memos.setdefault(key, Memo()),
            zones=self._index.zones,
        )
        self._apply(key[0], plan)
        for notice in self._cpu_services.note(key, plan, first_look=first_look):
            self._recorder.cpu_hints(service, notice)
        if plan.missing_nodes:
            message = _describe_missing(plan)
            raise SyncError(message, topic=message, hopeful=False)

    def _apply(self, namespace: str, plan: Plan) -> None:
        try:
            for each in plan.create:
                self._index.slices.written(self._client.create("endpointslices", namespace, each))
            for each in plan.update:
                self._index.slices.written(self._client.update("endpointslices", namespace, each))
            for each in plan.delete:
                self._delete(namespace, each)
        except ApiError as error:
            raise SyncError(str(error), topic=error.reason, hopeful=error.reason not in _HOPELESS) from error
        except OSError as error:
            raise SyncError(str(error), topic="Unreachable", hopeful=True) from error

    def _delete(self, namespace: str, endpoint_slice: Object) -> None:
        try:
            self._client.delete("endpointslices", namespace, endpoint_slice["metadata"]["name"])
        except ApiError as error:
            if error.reason != "NotFound":
                raise
        self._index.slices.deleted(endpoint_slice)

    def _tell(self, key: Key, failure: SyncError) -> None:
        """Write an Event on the Service, once for each new topic."""
        service = self._index.services.get(key)
        if service is None or self._told.get(key) == failure.topic:
            return
        self._told[key] = failure.topic
        self._recorder.sync_failed(service, str(failure))


def _describe_missing(plan: Plan) -> str:
    shown = ", ".join(f"{each.pod} (node {each.node!r})" for each in plan.missing_nodes[:10])
    more = len(plan.missing_nodes) - 10
    return f"pods left out because their Node does not exist: {shown}" + (f" and {more} more" if more > 0 else "")
