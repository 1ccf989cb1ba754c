"""One probe of an address, and its outcome.

A probe needs a single epoll event: a TCP server sends first, and a UDP client sends right after connecting.
"""

import contextlib
import errno
import itertools
import os
import re
import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from harness.errors import HarnessError
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Refused, Unknown
from harness.netns.rtnetlink import has_route
from harness.probes.reactor import Reactor
from harness.run_delay import RUN_DELAY, time_left

LONGEST_LINE = 512  # longest answer of an echo server in bytes

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""With SO_LINGER 0, closing sends RST: conntrack entries last 10 s, not 120 s, and no TIME_WAIT socket is left."""

REPEATED_SYN = 1.0  # seconds after which the kernel retransmits a SYN

MOST, MOST_IF_STOPPED = 5, 2
"""The maximum factors by which a probe's time limit is extended: usually, and while a program is stopped."""

_REFUSALS = {errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOPROTOOPT, errno.EPERM}
"""Errors that only the network path causes, never the client. Socket-level load balancers usually refuse with EPERM."""
_UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EHOSTDOWN, errno.ENONET}
"""Errors of the path, or of a client without a route (Linux: icmp_err_convert, icmpv6_err_convert)."""

_TOTAL_RETRANS = 100  # offset of tcpi_total_retrans in struct tcp_info of linux/tcp.h
_ESTABLISHED = 1  # TCP_ESTABLISHED of linux/tcp_states.h, in the first byte of struct tcp_info
_ALL_ERRORS = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
"""IP_RECVERR and IPV6_RECVERR of linux/in.h and in6.h."""
_FLAGS = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_ANSWER = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*) ([0-9A-Fa-f.:]+(?:%\w+)?)")
_nonces = itertools.count(secrets.randbits(48))
_ports = itertools.cycle([*range(11_000, 30_000), *range(33_000, 65_536)])
"""Source ports of probes. They exclude node ports and the ports of node components (up to 10,259)."""
_PORTS_TRIED = 20


class SocketSource(Protocol):
    """Creates sockets in a client's netns, as `harness.netns.namespace.Namespace` does."""

    def socket(self, family: int, kind: int, proto: int = 0, /) -> socket.socket: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A request from a client's netns. `protocol` is "TCP" or "UDP". With `silent`, no answer is expected.

    The kernel retransmits a lost SYN after one second, so a longer time limit would hide a short drop.
    """

    namespace: SocketSource
    protocol: str
    address: str
    port: int
    timeout: float = 1.0
    source: str = ""
    silent: bool = False

    @property
    def max_seconds(self) -> float:
        """The maximum time in seconds until the probe has an outcome, provided that the loop keeps up."""
        return self.timeout * (1 if self.silent else MOST)

    def overdue(self, began: float) -> Observation | float:
        """Return the outcome if the time limit has passed, else the remaining seconds. `began` is a monotonic time."""
        passed = time.monotonic() - began
        return TIMED_OUT if self.silent else without_answer(self.timeout, passed, RUN_DELAY.lost(began))


def without_answer(limit: float, passed: float, lost: float) -> Observation | float:
    """Return the outcome of a probe without an answer, or the seconds for which it still waits."""
    left, had_limit = time_left(limit, passed, lost, MOST_IF_STOPPED if RUN_DELAY.stopped else MOST)
    if had_limit:
        return TIMED_OUT
    if left > 0:
        return left
    return Unknown(
        f"it got no answer, and the programs of this run could not run for up to {lost:.3f} of {passed:.3f} s"
    )


class ReplyParser:
    def __init__(self) -> None:
        self.identities: set[str] = set()
        self.read = lru_cache(10_000)(self._read)

    def expect(self, identity: str) -> None:
        """Expect answers from this identity. Answers from identities that were never expected are `Unknown`."""
        self.identities.add(identity)
        self.read.cache_clear()

    def _read(self, line: bytes) -> Observation:
        found = _ANSWER.fullmatch(line.decode("ascii", "replace"))
        if found is None:
            return Unknown(f"an unknown server answered: {line[:60]!r}")
        if self.identities and found[1] not in self.identities:
            return Unknown(f"an unknown server answered: {found[1]!r} is not a server of this run")
        return Reached(found[1], found[2])


def from_error(error: OSError, probe: Probe) -> Observation:
    """Return the outcome for a socket's error. "Unreachable" and "prohibited" are refusals if there is a route."""
    if error.errno == errno.ETIMEDOUT:
        return TIMED_OUT
    refused = error.errno in _REFUSALS
    if error.errno in _UNREACHABLE:
        with contextlib.suppress(OSError, HarnessError):
            refused = has_route(probe.namespace.socket, probe.address)
    return Refused(errno.errorcode[error.errno or 0]) if refused else unknown_from(error)


def unknown_from(error: OSError) -> Unknown:
    """Return `Unknown` with the error's name and message, such as "EHOSTUNREACH: No route to host"."""
    number = error.errno or 0
    return Unknown(f"{errno.errorcode.get(number, type(error).__name__)}: {os.strerror(number) if number else error}")


def next_nonce() -> bytes:
    return b"%x" % next(_nonces)


