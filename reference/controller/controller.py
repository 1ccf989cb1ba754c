"""The base class of controllers, for which writers never wait. A burst of changes to an object causes one sync."""

import logging
import threading
import time
from collections.abc import Collection, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

from reference.client import ApiError, Client, Event, Key, Subscription
from reference.controller.work_queue import WorkQueue, is_retriable

CHANGE_DELAY = 0.01  # seconds; limits the load if two controllers overwrite each other's objects
FIRST_REST = 0.01  # seconds of pause after a failure; doubled with every further failure in a row
LONGEST_REST = 10.0

logger = logging.getLogger(__name__)


class Index(Protocol):
    """The cluster state that a controller has received."""

    def apply(self, event: Event) -> Collection[Key]:
        """Apply one event of any type except SYNCED. Return the keys that may need a sync."""

    def keys(self) -> Collection[Key]:
        """Return all keys that may need a sync."""


class Controller:
    """Syncs one key at a time in its own thread, always after it has read all queued events.

    Call `start` once and then `stop`, from the same thread. Any thread may call `synced`.

    Errors do not end the thread. An unreadable event is logged and skipped, and failed work is retried after a pause.
    """

    def __init__(self, name: str, client: Client, index: Index, resources: Sequence[str]) -> None:
        """`name` is the thread's name. The controller watches all `resources`, and writes objects of the last one."""
        self._client = client
        self._state = index
        self._resources = resources
        self._work = WorkQueue()
        self._queues = [self._work]
        self._has_state = False  # set by the thread, when the initial state has been read
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._delivered = 0
        self._taken_in = 0
        self._broken_off = 0  # number of consecutive unexpected failures
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start watching and writing. Returns immediately. Raises `RuntimeError` when called a second time."""
        self._thread.start()
        self._subscription = self._client.subscribe(self._resources, self._deliver)

    def stop(self) -> None:
        """End the watch, and end the thread after the sync in progress. API objects are not deleted. Idempotent."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join()

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        return (self._thread,)

    @property
    def running(self) -> bool:
        """True from `start` to `stop`, unless the thread crashed."""
        return self._thread.is_alive()

    def synced(self) -> bool:
        """Return whether all delivered events are processed and the resulting objects are written.

        A failed sync that can succeed on retry (a conflict, an unreachable server) counts as not processed. A failed
        sync that can succeed only after another change (the API server refuses the object) counts as processed, because
        that change will arrive as an event.
        """
        delivered = self._delivered
        return self._has_state and self._taken_in >= delivered and self._has_settled()

    def _has_settled(self) -> bool:
        return all(queue.is_idle for queue in self._queues)

    def _take_in(self, event: Event) -> None:
        if event.type == "SYNCED":
            for key in self._state.keys():  # noqa: SIM118  not a mapping
                self._work.add(key)
        else:
            self._queue(event)

    def _queue(self, event: Event) -> None:
        for key in self._state.apply(event):
            if not self._has_state:
                continue
            if event.resource == self._resources[-1]:
                self._work.add_at(key, time.monotonic() + CHANGE_DELAY)
            else:
                self._work.add(key)

    def _work_on_next(self) -> None:
        key = self._work.pop(time.monotonic())
        if key is not None:
            self._work_on(key)

    def _work_on(self, key: Key) -> None:
        try:
            self._sync(key)
        except (ApiError, OSError) as error:
            logger.info("%s: %s/%s: %s", self._thread.name, *key, error)
            self._work.retry(key, time.monotonic(), retriable=is_retriable(error))
        except Exception:
            logger.exception("%s: %s/%s: the sync failed unexpectedly", self._thread.name, *key)
            self._work.retry(key, time.monotonic(), retriable=False)
        else:
            self._work.done(key)

    def _sync(self, key: Key) -> None:
        """Bring the objects of a key up to date with the cluster state. Raises `ApiError` or `OSError`."""
        raise NotImplementedError

    def _deliver(self, event: Event) -> None:
        """Queue and count an event. The client holds a lock during this call, so no increment is lost."""
        self._delivered += 1
        self._events.put(event)

    def _run(self) -> None:
        while self._take_in_events():
            try:
                self._work_on_next()
                self._broken_off = 0
            except Exception:
                self._broken_off += 1
                logger.exception("%s: work failed unexpectedly", self._thread.name)

    def _take_in_events(self) -> bool:
        """Wait for an event or a due key, and read all queued events. Return False if the thread must end."""
        patience = self._patience()
        if patience == 0 and self._events.empty():
            return True
        try:
            event = self._events.get(timeout=patience)
        except Empty:
            return True
        for more in range(self._events.qsize(), -1, -1):
            if event is None:
                return False
            self._read(event)
            if more:
                event = self._events.get_nowait()
        return True

    def _patience(self) -> float | None:
        """Return the maximum time in seconds to wait for an event, or None if there is no limit."""
        if not self._has_state:
            return None
        if self._broken_off:
            return min(LONGEST_REST, FIRST_REST * 2.0 ** min(self._broken_off, 20))
        due = [due for queue in self._queues if (due := queue.next_due()) is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _read(self, event: Event) -> None:
        """Read one event. Count it only after its keys are queued, so that `synced` does not return True too early."""
        try:
            self._take_in(event)
        except Exception:
            metadata = event.object.get("metadata") or {}
            name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            logger.exception("%s: %s %s cannot be read and is skipped", self._thread.name, event.resource, name)
        if event.type == "SYNCED":  # repeated after each reconnection to an API server
            self._has_state = True
        self._taken_in += 1
