"""Wait for the judged components of a cluster. Report which component has crashed or stopped processing changes.

After a wait for a component has timed out, later scenarios do not wait for it again. They fail immediately with the
component's name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness import eventually
from harness.errors import EndedError, InconclusiveError, StarvedError
from harness.model.release import PROXY

AGAIN = 1.0
"""Seconds, before the time scale, to wait after an earlier wait timed out. The component may have been slow."""

CHECK_SECONDS = 10.0
"""Seconds, before the time scale, between two checks of proxies that have stopped processing changes."""

CHAIN = 1.5
"""The factor by which the wait for all changes is longer, because a component also processes its own writes."""


class ComponentSync:
    """The components of one cluster by name. Each component processes the writes of the components before it."""

    def __init__(
        self,
        names: Sequence[str],
        synced: Callable[[str], bool],
        missing: Callable[[str], str] = lambda _: "",
        unresponsive: Callable[[float], str] = lambda _: "",
        hangs: Callable[[], str] = lambda: "",
    ) -> None:
        """`synced` returns whether a component is up to date. It raises `EndedError` if the component has crashed.

        `missing` returns the reason if a component is not up to date. `unresponsive` checks within this number of
        seconds (before the time scale) whether proxies process changes, and returns evidence if they do not. `hangs`
        immediately returns which proxies hang. It is called repeatedly while this is uncertain.
        """
        self._names, self._synced, self._missing, self._unresponsive = names, synced, missing, unresponsive
        self._hangs = hangs
        self._stopped, self._checked_at = "", 0.0
        self._failed: tuple[str, str] | None = None  # the error text, and the component

    def started(self) -> None:
        """Record that a component was replaced, so that the next wait uses the full time limit again."""
        self._failed = None
        self._stopped = ""

    def settle(self, within: float | None = None) -> float:
        """Wait until components have processed all writes so far, and the writes that follow from these.

        Returns the seconds until the last check that found unfinished work. Raises `EndedError` for the first component
        that has crashed or is not done in time, and `StarvedError` if it could not run.
        """
        if self._stopped:
            self.check_progress()
        begin = busy_at = time.monotonic()
        behind = ""

        def idle() -> bool:
            nonlocal behind, busy_at
            looked_at = time.monotonic()
            behind = self._behind()
            if behind:
                busy_at = looked_at
                self.check_hung()
            return not behind

        try:
            eventually.eventually(
                idle,
                within=AGAIN if self._failed else within or CHAIN * eventually.FAR,
                describe=lambda: f"{behind} to have processed all events{self._why(behind)}",
                error=InconclusiveError,
            )
        except (EndedError, StarvedError):
            raise
        except InconclusiveError as error:
            self._failed = self._failed or (f"{behind} has stopped processing changes: {error}", behind)
            raise EndedError(*self._failed) from error
        self._failed = None
        return busy_at - begin

    def _why(self, name: str) -> str:
        missing = self._missing(name)
        return f" ({missing})" if missing else ""

    def check(self) -> None:
        """Raise `EndedError` for the first component that has crashed."""
        for name in self._names:
            self._check(name)

    def check_progress(self) -> None:
        """Raise `EndedError` if the proxies do not process changes, even if they report that they do.

        The first such check takes as long as a wait for a change. Later checks fail immediately, but test again from
        time to time.
        """
        if self._stopped and time.monotonic() - self._checked_at < CHECK_SECONDS * eventually.time_scale():
            raise EndedError(self._stopped, PROXY)
        reason = self._unresponsive(AGAIN if self._stopped else eventually.FAR)
        self._checked_at = time.monotonic()
        if not reason:
            self._stopped = ""
            return
        claim = "though it claims to have processed everything"
        self._stopped = self._stopped or f"{PROXY} has stopped processing changes: {reason}, {claim}"
        raise EndedError(self._stopped, PROXY)

    def check_hung(self) -> None:
        """Raise `EndedError` if the proxies hang. This method is called during waits for them."""
        if reason := self._hangs():
            self._stopped = f"{PROXY} has stopped processing changes: {reason}"
            self._checked_at = time.monotonic()
            raise EndedError(self._stopped, PROXY)

    def _behind(self) -> str:
        """Return the first component that has unfinished work, or "" if there is none."""
        return next((name for name in self._names if not self._check(name)), "")

    def _check(self, name: str) -> bool:
        try:
            return self._synced(name)
        except EndedError as error:
            raise EndedError(str(error), name) from error
