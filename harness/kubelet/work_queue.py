"""Keys that wait for a worker: each once, however often it was asked for, and never with two workers at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Thread-safe. A key that is asked for while it is worked on is worked on again."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: deque[K] = deque()
        self._wanted: set[K] = set()
        self._taken: set[K] = set()
        self._closed = False

    def add(self, key: K) -> None:
        """Have this key worked on."""
        with self._condition:
            if key not in self._wanted:
                self._wanted.add(key)
                if key not in self._taken:
                    self._waiting.append(key)
                    self._condition.notify()

    def take(self) -> K | None:
        """The next key; None when the queue was closed. Blocks. To be followed by `done`."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            key = self._waiting.popleft()
            self._wanted.discard(key)
            self._taken.add(key)
            return key

    def done(self, key: K) -> None:
        """This key has been worked on."""
        with self._condition:
            self._taken.discard(key)
            if key in self._wanted:
                self._waiting.append(key)
                self._condition.notify()

    def close(self) -> None:
        """Let the workers go; what waits is not worked on."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
