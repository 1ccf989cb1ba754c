"""The event loop of a controller: one thread that reads all queued events before it processes objects.

Events go into an unbounded queue, so a writer never waits for a controller. The thread reads all queued events before
it processes the next object, so an object that changes five times in a burst is processed once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from queue import Empty, SimpleQueue

from reference.client import Client, Event, Subscription
from reference.controller.work_queue import WorkQueue

FIRST_REST = 0.01  # seconds; doubled with every further failure of `work`
LONGEST_REST = 10.0

logger = logging.getLogger(__name__)


class EventLoop:
    """In its own thread, calls `take_in` with each event, and calls `work` when all queued events have been read.

    `take_in` fills `queues`, and `work` processes one object from each queue. Call `start` once and `stop` at the end,
    from one thread. Any thread may call `caught_up`.

    Errors do not end the thread. An unreadable event is logged and skipped, and failed work is retried after a pause.
    """

    def __init__(
        self,
        name: str,
        *,
        take_in: Callable[[Event], None],
        work: Callable[[], None],
        queues: Sequence[WorkQueue],
    ) -> None:
        """`name` is the name of the thread."""
        self.has_state = False
        """True after the initial state has been read. Only the thread sets this attribute."""
        self._take_in_event = take_in
        self._work = work
        self._queues = queues
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._delivered = 0
        self._taken_in = 0
        self._broken_off = 0  # number of consecutive failures of `work`
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, client: Client, resources: Collection[str]) -> None:
        """Start to watch and to work. Returns immediately. Raises `RuntimeError` when called a second time."""
        self._thread.start()
        self._subscription = client.subscribe(resources, self._deliver)

    def stop(self) -> None:
        """End the watch. End the thread after the work in progress. Idempotent."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join()

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The thread, which runs from `start` to `stop`."""
        return (self._thread,)

    @property
    def running(self) -> bool:
        """True from `start` to `stop`, unless the thread crashed."""
        return self._thread.is_alive()

    def caught_up(self) -> bool:
        """Return whether the initial state and every event delivered so far were read."""
        delivered = self._delivered
        return self.has_state and self._taken_in >= delivered

    def _deliver(self, event: Event) -> None:
        """Queue an event. Runs in the writer's thread while the store is locked, so the count is exact."""
        self._delivered += 1
        self._events.put(event)

    def _run(self) -> None:
        while self._take_in_events():
            try:
                self._work()
                self._broken_off = 0
            except Exception:
                self._broken_off += 1
                logger.exception("%s: work failed unexpectedly", self._thread.name)

    def _take_in_events(self) -> bool:
        """Read all queued events. If there is no work, wait for an event. Returns False when the loop should end."""
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
            self._take_in(event)
            if more:
                event = self._events.get_nowait()
        return True

    def _patience(self) -> float | None:
        """Return the number of seconds until work is due, if no event arrives. None means that no work is scheduled."""
        if not self.has_state:
            return None
        if self._broken_off:
            return min(LONGEST_REST, FIRST_REST * 2.0 ** min(self._broken_off, 20))
        if any(queue.has_ready for queue in self._queues):
            return 0.0
        due = [due for queue in self._queues if (due := queue.next_due()) is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _take_in(self, event: Event) -> None:
        """Read one event. Count the event last, so that `caught_up` is not true before the resulting work is queued."""
        try:
            self._take_in_event(event)
        except Exception:
            metadata = event.object.get("metadata") or {}
            name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            logger.exception("%s: %s %s cannot be read and is skipped", self._thread.name, event.resource, name)
        if event.type == "SYNCED":  # also when an API server is available again
            self.has_state = True
        self._taken_in += 1