def connected_socket(probe: Probe) -> socket.socket | Observation:
    """Return a non-blocking socket in the client's netns, connected or connecting (TCP), or the outcome of an error.

    A node may reject a SYN by ICMP while `connect` still locks the socket. Then the kernel (tcp_v4_err, tcp_v6_err)
    stores a soft error, which only SO_ERROR returns, and retransmits the SYN a second later.
    """
    tcp = probe.protocol == "TCP"
    family = socket.AF_INET6 if ":" in probe.address else socket.AF_INET
    try:
        sock = probe.namespace.socket(family, (socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) | _FLAGS)
    except OSError as error:
        return unknown_from(error)
    except HarnessError as error:
        return Unknown(str(error))
    try:
        if tcp:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        else:  # a UDP socket receives "host unreachable" only with IP_RECVERR
            sock.setsockopt(*_ALL_ERRORS[family], 1)
        bind_unused(sock, probe.source)
        failure = sock.connect_ex((probe.address, probe.port))
        if failure == errno.EINPROGRESS:
            failure = _so_far(sock)
    except OSError as error:
        sock.close()
        return unknown_from(error)
    if failure:
        sock.close()
        return from_error(OSError(failure, ""), probe)
    return sock


def _so_far(sock: socket.socket) -> int:
    """Return the error of a TCP socket for which `connect` has just returned EINPROGRESS, or 0.

    Once connected, disable quick acknowledgements, which saves one of six segments but would delay the handshake.
    """
    if sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED:
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    return 0


def bind_unused(sock: socket.socket, source: str = "") -> None:
    """Bind to a port that none of the last 50,000 probes has used. Raises `OSError`.

    The kernel may reuse a port while the conntrack entry of an earlier connection still exists: after about 3,000
    connections, or by chance (since Linux 5.18, it chooses a new starting port every ten seconds). A UDP entry (30 to
    120 s) leads to the earlier request's server. A TCP entry (120 s) may belong to a SYN from before the proxy
    programmed the Service, and leads to no server. Both are correct for the earlier flow, but would look like faults.
    """
    for left in reversed(range(_PORTS_TRIED)):
        try:
            sock.bind((source, next(_ports)))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not left:
                raise
        else:
            return


def send(sock: socket.socket, question: bytes) -> None:
    """Send a request. Raises `OSError`. Ignores EPERM, which means that the client's node filters the packet."""
    with contextlib.suppress(PermissionError):
        sock.send(question)


def forget_errors(sock: socket.socket) -> None:
    """Drain the error queue of a UDP socket. Otherwise, epoll would report the socket forever."""
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.recvmsg(0, 0, socket.MSG_ERRQUEUE)


def repeats(sock: socket.socket) -> int:
    """Return the number of retransmitted segments of a TCP connection, including its SYN."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS + 4)
    return int.from_bytes(info[_TOTAL_RETRANS:], sys.byteorder)


@dataclass(slots=True, eq=False)
class Attempt:
    """A running probe. `report` is called once with its index and outcome, unless `begin` returned the outcome."""

    probe: Probe
    index: int
    reactor: Reactor
    answers: ReplyParser
    report: Callable[[int, Observation], None]
    done: bool = False
    _buffer: bytes = b""  # TCP: the beginning of the answer; UDP: the nonce
    _began: float = 0.0
    _socket: socket.socket = field(init=False)

    def begin(self) -> Observation | None:
        sock = connected_socket(self.probe)
        if not isinstance(sock, socket.socket):
            self.done = True
            return sock
        self._socket = sock
        self._began = time.monotonic()
        if self.probe.protocol == "UDP":
            self._buffer = next_nonce()
            try:
                send(sock, self._buffer)
            except OSError as error:
                sock.close()
                self.done = True
                return from_error(error, self.probe)
        self.reactor.watch(sock.fileno(), self)
        self.reactor.at(self._began + self.probe.timeout, self)
        return None

    def ready(self) -> None:
        try:
            data = self._socket.recv(LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(from_error(error, self.probe))
            return
        if self.probe.protocol == "TCP":
            outcome = self._of_stream(data)
        else:
            nonce, _, line = data.partition(b" ")
            outcome = self.answers.read(line) if nonce == self._buffer else None
        if outcome is not None:
            self._finish(outcome)

    def expired(self, now: float) -> None:
        outcome = self.probe.overdue(self._began)
        if isinstance(outcome, float):
            self.reactor.at(now + outcome, self)
        else:
            self._finish(outcome)

    def give_up(self, why: str) -> None:
        self._finish(Unknown(why))

    def drop(self) -> None:
        self.done = True
        self.reactor.forget(self._socket.fileno())
        self._socket.close()

    def _finish(self, outcome: Observation) -> None:
        if not self.done:
            self.drop()
            self.report(self.index, outcome)

    def _of_stream(self, data: bytes) -> Observation | None:
        """Return the outcome if these bytes complete an answer. After a retransmitted SYN, the outcome is a timeout."""
        line, newline, _ = (self._buffer + data).partition(b"\n")
        if newline or len(line) > LONGEST_LINE:
            late = time.monotonic() - self._began >= REPEATED_SYN
            return TIMED_OUT if late and repeats(self._socket) else self.answers.read(line)
        if not data:
            return Unknown(f"the server closed the connection without sending its name, after {line[:60]!r}")
        self._buffer = line
        return None
