"""The probe loop, which runs all echo servers and all probes of a cluster on one thread. Callers block."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Self

from harness.errors import InconclusiveError, UsageError
from harness.model.outcomes import Observation
from harness.netns.namespace import roam
from harness.probes.control import ControlledBlock, ControlTargets
from harness.probes.probe import Answers, Probe, SocketSource
from harness.probes.reactor import Reactor
from harness.probes.sender import Batch, Recording, Sample
from harness.probes.server import Server, ServerPort
from harness.probes.stream import Stream

__all__ = ["Loop", "Probe", "Recording", "Sample", "Server", "ServerPort", "SocketSource", "Stream"]


class Loop:
    """Serves pods and probes Services. A context manager. Its methods must not be called on the loop's own thread."""

    def __init__(self, targets: ControlTargets | None = None) -> None:
        """`targets` are the targets of control probes. Without targets, no control probes are sent."""
        self._targets = targets
        self._reactor = Reactor()
        self._answers = Answers()

    def start(self) -> None:
        self._reactor.start()
        self._reactor.call(roam)

    def threads(self) -> tuple[threading.Thread, ...]:
        return (self._reactor.thread,)

    def close(self) -> None:
        """Close all servers, streams and probes, and end the thread. Idempotent."""
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
            raise InconclusiveError(f"cannot serve {identity} on {listed}: {error.strerror}") from error
        return server

    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        _check(probes)
        if in_flight < 1:
            raise UsageError(f"{in_flight} probes in flight: expected at least 1")
        if not probes:
            return []
        batch = Batch(probes, reactor=self._reactor, answers=self._answers, targets=self._targets)
        within = -(-len(probes) // in_flight) * max(probe.max_seconds for probe in probes)
        begin = partial(batch.begin, in_flight=in_flight)
        return self._reactor.run(begin, within=within, what=f"{len(probes)} probes")

    def connect(self, probe: Probe) -> Stream:
        _check([probe])
        stream = Stream(probe, reactor=self._reactor, answers=self._answers, targets=self._targets)
        self._reactor.run(stream.begin, within=probe.max_seconds, what="connecting")
        return stream

    def every(self, interval: float, probes: Sequence[Probe]) -> Recording:
        """Send all these probes every `interval` seconds in the background until `Recording.stop` is called."""
        _check(probes)
        if interval <= 0 or not probes:
            raise UsageError(f"cannot send {len(probes)} probes every {interval} s: expected at least one, and a time")
        recording = Recording(tuple(probes), reactor=self._reactor, answers=self._answers, targets=self._targets)
        self._reactor.call(lambda: recording.begin(interval))
        return recording

    def beside(self, probe: Probe, targets: ControlTargets) -> ControlledBlock:
        """Return a context manager that sends control probes from this probe's client during the block."""
        return ControlledBlock(probe, targets=targets, reactor=self._reactor)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(probes: Sequence[Probe]) -> None:
    for probe in probes:
        if probe.protocol not in ("TCP", "UDP"):
            raise UsageError(f"cannot probe {probe.protocol!r}: expected TCP or UDP")
