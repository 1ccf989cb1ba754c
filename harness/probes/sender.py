"""Sends many probes, either as fast as possible with a limited number in flight, or at a fixed rate.

At a fixed rate, the next probe is sent even if the previous one has no answer, so gaps are measured in milliseconds.
"""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from harness.model.outcomes import Observation, Unknown
from harness.probes.control import Control, ControlTargets, excused, is_missing
from harness.probes.probe import Answers, Attempt, Probe
from harness.probes.reactor import Reactor

_PENDING = Unknown("no answer yet")


class Sample(NamedTuple):
    """A probe that was sent: its index, start (monotonic seconds), outcome and duration."""

    at: float
    observation: Observation
    probe: int
    seconds: float


class _ProbeSender(ABC):
    """Probes with their outcomes, and control probes for missing answers. Runs on the loop's thread."""

    def __init__(
        self, probes: Sequence[Probe], *, reactor: Reactor, answers: Answers, targets: ControlTargets | None
    ) -> None:
        self._probes = probes
        self._reactor = reactor
        self._answers = answers
        self._flying = 0
        self._outcomes: list[Observation] = []
        self._result: Future[list[Observation]] | None = None
        self._control = Control(targets=targets, reactor=reactor, missing=self._missing)
        self._looked_at = self._sent = 0  # each missing answer gets one round, after some time to arrive

    @property
    def asked(self) -> int:
        return len(self._outcomes)

    def _send(self) -> None:
        """Send the next probe. The first probe follows the last."""
        number = len(self._outcomes)
        self._outcomes.append(_PENDING)
        probe = self._probes[number % len(self._probes)]
        outcome = Attempt(probe, number, self._reactor, self._answers, self._report).begin()
        if outcome is None:
            self._flying += 1
        else:
            self._outcomes[number] = outcome

    def _report(self, number: int, outcome: Observation) -> None:
        self._outcomes[number] = outcome
        self._flying -= 1
        self._proceed()

    @abstractmethod
    def _proceed(self) -> None: ...

    def _conclude(self) -> None:
        """Finish the result, after a last round of control probes if answers are missing."""
        if any(map(is_missing, self._outcomes)):
            self._control.conclude(self._concluded, self._without_answer(self._looked_at, self.asked))
        else:
            self._control.end()
            self._concluded("")

    def _concluded(self, why: str) -> None:
        if why:
            self._outcomes = [excused(each, why) for each in self._outcomes]
        assert self._result is not None
        self._reactor.finish(self._result, self._outcomes)

    def _missing(self) -> list[Probe]:
        """Return the unanswered probes that were sent between the two previous calls."""
        begin, self._looked_at, self._sent = self._looked_at, self._sent, self.asked
        return self._without_answer(begin, self._looked_at)

    def _without_answer(self, begin: int, end: int) -> list[Probe]:
        sent = range(begin, end)
        return [self._probes[each % len(self._probes)] for each in sent if is_missing(self._outcomes[each])]


class Batch(_ProbeSender):
    """Sends probes in order, with at most `in_flight` of them unanswered at any time."""

    def begin(self, result: Future[list[Observation]], in_flight: int) -> None:
        self._result = result
        self._in_flight = in_flight
        self._control.begin()
        self._proceed()

    def _proceed(self) -> None:
        while self._flying < self._in_flight and len(self._outcomes) < len(self._probes):
            self._send()
        if not self._flying:
            self._conclude()


class Recording(_ProbeSender):
    """Sends each probe every `interval` seconds. The probes are evenly spaced, so shorter gaps are detected too."""

    done = False

    def begin(self, interval: float) -> None:
        self._step = interval / len(self._probes)
        self._times: list[float] = []
        self._seconds: list[float] = []
        self._control.begin()
        self._due = time.monotonic()
        self.expired(self._due)

    def stop(self) -> list[Sample]:
        def command(result: Future[list[Observation]]) -> None:
            self.done = True
            self._result = result
            self._proceed()

        within = max(probe.max_seconds for probe in self._probes)
        outcomes = self._reactor.run(command, within=within, what="a recording")
        turns = itertools.cycle(range(len(self._probes)))
        return list(map(Sample, self._times, outcomes, turns, self._seconds))

    def expired(self, now: float) -> None:
        """Send the next probe, and set the timer for the following step. Missed steps are skipped."""
        at = time.monotonic()
        self._times.append(at)
        self._send()
        self._seconds.append(time.monotonic() - at)
        self._due += self._step * max(1, int((now - self._due) / self._step) + 1)
        self._reactor.at(self._due, self)

    def _report(self, number: int, outcome: Observation) -> None:
        self._seconds[number] = time.monotonic() - self._times[number]
        super()._report(number, outcome)

    def _proceed(self) -> None:
        if self._result is not None and not self._flying:
            self._conclude()
