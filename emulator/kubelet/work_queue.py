"""A queue of keys for workers: it holds each key once, and gives it to one worker at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Thread-safe. A key that is added while a worker has it is queued again."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: deque[K] = deque()
        self._wanted: set[K] = set()
        self._taken: set[K] = set()
        self._closed = False

    def add(self, key: K) -> None:
        """Queue a key."""
        with self._condition:
            if key not in self._wanted:
                self._wanted.add(key)
                if key not in self._taken:
                    self._waiting.append(key)
                    self._condition.notify()

    def take(self) -> K | None:
        """Return the next key, or None if the queue was closed. Blocks. The worker then calls `done`."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            key = self._waiting.popleft()
            self._wanted.discard(key)
            self._taken.add(key)
            return key

    def done(self, key: K) -> None:
        """Note that the worker is done with this key."""
        with self._condition:
            self._taken.discard(key)
            if key in self._wanted:
                self._waiting.append(key)
                self._condition.notify()

    def close(self) -> None:
        """Release the workers; waiting keys are dropped."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
