"""Sends the probes of a measuring window, with a limited number in flight."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.outcomes import Observation, Unknown
from harness.probes.control import Control, ControlTargets, Unanswered, excuse, is_missing
from harness.probes.probe import ATTEMPTS, Answers, Probe
from harness.probes.reactor import Reactor, Waiter


class Batch:
    """Sends probes in order, at most `in_flight` at once, with control probes for missing answers.

    It finishes `waiter` when all probes have an outcome.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        in_flight: int,
        *,
        reactor: Reactor,
        answers: Answers,
        targets: ControlTargets,
        waiter: Waiter,
    ) -> None:
        self.outcomes: list[Observation] = [Unknown("not sent")] * len(probes)
        self._probes = probes
        self._in_flight = in_flight
        self._reactor = reactor
        self._answers = answers
        self._waiter = waiter
        self._next = 0
        self._flying = 0
        self._unanswered = Unanswered()
        self._control = Control(targets=targets, reactor=reactor, missing=self._missing)

    def begin(self) -> None:
        """Start the first probes, on the loop's thread."""
        self._control.begin()
        self.pump()

    def pump(self) -> None:
        """Start probes up to the limit."""
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
            self._conclude()

    def _missing(self) -> list[Probe]:
        """Return the probes without an answer that had been started before the previous call."""
        return self._without_answer(self._unanswered.look(self._next))

    def _without_answer(self, some: range) -> list[Probe]:
        return [self._probes[index] for index in some if is_missing(self.outcomes[index])]

    def _conclude(self) -> None:
        if any(map(is_missing, self.outcomes)):
            self._control.conclude(self._concluded, self._without_answer(self._unanswered.rest(self._next)))
        else:
            self._control.end()
            self._reactor.finished(self._waiter)

    def _concluded(self, why: str) -> None:
        self.outcomes = excuse(self.outcomes, why)
        self._reactor.finished(self._waiter)

    def _report(self, index: int, outcome: Observation) -> None:
        self.outcomes[index] = outcome
        self._flying -= 1
        self.pump()
