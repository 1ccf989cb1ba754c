"""Estimates the rest of a run from expected durations and the time taken so far. Pure: callers pass the time."""

from __future__ import annotations

from collections.abc import Mapping

TRUST = 5.0
"""The weight of expected durations, in seconds of this run's own durations."""


class Eta:
    """The estimate from the expected seconds of each case, by node id, and the number that runs `at_once`.

    `ending` is the time after the last case, in which clusters are closed and reports are written.
    """

    def __init__(self, expected: Mapping[str, float], *, at_once: int, ending: float = 0.0) -> None:
        self._ending = ending
        self._todo = dict(expected)  # cases that have not ended
        self._at_once = max(1, at_once)
        self._took = 0.0
        self._expected = 0.0  # of cases that have ended
        self.running: dict[str, float] = {}  # their starts

    def begin(self, nodeid: str, now: float) -> None:
        """Note the begin of a case."""
        self.running[nodeid] = now

    def end(self, nodeid: str, now: float) -> None:
        """Note the end of a case."""
        since = self.running.pop(nodeid, now)
        if (expected := self._todo.pop(nodeid, None)) is not None:
            self._expected += expected
            self._took += now - since

    def left(self, now: float) -> float:
        """Return the estimated seconds until the end of the run.

        Expected durations are scaled by the ratio that cases of this run have taken so far, ended or running: so the
        estimate covers a busy machine, and workers that slow each other down.
        """
        running, todo = self.running.copy(), self._todo.copy()  # others may begin and end meanwhile
        late = {each: now - since for each, since in running.items() if now - since > todo.get(each, 0.0)}
        took = TRUST + self._took + sum(late.values())
        times = took / (TRUST + self._expected + sum(todo.get(each, 0.0) for each in late))
        rest = {each: max(0.0, s * times - (now - running.get(each, now))) for each, s in todo.items()}
        return self._ending + max(sum(rest.values()) / self._at_once, *(rest.get(each, 0.0) for each in running), 0.0)
