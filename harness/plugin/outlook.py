"""How far a run is, what runs now, and about how long it still takes. Pure: whoever asks says what time it is."""

from __future__ import annotations

from collections.abc import Mapping

TRUST = 5.0
"""Durations that are known weigh as much as so many seconds of what this run itself has taken."""


class Outlook:
    """Cases by node id, with the seconds that each is expected to take; so many run at once.

    `ending` is what the end of the run takes after the last of them: clusters are closed, and reports are written.
    """

    def __init__(self, expected: Mapping[str, float], *, at_once: int, ending: float = 0.0) -> None:
        self._ending = ending
        self._todo = dict(expected)  # what has not ended
        self._at_once = max(1, at_once)
        self._took = 0.0
        self._expected = 0.0  # of what has ended
        self.running: dict[str, float] = {}  # since when

    def begin(self, nodeid: str, now: float) -> None:
        """A case begins."""
        self.running[nodeid] = now

    def end(self, nodeid: str, now: float) -> None:
        """A case is through."""
        since = self.running.pop(nodeid, now)
        if (expected := self._todo.pop(nodeid, None)) is not None:
            self._expected += expected
            self._took += now - since

    def left(self, now: float) -> float:
        """About how many seconds there are to go: what is left, as many times longer than expected as what has ended
        took, and what runs has taken already. That takes in that the machine is busy, and workers in each other's way.
        """
        running, todo = self.running.copy(), self._todo.copy()  # others may begin and end meanwhile
        late = {each: now - since for each, since in running.items() if now - since > todo.get(each, 0.0)}
        took = TRUST + self._took + sum(late.values())
        times = took / (TRUST + self._expected + sum(todo.get(each, 0.0) for each in late))
        rest = {each: max(0.0, s * times - (now - running.get(each, now))) for each, s in todo.items()}
        return self._ending + max(sum(rest.values()) / self._at_once, *(rest.get(each, 0.0) for each in running), 0.0)
