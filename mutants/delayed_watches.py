"""Watches that deliver changes late. The order is kept within a resource, but not between resources.

Kubernetes components watch each resource separately, so a change may overtake an earlier change of another resource.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from heapq import heappop, heappush
from math import inf

from mutants.client_wrappers import ClientWrapper
from reference.client import Client, Event, Key, Object, Subscription, key_of

Lateness = Callable[[Event], float]
"""Returns the number of seconds by which an event is delayed."""

Sink = Callable[[Event], None]


class DelayedClient(ClientWrapper):
    """A client whose watches are late. If `resync` is set, all objects are repeated at this interval in seconds.

    Objects that exist when a watch begins arrive immediately. With `by_object`, each object is delayed separately.
    """

    def __init__(self, client: Client, lateness: Lateness, *, resync: float = 0.0, by_object: bool = False) -> None:
        super().__init__(client)
        self._by_object = by_object
        self._lateness = lateness
        self._resync = resync
        self._watches: list[_DelayedWatch] = []

    def subscribe(self, resources: Collection[str], sink: Sink) -> Subscription:
        """Subscribe like `Client.subscribe`, but deliver events late."""
        watch = _DelayedWatch(sink, self._lateness, self._resync, self._by_object)
        self._watches.append(watch)
        watch.begin(self._client.subscribe(resources, watch.receive))
        return watch

    def is_idle(self) -> bool:
        """Whether all received events have been delivered."""
        return all(watch.is_idle() for watch in self._watches)


class _DelayedWatch:
    def __init__(self, sink: Sink, lateness: Lateness, resync: float, by_object: bool) -> None:
        self._by_object = by_object
        self._sink = sink
        self._lateness = lateness
        self._resync = resync or inf
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Event]] = []
        self._numbers = 0
        self._handed_on = 0
        self._due: defaultdict[tuple[str, Key | None], float] = defaultdict(float)  # of the last event of each
        self._known: dict[tuple[str, Key], Object] = {}
        self._begun = self._ended = False
        self._thread = threading.Thread(target=self._run, name="late-watch", daemon=True)

    def begin(self, subscription: Subscription) -> None:
        """Start delaying events."""
        self._subscription = subscription
        self._begun = True
        self._thread.start()

    def close(self) -> None:
        """End the watch, and drop pending events."""
        self._subscription.close()
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def is_idle(self) -> bool:
        """Whether all received events have been delivered."""
        with self._changed:
            return self._handed_on == self._numbers

    def receive(self, event: Event) -> None:
        """Store an event until it is due. Runs in the writer's thread."""
        with self._changed:
            self._numbers += 1
            due = 0.0
            if event.type == "SYNCED":
                due = max(self._due.values(), default=0.0)
            elif self._begun:
                stream = event.resource, key_of(event.object) if self._by_object else None
                due = self._due[stream] = max(time.monotonic() + self._lateness(event), self._due[stream])
            heappush(self._waiting, (due, self._numbers, event))
            self._changed.notify()

    def _run(self) -> None:
        resync = time.monotonic() + self._resync
        while True:
            with self._changed:
                now = time.monotonic()
                due = self._waiting[0][0] if self._waiting else inf
                if self._ended:
                    return
                if (until := min(due, resync)) > now:
                    self._changed.wait(None if until == inf else until - now)
                    continue
                event = heappop(self._waiting)[2] if due <= now else None
            if event is None:
                resync = now + self._resync
                for (resource, _), known in self._known.items():
                    self._sink(Event("MODIFIED", resource, known))
                continue
            self._hand_on(event)

    def _hand_on(self, event: Event) -> None:
        if event.type == "DELETED":
            self._known.pop((event.resource, key_of(event.object)), None)
        elif event.type != "SYNCED":
            self._known[event.resource, key_of(event.object)] = event.object
        self._sink(event)
        with self._changed:
            self._handed_on += 1
