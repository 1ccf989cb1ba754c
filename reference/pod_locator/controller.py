"""The PodLocator controller: one thread that keeps a PodLocator beside each pod (KEP-536, New PodLocator controller).

Events go into an unbounded queue, so no writer ever waits for it; the thread takes in all that are there before it
looks at the next pod, so a pod that changes five times at once is written once.
"""

from __future__ import annotations

import logging
import threading
import time
from queue import Empty, SimpleQueue

from reference.client import ApiError, Client, Event, Object, Subscription
from reference.endpointslice.work_queue import WorkQueue
from reference.pod_locator.index import Key, Locations
from reference.pod_locator.location import says

RESOURCE = "podlocators"
LOCATOR_CHANGE_DELAY = 0.01  # seconds; so that two controllers that disagree do not keep a machine busy

_HOPELESS = frozenset({"Invalid", "Forbidden", "NotFound", "BadRequest", "MethodNotAllowed"})
logger = logging.getLogger(__name__)


class PodLocatorController:
    """Creates, updates and deletes PodLocators with their pods and nodes, and writes nothing that is so already.

    `start` once, `stop` at the end; both are for one thread, `synced` for any.
    """

    def __init__(self, client: Client, *, locations: Locations | None = None) -> None:
        self._client = client
        self._locations = locations or Locations()
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._delivered = 0
        self._taken_in = 0
        self._has_state = False
        self._work = WorkQueue()
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="pod-locator-controller", daemon=True)

    def start(self) -> None:
        """Begin to watch and to write. Returns at once. Raises `RuntimeError` when called again."""
        self._thread.start()
        self._subscription = self._client.subscribe(("pods", "nodes", RESOURCE), self._deliver)

    def stop(self) -> None:
        """End the watch and the thread; locators stay. May be called again."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join()

    def synced(self) -> bool:
        """Whether every event delivered so far is worked on, and its locators are written.

        A write that was refused, and would be again, counts as worked on: what has to change first is another event.
        """
        delivered = self._delivered
        return self._has_state and self._taken_in >= delivered and self._work.is_idle

    def _deliver(self, event: Event) -> None:
        """The subscription's sink: runs in the writer's thread while the store is locked, so the count is exact."""
        self._delivered += 1
        self._events.put(event)

    def _run(self) -> None:
        while self._take_in_events():
            key = self._work.pop(time.monotonic())
            if key is not None:
                self._work_on(key)

    def _take_in_events(self) -> bool:
        """Take in what has come, and wait for it if there is nothing else to do. False when told to stop."""
        if self._events.empty() and self._work.has_ready:
            return True
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
        if self._work.has_ready:
            return 0.0
        due = self._work.next_due()
        return None if due is None else max(0.0, due - time.monotonic())

    def _take_in(self, event: Event) -> None:
        """Queue what the event concerns. Its count comes last, so that `synced` never sees a gap between the two."""
        if event.type == "SYNCED":  # also when an API server is back that was away
            for key in self._locations.keys():  # noqa: SIM118  no mapping
                self._work.add(key)
            self._has_state = True
        else:
            self._queue(event)
        self._taken_in += 1

    def _queue(self, event: Event) -> None:
        for key in self._locations.apply(event):
            if not self._has_state:
                continue
            if event.resource == RESOURCE:
                self._work.add_at(key, time.monotonic() + LOCATOR_CHANGE_DELAY)
            else:
                self._work.add(key)

    def _work_on(self, key: Key) -> None:
        try:
            self._sync(key)
        except ApiError as error:
            logger.info("PodLocator %s/%s: %s", *key, error)
            self._work.retry(key, time.monotonic(), hopeful=error.reason not in _HOPELESS)
        except OSError as error:
            logger.info("PodLocator %s/%s: %s", *key, error)
            self._work.retry(key, time.monotonic(), hopeful=True)
        except Exception:
            logger.exception("PodLocator %s/%s: the sync broke off", *key)
            self._work.retry(key, time.monotonic(), hopeful=False)
        else:
            self._work.done(key)

    def _sync(self, key: Key) -> None:
        wanted, existing = self._locations.wanted(key), self._locations.locator(key)
        if wanted is None:
            if existing is not None:
                self._delete(key, existing)
        elif existing is None:
            made = self._client.create(RESOURCE, key[0], {"metadata": {"name": key[1]}, **wanted})
            self._locations.written(made)
        elif says(existing) != wanted:
            changed = {"metadata": existing["metadata"], **wanted}
            self._locations.written(self._client.update(RESOURCE, key[0], changed))

    def _delete(self, key: Key, existing: Object) -> None:
        try:
            self._client.delete(RESOURCE, *key)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
        self._locations.deleted(existing)
