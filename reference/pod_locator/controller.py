"""The PodLocator controller: maintains a PodLocator for each pod (KEP-536, New PodLocator controller)."""

from __future__ import annotations

import logging
import threading
import time

from reference.client import ApiError, Client, Event, Key, Object, delete_if_there
from reference.controller import EventLoop, WorkQueue, is_retriable
from reference.pod_locator.index import Locations
from reference.pod_locator.location import says

RESOURCE = "podlocators"
LOCATOR_CHANGE_DELAY = 0.01  # seconds; so that two controllers that disagree do not keep a machine busy

logger = logging.getLogger(__name__)


class PodLocatorController:
    """Creates, updates and deletes PodLocators to match their pods and nodes, without unnecessary writes.

    Call `start` once and `stop` at the end, from one thread; `synced` may be read in any thread.
    """

    def __init__(self, client: Client, *, locations: Locations | None = None) -> None:
        self._client = client
        self._locations = locations or Locations()
        self._work = WorkQueue()
        self._loop = EventLoop(
            "pod-locator-controller", take_in=self._take_in, work=self._work_on_next, queues=[self._work]
        )

    def start(self) -> None:
        """Start to watch and to write. Returns immediately. Raises `RuntimeError` when called a second time."""
        self._loop.start(self._client, ("pods", "nodes", RESOURCE))

    def stop(self) -> None:
        """End the watch and the thread. The locators remain. Idempotent."""
        self._loop.stop()

    @property
    def running(self) -> bool:
        """True from `start` to `stop`, unless the thread crashed."""
        return self._loop.running

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The thread, which runs from `start` to `stop`."""
        return self._loop.threads

    def synced(self) -> bool:
        """Return whether all delivered events are processed and the resulting locators are written.

        A write that would be refused again counts as processed, because it needs a change that arrives as an event.
        """
        return self._loop.caught_up() and self._work.is_idle

    def _work_on_next(self) -> None:
        key = self._work.pop(time.monotonic())
        if key is not None:
            self._work_on(key)

    def _take_in(self, event: Event) -> None:
        """Queue the locators that an event affects."""
        if event.type == "SYNCED":
            for key in self._locations.keys():  # noqa: SIM118  no mapping
                self._work.add(key)
        else:
            self._queue(event)

    def _queue(self, event: Event) -> None:
        for key in self._locations.apply(event):
            if not self._loop.has_state:
                continue
            if event.resource == RESOURCE:
                self._work.add_at(key, time.monotonic() + LOCATOR_CHANGE_DELAY)
            else:
                self._work.add(key)

    def _work_on(self, key: Key) -> None:
        try:
            self._sync(key)
        except (ApiError, OSError) as error:
            logger.info("PodLocator %s/%s: %s", *key, error)
            self._work.retry(key, time.monotonic(), retriable=is_retriable(error))
        except Exception:
            logger.exception("PodLocator %s/%s: the sync failed unexpectedly", *key)
            self._work.retry(key, time.monotonic(), retriable=False)
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
        delete_if_there(self._client, RESOURCE, key)
        self._locations.deleted(existing)
