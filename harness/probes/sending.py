"""Sends many probes: as fast as possible with a limited number in flight, or at a fixed rate.

At a fixed rate, gaps can be measured in milliseconds: the next probe is sent on time even if the previous probe has no
answer. So a proxy that drops packets for 200 ms loses all probes of those 200 ms, not only one probe.
"""

from __future__ import annotations

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
    """One probe that was sent: its start (monotonic seconds), outcome, index, and duration."""

    at: float
    observation: Observation
    probe: int
    seconds: float


class _Sending(ABC):
    """Probes with their outcomes, and with control probes for missing answers. Runs on the loop's thread."""

    def __init__(
        self, probes: Sequence[Probe], *, reactor: Reactor, answers: Answers, targets: ControlTargets | None
    ) -> None:
        self._probes = probes
        self._reactor = reactor
        self._answers = answers
        self._flying = 0
        self._samples: list[Sample] = []
        self._future: Future[list[Sample]] | None = None
        self._control = Control(targets=targets, reactor=reactor, missing=self._missing)
        self._looked_at = self._sent = 0  # each missing answer gets one round, after it had time to arrive

    @property
    def asked(self) -> int:
        """The number of probes sent so far; thread-safe."""
        return len(self._samples)

    def _send(self, index: int) -> None:
        probe, number = self._probes[index], len(self._samples)
        self._samples.append(Sample(time.monotonic(), _PENDING, index, 0.0))
        attempt = Attempt(probe, number, reactor=self._reactor, answers=self._answers, report=self._report)
        outcome = attempt.begin()
        if outcome is None:
            self._flying += 1
        else:
            self._note(number, outcome)

    def _report(self, number: int, outcome: Observation) -> None:
        self._note(number, outcome)
        self._flying -= 1
        self._proceed()

    def _note(self, number: int, outcome: Observation) -> None:
        sample = self._samples[number]
        self._samples[number] = Sample(sample.at, outcome, sample.probe, time.monotonic() - sample.at)

    @abstractmethod
    def _proceed(self) -> None:
        """Continue after an outcome."""

    def _conclude(self) -> None:
        """Finish the future, after a last round of control probes if answers are missing."""
        if any(is_missing(sample.observation) for sample in self._samples):
            self._control.conclude(self._concluded, self._without_answer(self._looked_at, self.asked))
        else:
            self._control.end()
            self._concluded("")

    def _concluded(self, why: str) -> None:
        if why:
            self._samples = [each._replace(observation=excused(each.observation, why)) for each in self._samples]
        assert self._future is not None
        self._reactor.finish(self._future, self._samples)

    def _missing(self) -> list[Probe]:
        """Return the probes without an answer that were sent between the previous two calls."""
        begin, self._looked_at, self._sent = self._looked_at, self._sent, self.asked
        return self._without_answer(begin, self._looked_at)

    def _without_answer(self, begin: int, end: int) -> list[Probe]:
        return [self._probes[each.probe] for each in self._samples[begin:end] if is_missing(each.observation)]


class Batch(_Sending):
    """Sends probes in order, at most `in_flight` at once."""

    def begin(self, future: Future[list[Sample]], in_flight: int) -> None:
        """Start the first probes. `future` gets all samples."""
        self._future = future
        self._in_flight = in_flight
        self._control.begin()
        self._proceed()

    def _proceed(self) -> None:
        while self._flying < self._in_flight and self.asked < len(self._probes):
            self._send(self.asked)
        if not self._flying:
            self._conclude()


class Recording(_Sending):
    """Sends each probe every `interval` seconds until it is stopped, evenly spaced.

    Because probes are evenly spaced, a gap that affects all clients is found even if it is shorter than `interval`.
    """

    done = False

    def stop(self) -> list[Sample]:
        """Stop sending, wait for the last answers, and return all samples in order."""

        def command(future: Future[list[Sample]]) -> None:
            self.done = True
            self._future = future
            self._proceed()

        return self._reactor.run(command, within=max(probe.timeout for probe in self._probes), what="a recording")

    def begin(self, interval: float) -> None:
        """Send the first probe."""
        self._step = interval / len(self._probes)
        self._turn = 0
        self._control.begin()
        self._due = time.monotonic()
        self.expired(self._due)

    def expired(self, now: float) -> None:
        """Send the next probe, and set the timer for the following step. Missed steps are skipped."""
        self._send(self._turn)
        self._turn = (self._turn + 1) % len(self._probes)
        self._due += self._step * max(1, int((now - self._due) / self._step) + 1)
        self._reactor.at(self._due, self)

    def _proceed(self) -> None:
        if self._future is not None and not self._flying:
            self._conclude()
