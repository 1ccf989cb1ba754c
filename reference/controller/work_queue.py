"""The objects that a controller has to work on, and when: keys coalesce, failures come back later.

Pure but for its own state: time is passed in. The controller's thread is the only one that changes it; `is_idle` may be
read from any thread.
"""

from __future__ import annotations

import heapq

from reference.client import ApiError, Key

FIRST_RETRY = 0.005  # seconds; doubled with every further failure
FIRST_HOPELESS_RETRY = 1.0
LONGEST_RETRY = 100.0
RETRIES = 15

_HOPELESS = frozenset({"Invalid", "Forbidden", "NotFound", "BadRequest", "MethodNotAllowed"})


def is_hopeful(error: ApiError | OSError) -> bool:
    """Return whether a request that failed can succeed later by itself, with nothing changed elsewhere."""
    return isinstance(error, OSError) or error.reason not in _HOPELESS


class WorkQueue:
    """First come, first served. A key is in the queue once, however often it is added."""

    def __init__(self) -> None:
        self._ready: dict[Key, None] = {}
        self._later: list[tuple[float, Key]] = []
        self._due: dict[Key, float] = {}  # what `_later` really holds; other entries in it are out of date
        self._failures: dict[Key, int] = {}
        self._unfinished: set[Key] = set()

    @property
    def is_idle(self) -> bool:
        """True if no key is waiting or in work, hopeless retries aside (see `retry`)."""
        return not self._unfinished

    @property
    def has_ready(self) -> bool:
        """True if a key is due now."""
        return bool(self._ready)

    def add(self, key: Key) -> None:
        """Make `key` due now."""
        self._unfinished.add(key)
        self._due.pop(key, None)
        self._ready[key] = None

    def add_at(self, key: Key, due: float) -> None:
        """Make `key` due at `due`, unless it is due earlier anyway."""
        self._unfinished.add(key)
        if key not in self._ready and self._due.get(key, due) >= due:
            self._due[key] = due
            heapq.heappush(self._later, (due, key))

    def pop(self, now: float) -> Key | None:
        """The next key that is due, or None. The caller works on it and then calls `done` or `retry`."""
        while self._later and self._later[0][0] <= now:
            due, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                self.add(key)
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        return key

    def next_due(self) -> float | None:
        """Return the time at which the next delayed key is due; None if there is none."""
        while self._later and self._due.get(self._later[0][1]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def done(self, key: Key) -> None:
        """The work on `key` succeeded."""
        self._failures.pop(key, None)
        self._finish(key)

    def retry(self, key: Key, now: float, *, hopeful: bool) -> None:
        """The work on `key` failed: try again later, at most 15 times in a row.

        Hopeful failures (a conflict, a server that is away) can go away by themselves: they come back soon and until
        then the queue is not idle. Others need a change elsewhere, which adds the key again on its own: they come back
        late, as in Kubernetes, and nobody waits for them.
        """
        failures = self._failures.get(key, 0)
        if failures >= RETRIES:
            self.done(key)
            return
        self._failures[key] = failures + 1
        first = FIRST_RETRY if hopeful else FIRST_HOPELESS_RETRY
        self.add_at(key, now + min(LONGEST_RETRY, first * 2.0**failures))
        if not hopeful:
            self._unfinished.discard(key)

    def _finish(self, key: Key) -> None:
        if key not in self._ready and key not in self._due:
            self._unfinished.discard(key)
