"""Waits for the judged components of a cluster, and reports which one has crashed or stopped processing changes.

After one wait in vain, later scenarios do not wait for that component again: they end at once with its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from harness import eventually
from harness.errors import EndedError, InconclusiveError
from harness.model.release import PROXY

AGAIN = 1.0
"""Seconds, before the time scale, for components one of which was waited for in vain; it may have been slow."""

ASKED_EVERY = 10.0
"""Seconds, before the time scale, between two times that proxies are asked which took up nothing."""

CHAIN = 1.5
"""How much longer than for one change is waited for all: a component hears late of its own writes too, and goes on."""


class Components:
    """The components of one cluster by name, ordered so that each processes what earlier ones write."""

    def __init__(
        self,
        names: Sequence[str],
        synced: Callable[[str], bool],
        lacking: Callable[[str], str] = lambda _: "",
        silent: Callable[[float], str] = lambda _: "",
        hangs: Callable[[], str] = lambda: "",
    ) -> None:
        """`synced` returns whether a component is up to date, and raises `EndedError` if it has crashed.

        `lacking` returns why it is not, if known. `silent` checks within this number of seconds (before the time scale)
        whether proxies process changes, and returns evidence if they do not, whatever they claim. `hangs` returns at
        once which proxies hang, and is called repeatedly while that is in doubt.
        """
        self._names, self._synced, self._lacking, self._silent = names, synced, lacking, silent
        self._hangs = hangs
        self._heard_nothing, self._asked_at = "", 0.0
        self._in_vain: tuple[str, str] | None = None  # the error text, and the component

    def started(self) -> None:
        """Note that a component was replaced: the next wait has its full time again."""
        self._in_vain = None
        self._heard_nothing = ""

    def settle(self, within: float | None = None) -> float:
        """Wait until all components have processed everything written so far, and the consequences.

        Returns the seconds until the last look at which they had work left. Raises `EndedError` for the first component
        that has crashed, or is not done in time.
        """
        if self._heard_nothing:
            self.expect_work()
        begin = busy_at = time.monotonic()
        behind = ""

        def idle() -> bool:
            nonlocal behind, busy_at
            looked_at = time.monotonic()
            behind = self._behind()
            if behind:
                busy_at = looked_at
                self.doubt()
            return not behind

        try:
            eventually.eventually(
                idle,
                within=AGAIN if self._in_vain else within or CHAIN * eventually.FAR,
                describe=lambda: f"{behind} to have worked on all events{self._why(behind)}",
                error=InconclusiveError,
            )
        except EndedError:
            raise
        except InconclusiveError as error:
            self._in_vain = self._in_vain or (f"{behind} works no longer on what is written: {error}", behind)
            raise EndedError(*self._in_vain) from error
        self._in_vain = None
        return busy_at - begin

    def _why(self, name: str) -> str:
        lacking = self._lacking(name)
        return f" ({lacking})" if lacking else ""

    def check(self) -> None:
        """Raise `EndedError` for the first component that has crashed."""
        for name in self._names:
            self._ask(name)

    def expect_work(self) -> None:
        """Raise `EndedError` if the proxies do not process changes, though they may claim to.

        The first such check takes as long as a wait for a change. Later checks fail at once, and test again now and
        then.
        """
        if self._heard_nothing and time.monotonic() - self._asked_at < ASKED_EVERY * eventually.time_scale():
            raise EndedError(self._heard_nothing, PROXY)
        said = self._silent(AGAIN if self._heard_nothing else eventually.FAR)
        self._asked_at = time.monotonic()
        if not said:
            self._heard_nothing = ""
            return
        claim = "though it claims to have worked on everything"
        self._heard_nothing = self._heard_nothing or f"{PROXY} works no longer on what is written: {said}, {claim}"
        raise EndedError(self._heard_nothing, PROXY)

    def doubt(self) -> None:
        """Raise `EndedError` if the proxies hang. Called during waits for them."""
        if said := self._hangs():
            self._heard_nothing = f"{PROXY} works no longer on what is written: {said}"
            self._asked_at = time.monotonic()
            raise EndedError(self._heard_nothing, PROXY)

    def _behind(self) -> str:
        """Return the first component that has work left; "" if none has."""
        return next((name for name in self._names if not self._ask(name)), "")

    def _ask(self, name: str) -> bool:
        try:
            return self._synced(name)
        except EndedError as error:
            raise EndedError(str(error), name) from error
