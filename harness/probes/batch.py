"""Sends the probes of a measuring window, a limited number at a time."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.outcomes import Observation, Unknown
from harness.probes.probe import ATTEMPTS, Answers, Probe
from harness.probes.reactor import Reactor, Waiter


class Batch:
    """Probes that are started in order, at most `in_flight` at once; finishes `waiter` when all have an outcome."""

    def __init__(
        self, probes: Sequence[Probe], in_flight: int, *, reactor: Reactor, answers: Answers, waiter: Waiter
    ) -> None:
        self.outcomes: list[Observation] = [Unknown("not asked")] * len(probes)
        self._probes = probes
        self._in_flight = in_flight
        self._reactor = reactor
        self._answers = answers
        self._waiter = waiter
        self._next = 0
        self._flying = 0

    def pump(self) -> None:
        """Start probes up to the limit. On the loop's thread."""
        probes = self._probes
        while self._flying < self._in_flight and self._next < len(probes):
            index = self._next
            self._next += 1
            probe = probes[index]
            attempt = ATTEMPTS[probe.protocol](
                probe, index, reactor=self._reactor, answers=self._answers, report=self._report
            )
            outcome = attempt.begin()
            if outcome is None:
                self._flying += 1
            else:
                self.outcomes[index] = outcome
        if not self._flying:
            self._reactor.finished(self._waiter)

    def _report(self, index: int, outcome: Observation) -> None:
        self.outcomes[index] = outcome
        self._flying -= 1
        self.pump()
