"""The probe loop, which runs all echo servers and probes of a cluster on one thread. Calls from other threads block."""

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, Self

from harness.errors import InconclusiveError, UsageError
from harness.model.outcomes import Observation, Unknown
from harness.netns.namespace import roam
from harness.probes.control_probes import ConcurrentControlProbes, ControlProbes, ControlTargets, excused, is_missing
from harness.probes.probe import Attempt, Probe, ReplyParser, SocketSource
from harness.probes.reactor import Reactor
from harness.probes.server import Server, ServerPort
from harness.probes.stream import Stream

__all__ = ["Probe", "ProbeLoop", "SentProbe", "Server", "ServerPort", "SocketSource", "Stream", "TimedProbes"]

_PENDING = Unknown("no answer yet")


class SentProbe(NamedTuple):
    """A probe that was sent: its index, start (monotonic seconds), outcome and duration."""

    at: float
    observation: Observation
    probe: int
    seconds: float


class _ProbeSender(ABC):
    """Sends probes and, for missing answers, control probes. Collects outcomes. Runs on the loop's thread."""

    def __init__(
        self, probes: Sequence[Probe], *, reactor: Reactor, answers: ReplyParser, targets: ControlTargets | None
    ) -> None:
        self._probes = probes
        self._reactor = reactor
        self._answers = answers
        self._flying = 0
        self._outcomes: list[Observation] = []
        self._result: Future[list[Observation]] | None = None
        self._control = ControlProbes(targets=targets, reactor=reactor, missing=self._missing)
        self._looked_at = self._sent = 0  # probes sent before the last two calls of `_missing`

    @property
    def asked(self) -> int:
        return len(self._outcomes)

    def _send(self) -> None:
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


class ProbeBatch(_ProbeSender):
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


class TimedProbes(_ProbeSender):
    """Sends each probe every `interval` seconds. The probes are evenly spaced, so that short outages are detected."""

    done = False

    def begin(self, interval: float) -> None:
        self._step = interval / len(self._probes)
        self._times: list[float] = []
        self._seconds: list[float] = []
        self._control.begin()
        self._due = time.monotonic()
        self.expired(self._due)

    def stop(self) -> list[SentProbe]:
        def command(result: Future[list[Observation]]) -> None:
            self.done = True
            self._result = result
            self._proceed()

        within = max(probe.max_seconds for probe in self._probes)
        outcomes = self._reactor.run(command, within=within, what="a recording")
        turns = itertools.cycle(range(len(self._probes)))
        return list(map(SentProbe, self._times, outcomes, turns, self._seconds))

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


class ProbeLoop:
    """A context manager that runs echo servers and probes. Its methods must not be called on the loop's own thread."""

    def __init__(self, targets: ControlTargets | None = None) -> None:
        self._targets = targets
        self._reactor = Reactor()
        self._answers = ReplyParser()

    def start(self) -> None:
        self._reactor.start()
        self._reactor.call(roam)

    def threads(self) -> tuple[threading.Thread, ...]:
        return (self._reactor.thread,)

    def close(self) -> None:
        self._reactor.close()

    def serve(self, namespace: SocketSource, identity: str, ports: Sequence[ServerPort]) -> Server:
        """Start a server that answers as `identity`. Raises `InconclusiveError` if a port is in use."""
        server = Server(identity, self._reactor)

        def opened() -> None:
            self._answers.expect(identity)
            server.open(namespace, tuple(ports))

        try:
            self._reactor.call(opened)
        except OSError as error:
            listed = ", ".join(f"{port.protocol} {port.address or '*'}:{port.port} ({port.family})" for port in ports)
            raise InconclusiveError(f"cannot start echo server {identity} on {listed}: {error.strerror}") from error
        return server

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        _check(probes)
        if in_flight < 1:
            raise UsageError(f"{in_flight} probes in flight: expected at least 1")
        if not probes:
            return []
        batch = ProbeBatch(probes, reactor=self._reactor, answers=self._answers, targets=self._targets)
        within = -(-len(probes) // in_flight) * max(probe.max_seconds for probe in probes)
        begin = partial(batch.begin, in_flight=in_flight)
        return self._reactor.run(begin, within=within, what=f"{len(probes)} probes")

    def connect(self, probe: Probe) -> Stream:
        _check([probe])
        stream = Stream(probe, reactor=self._reactor, answers=self._answers, targets=self._targets)
        self._reactor.run(stream.begin, within=probe.max_seconds, what="connecting")
        return stream

    def every(self, interval: float, probes: Sequence[Probe]) -> TimedProbes:
        """Send all these probes every `interval` seconds in the background until `TimedProbes.stop` is called."""
        _check(probes)
        if interval <= 0 or not probes:
            raise UsageError(f"cannot send {len(probes)} probes every {interval} s: both must be above 0")
        recording = TimedProbes(tuple(probes), reactor=self._reactor, answers=self._answers, targets=self._targets)
        self._reactor.call(lambda: recording.begin(interval))
        return recording

    def controlled(self, probe: Probe, targets: ControlTargets) -> ConcurrentControlProbes:
        """Return a context manager that sends control probes from this probe's client during the block."""
        return ConcurrentControlProbes(probe, targets=targets, reactor=self._reactor)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(probes: Sequence[Probe]) -> None:
    for probe in probes:
        if probe.protocol not in ("TCP", "UDP"):
            raise UsageError(f"cannot probe {probe.protocol!r}: expected TCP or UDP")
