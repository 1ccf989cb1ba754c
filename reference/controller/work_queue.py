"""The queue of a controller's keys. Only the controller's thread changes it, but any thread may read `is_idle`."""

import heapq

from reference.client import ApiError, Key

FIRST_RETRY = 0.005  # seconds; doubled with every additional failure
FIRST_PERMANENT_RETRY = 1.0
LONGEST_RETRY = 100.0
RETRIES = 15

_PERMANENT = frozenset({"Invalid", "Forbidden", "NotFound", "BadRequest", "MethodNotAllowed"})


def is_retriable(error: ApiError | OSError) -> bool:
    """Return whether a retry of a failed request can succeed even if no other object changes."""
    return isinstance(error, OSError) or error.reason not in _PERMANENT


class WorkQueue:
    """A FIFO queue. It contains each key at most once."""

    def __init__(self) -> None:
        self._ready: dict[Key, None] = {}
        self._later: list[tuple[float, Key]] = []
        self._due: dict[Key, float] = {}  # the valid entries of `_later`; other entries are outdated
        self._failures: dict[Key, int] = {}
        self._unfinished: set[Key] = set()

    @property
    def is_idle(self) -> bool:
        """True if no key is waiting or in progress. Retries of permanent failures are ignored (see `retry`)."""
        return not self._unfinished

    def add(self, key: Key) -> None:
        self._unfinished.add(key)
        self._due.pop(key, None)
        self._ready[key] = None

    def add_at(self, key: Key, due: float) -> None:
        """Queue `key` for processing at the time `due`, unless it is already due earlier."""
        self._unfinished.add(key)
        if key not in self._ready and self._due.get(key, due) >= due:
            self._due[key] = due
            heapq.heappush(self._later, (due, key))

    def pop(self, now: float) -> Key | None:
        """Return the next key that is due, or None. The caller must then call `done` or `retry`."""
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
        """Return the time at which the next key is due: 0 if it is due now, or None if the queue is empty."""
        if self._ready:
            return 0.0
        while self._later and self._due.get(self._later[0][1]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def done(self, key: Key) -> None:
        self._failures.pop(key, None)
        if key not in self._ready and key not in self._due:
            self._unfinished.discard(key)

    def retry(self, key: Key, now: float, *, retriable: bool) -> None:
        """Retry failed work on `key` later, at most 15 times in a row.

        Retriable failures (a conflict, an unreachable server) can disappear without other changes. They are retried
        soon, and the queue is not idle until then. Permanent failures are retried later, as in Kubernetes, and the
        queue counts as idle. If another object changes, its event adds the key again.
        """
        failures = self._failures.get(key, 0)
        if failures >= RETRIES:
            self.done(key)
            return
        self._failures[key] = failures + 1
        first = FIRST_RETRY if retriable else FIRST_PERMANENT_RETRY
        self.add_at(key, now + min(LONGEST_RETRY, first * 2.0**failures))
        if not retriable:
            self._unfinished.discard(key)
