"""A long-lived connection, which shows whether a flow survives a change, and which server it reaches afterwards."""

import contextlib
import socket
import time
from concurrent.futures import Future
from dataclasses import dataclass, field

from harness.errors import InconclusiveError
from harness.model.outcomes import Observation, Unknown
from harness.probes.control_probes import ControlProbes, ControlTargets, excused, is_missing, once
from harness.probes.probe import (
    LONGEST_LINE,
    Probe,
    ReplyParser,
    connected_socket,
    forget_errors,
    from_error,
    next_nonce,
    send,
)
from harness.probes.reactor import Reactor


@dataclass(frozen=True, slots=True)
class _Deadline:
    _stream: "Stream"
    _question: int
    _began: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> bool:
        return not self._stream.waits_for(self._question)

    def expired(self, now: float) -> None:
        self._stream.overdue(self._began, now, self)


class Stream:
    """A long-lived TCP connection or UDP socket. `opened` is the outcome of opening the connection."""

    def __init__(self, probe: Probe, *, reactor: Reactor, answers: ReplyParser, targets: ControlTargets | None) -> None:
        self.probe = probe
        self.opened: Observation = Unknown("not connected yet")
        self._reactor = reactor
        self._answers = answers
        self._targets = targets
        self._control: ControlProbes | None = None
        self._socket: socket.socket | None = None
        self._ended: Observation | None = None
        self._result: Future[Observation] | None = None
        self._asked = 0
        self._received = 0  # TCP: answers arrive in order, so their number identifies late answers
        self._nonce = b""  # UDP: identifies the answer
        self._buffer = b""

    def ask(self) -> Observation:
        """Send a request over the same connection, and return its outcome within the probe's time limit."""
        return self._reactor.run(self._ask, within=self.probe.max_seconds, what="a request")

    def close(self) -> None:
        with contextlib.suppress(InconclusiveError):  # a loop that has ended has already closed the connection
            self._reactor.call(lambda: self._end(Unknown("this stream is closed")))

    def begin(self, result: Future[Observation]) -> None:
        """Connect, and start the first request. Runs on the loop's thread."""
        self._result = result
        self._watch()
        self._asked += 1
        made = connected_socket(self.probe)
        if not isinstance(made, socket.socket):
            self._end(made)
            return
        self._socket = made
        self._reactor.watch(made.fileno(), self)
        self._question(b"")

    def waits_for(self, question: int) -> bool:
        return self._result is not None and question == self._asked

    def answered(self, outcome: Observation) -> None:
        """Set the outcome of the current request. If the answer is missing, wait for control probes first."""
        control, self._control = self._control, None
        if control is None:
            return
        if is_missing(outcome):
            control.conclude(lambda why: self._report(outcome, why), [self.probe])
        else:
            control.end()
            self._report(outcome)

    def _report(self, outcome: Observation, why: str = "") -> None:
        result, self._result = self._result, None
        if result is None:
            return
        ended, outcome = self._ended is outcome, excused(outcome, why) if why else outcome
        self._ended = outcome if ended else self._ended
        if self._asked == 1:
            self.opened = outcome
        self._reactor.finish(result, outcome)

    def overdue(self, began: float, now: float, deadline: _Deadline) -> None:
        """End the current request, or extend its time limit. Close a TCP connection that never received an answer."""
        outcome = self.probe.overdue(began)
        if isinstance(outcome, float):
            self._reactor.at(now + outcome, deadline)
        elif self.probe.protocol == "TCP" and self._received == 0:
            self._end(outcome)
        else:
            self.answered(outcome)

    def ready(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError as error:
            self._failed(error)
            return
        if self.probe.protocol == "UDP":
            self._on_datagram(data)
        elif data:
            self._on_bytes(data)
        else:
            self._end(Unknown("the server closed the connection"))

    def give_up(self, why: str) -> None:
        self.answered(Unknown(why))

    def drop(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._reactor.forget(sock.fileno())
            sock.close()

    def _watch(self) -> None:
        self._control = ControlProbes(targets=self._targets, reactor=self._reactor, missing=once(self.probe))
        self._control.begin()

    def _ask(self, result: Future[Observation]) -> None:
        self._result = result
        self._asked += 1
        self._watch()
        if self._ended is not None:
            self.answered(self._ended)
        else:
            self._question(b"?\n")

    def _question(self, line: bytes) -> None:
        """Send a request. A TCP server sends its first answer without a request."""
        assert self._socket is not None
        if self.probe.protocol == "UDP":
            self._nonce = line = next_nonce()
        self._reactor.at(time.monotonic() + self.probe.timeout, _Deadline(self, self._asked))
        if line:
            try:
                send(self._socket, line)
            except BlockingIOError:  # the server does not read: the request will time out
                return
            except OSError as error:
                self._failed(error)

    def _on_bytes(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._received += 1
            if self._received == self._asked:
                self.answered(self._answers.read(line))
        if len(self._buffer) > LONGEST_LINE:
            self._end(self._answers.read(self._buffer))

    def _on_datagram(self, data: bytes) -> None:
        nonce, _, line = data.partition(b" ")
        if nonce == self._nonce:
            self.answered(self._answers.read(line))

    def _failed(self, error: OSError) -> None:
        if self.probe.protocol == "UDP":
            if self._socket is not None:
                forget_errors(self._socket)
            self.answered(from_error(error, self.probe))
        else:
            self._end(from_error(error, self.probe))

    def _end(self, outcome: Observation) -> None:
        self._ended = outcome
        self.drop()
        self.answered(outcome)
