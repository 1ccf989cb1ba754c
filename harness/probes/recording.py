"""Sends probes at a fixed rate, to measure gaps in milliseconds.

The next probe is sent on time even if the previous probe has no answer. So a proxy that drops packets for 200 ms loses
all probes of those 200 ms, not only one probe.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from harness.errors import InconclusiveError
from harness.model.outcomes import Observation, Unknown
from harness.probes.control import Control, ControlTargets, Unanswered, excused, is_missing
from harness.probes.probe import ATTEMPTS, Answers, Probe
from harness.probes.reactor import Reactor, Waiter


class Sample(NamedTuple):
    """One probe of a recording: its start (monotonic seconds), outcome, index, and duration."""

    at: float
    observation: Observation
    probe: int
    seconds: float


class Recording:
    """Sends each probe every `interval` seconds until it is stopped, evenly spaced, with control probes.

    Because probes are evenly spaced, a gap that affects all clients is found even if it is shorter than `interval`.
    """

    def __init__(
        self, interval: float, probes: Sequence[Probe], *, reactor: Reactor, answers: Answers, targets: ControlTargets
    ) -> None:
        self.done = False
        self._probes = tuple(probes)
        self._step = interval / len(self._probes)
        self._turn = 0
        self._reactor = reactor
        self._answers = answers
        self._due = 0.0
        self._flying = 0
        self._samples: list[Sample] = []
        self._waiter: Waiter | None = None
        self._unanswered = Unanswered()
        self._control = Control(targets=targets, reactor=reactor, missing=self._missing)

    @property
    def asked(self) -> int:
        """The number of probes sent so far; thread-safe."""
        return len(self._samples)

    def stop(self) -> list[Sample]:
        """Stop sending, wait for the last answers, and return all samples in order."""
        waiter = Waiter()

        def command() -> None:
            self.done = True
            self._waiter = waiter
            self._settle()

        self._reactor.post(command, waiter)
        if not waiter.wait(60 + max(probe.timeout for probe in self._probes)):
            raise InconclusiveError("the probe loop did not finish a recording")
        return list(self._samples)

    def begin(self) -> None:
        """Send the first probe, on the loop's thread."""
        self._control.begin()
        self._due = time.monotonic()
        self.expired(self._due)

    def expired(self, now: float) -> None:
        """Send the next probe, and set the timer for the following step. Missed steps are skipped."""
        self._ask(self._turn)
        self._turn = (self._turn + 1) % len(self._probes)
        self._due += self._step * max(1, int((now - self._due) / self._step) + 1)
        self._reactor.at(self._due, self)

    def _ask(self, index: int) -> None:
        probe = self._probes[index]
        number = len(self._samples)
        self._samples.append(Sample(time.monotonic(), Unknown("no answer yet"), index, 0.0))
        attempt = ATTEMPTS[probe.protocol](
            probe, number, reactor=self._reactor, answers=self._answers, report=self._report
        )
        outcome = attempt.begin()
        if outcome is None:
            self._flying += 1
        else:
            self._note(number, outcome)

    def _report(self, number: int, outcome: Observation) -> None:
        self._note(number, outcome)
        self._flying -= 1
        self._settle()

    def _note(self, number: int, outcome: Observation) -> None:
        sample = self._samples[number]
        self._samples[number] = Sample(sample.at, outcome, sample.probe, time.monotonic() - sample.at)

    def _settle(self) -> None:
        if self._waiter is None or self._flying:
            return
        if any(is_missing(sample.observation) for sample in self._samples):
            self._control.conclude(self._concluded, self._without_answer(self._unanswered.rest(self.asked)))
        else:
            self._control.end()
            self._reactor.finished(self._waiter)

    def _missing(self) -> list[Probe]:
        """Return the probes of samples without an answer that had been sent before the previous call."""
        return self._without_answer(self._unanswered.look(self.asked))

    def _without_answer(self, some: range) -> list[Probe]:
        samples = (self._samples[index] for index in some)
        return [self._probes[each.probe] for each in samples if is_missing(each.observation)]

    def _concluded(self, why: str) -> None:
        if why:
            self._samples = [each._replace(observation=excused(each.observation, why)) for each in self._samples]
        assert self._waiter is not None
        self._reactor.finished(self._waiter)
