"""One probe of an address, and its outcome.

A probe is one new socket, made in the client's netns: connect, read the server's name, close. It takes a single epoll
event, since the server speaks first (TCP) or the question is sent at once (UDP).
"""

from __future__ import annotations

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
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.errors import HarnessError
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Refused, Unknown
from harness.netns.rtnetlink import has_route
from harness.probes.reactor import Reactor

LONGEST_LINE = 512
"""The longest answer in bytes; a longer one is a stranger's."""

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER 0: close with RST, which leaves conntrack entries of 10 s instead of 120 s and no TIME_WAIT socket."""

REPEATED_SYN = 1.0
"""Seconds after which the kernel sends a SYN again."""

_OF_A_SERVER = {errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOPROTOOPT, errno.EPERM}
"""Errors that only somebody on the way makes; EPERM is what a socket-level load balancer answers unless it chooses."""
_OF_A_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EHOSTDOWN, errno.ENONET}
"""Errors that a missing route of the client makes as well (linux: icmp_err_convert, icmpv6_err_convert)."""

_TOTAL_RETRANS = 100  # where tcpi_total_retrans stands in struct tcp_info of linux/tcp.h
_ESTABLISHED = 1  # TCP_ESTABLISHED of linux/tcp_states.h, in the first byte of struct tcp_info
_ALL_ERRORS = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
"""IP_RECVERR and IPV6_RECVERR of linux/in.h and in6.h."""
_FLAGS = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_ANSWER = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*) ([0-9A-Fa-f.:]+(?:%\w+)?)")
_nonces = itertools.count(secrets.randbits(48))
_ports = itertools.cycle([*range(11_000, 30_000), *range(33_000, 65_536)])
"""Without ports that components of a node listen on, up to 10,259, and without node ports."""
_PORTS_TRIED = 20


class SocketSource(Protocol):
    """Makes sockets in a client's network, as `harness.netns.namespace.Namespace` does."""

    def socket(self, family: int, kind: int, proto: int = 0, /) -> socket.socket: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A question: its client's netns, its target, and its time limit (seconds).

    `protocol` is "TCP" or "UDP", `address` a numeric IPv4 or IPv6 address, `source` an address of the client to send
    from. The kernel repeats a lost SYN after one second: a longer time limit would hide a short drop.
    """

    namespace: SocketSource
    protocol: str
    address: str
    port: int
    timeout: float = 1.0
    source: str = ""


class Answers:
    """Parses the answers of servers. Equal bytes are parsed only once."""

    def __init__(self) -> None:
        self.identities: set[str] = set()
        self._known: dict[bytes, Observation] = {}

    def expect(self, identity: str) -> None:
        """Expect answers from this identity. From now on an unexpected one is a stranger."""
        self.identities.add(identity)
        self._known.clear()

    def read(self, line: bytes) -> Observation:
        """Return the outcome of the answer "<identity> <client address>": `Reached`, or `Unknown` for a stranger."""
        known = self._known.get(line)
        if known is None:
            if len(self._known) > 10_000:
                self._known.clear()
            known = self._known[line] = self._judge(line)
        return known

    def _judge(self, line: bytes) -> Observation:
        found = _ANSWER.fullmatch(line.decode("ascii", "replace"))
        if found is None:
            return Unknown(f"a stranger answered: {line[:60]!r}")
        if self.identities and found[1] not in self.identities:
            return Unknown(f"a stranger answered: {found[1]!r} is not a server of this run")
        return Reached(found[1], found[2])


def from_error(error: OSError, probe: Probe) -> Observation:
    """Return the outcome of a probe whose socket had this error.

    "Unreachable" and "prohibited" are refusals where the client itself has a route there: then somebody else said so.
    """
    if error.errno == errno.ETIMEDOUT:
        return TIMED_OUT
    refused = error.errno in _OF_A_SERVER
    if error.errno in _OF_A_ROUTE:
        with contextlib.suppress(OSError, HarnessError):
            refused = has_route(probe.namespace.socket, probe.address)
    return Refused(errno.errorcode[error.errno or 0]) if refused else cannot_tell(error)


def cannot_tell(error: OSError) -> Unknown:
    """Return `Unknown` with the error's name and text, as in "EHOSTUNREACH: No route to host"."""
    number = error.errno or 0
    return Unknown(f"{errno.errorcode.get(number, type(error).__name__)}: {os.strerror(number) if number else error}")


def next_nonce() -> bytes:
    """Return a word that no other question of this or another run has."""
    return b"%x" % next(_nonces)


def connected_socket(probe: Probe) -> socket.socket | Observation:
    """Return a non-blocking socket in the client's netns, connected or (TCP) connecting, or the outcome of a failure.

    If a node on this machine rejects a SYN by ICMP, the error comes back while `connect` still holds the socket. Then
    the kernel (tcp_v4_err, tcp_v6_err) keeps it as a soft error, which only SO_ERROR returns, and sends another SYN a
    second later: a refusal by a proxy that rejects in this way, as kube-proxy does, would look like silence.
    """
    tcp = probe.protocol == "TCP"
    family = socket.AF_INET6 if ":" in probe.address else socket.AF_INET
    try:
        sock = probe.namespace.socket(family, (socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) | _FLAGS)
    except OSError as error:
        return cannot_tell(error)
    except HarnessError as error:
        return Unknown(str(error))
    try:
        if tcp:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        else:  # the kernel tells a socket for datagrams of "host unreachable" only if it asks for all errors
            sock.setsockopt(*_ALL_ERRORS[family], 1)
        bind_unused(sock, probe.source)
        failure = sock.connect_ex((probe.address, probe.port))
        if failure == errno.EINPROGRESS:
            failure = _so_far(sock)
    except OSError as error:
        sock.close()
        return cannot_tell(error)
    if failure:
        sock.close()
        return from_error(OSError(failure, ""), probe)
    return sock


def _so_far(sock: socket.socket) -> int:
    """Return the error of a TCP socket that was connecting a moment ago, or 0.

    One that is connected by now, as within one machine, does not acknowledge what the server says: it is read and the
    connection reset before the kernel's delayed acknowledgement is due, which saves one segment of six. Before the
    handshake this would hold up the client's own part in it.
    """
    if sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED:
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    return 0


def bind_unused(sock: socket.socket, source: str = "") -> None:
    """Bind to a port that no probe has used for the last 50,000.

    The kernel chooses the same port again after some 3,000 connections, or by chance (since Linux 5.18 it begins at
    another one every ten seconds), when the conntrack entry of an earlier one may exist. With UDP (30 to 120 s) that
    entry leads to the earlier question's server. With TCP (120 s) it may be that of a SYN that came while a proxy was
    programming the Service, and leads nowhere. Both are right for that flow, and would count as wrong. Raises
    `OSError`.
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
    """Send a question. Raises `OSError`.

    EPERM comes from a rule of the client's own node that stopped the packet on its way out. It may have dropped or
    rejected it: a rejection's ICMP error comes afterwards.
    """
    with contextlib.suppress(PermissionError):
        sock.send(question)


def forget_errors(sock: socket.socket) -> None:
    """Take what the kernel keeps of the errors of a socket for datagrams, which else stays ready for ever."""
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.recvmsg(0, 0, socket.MSG_ERRQUEUE)


def repeats(sock: socket.socket) -> int:
    """Return the number of segments of a TCP connection that the kernel has sent again, including its SYN."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS + 4)
    return int.from_bytes(info[_TOTAL_RETRANS:], sys.byteorder)


class Attempt(ABC):
    """A probe under way: `report` is called once with its index and outcome, unless `begin` returned the outcome."""

    __slots__ = ("_answers", "_buffer", "_index", "_reactor", "_report", "_socket", "done", "probe")

    def __init__(
        self,
        probe: Probe,
        index: int,
        *,
        reactor: Reactor,
        answers: Answers,
        report: Callable[[int, Observation], None],
    ) -> None:
        self.probe = probe
        self.done = False
        self._index = index
        self._reactor = reactor
        self._answers = answers
        self._report = report
        self._buffer = b""
        self._socket: socket.socket

    def begin(self) -> Observation | None:
        """Open the socket and send the question. Returns the outcome if there is one already."""
        sock = connected_socket(self.probe)
        if not isinstance(sock, socket.socket):
            self.done = True
            return sock
        self._socket = sock
        try:
            self._ask()
        except OSError as error:
            sock.close()
            self.done = True
            return from_error(error, self.probe)
        self._reactor.watch(sock.fileno(), self)
        self._reactor.at(time.monotonic() + self.probe.timeout, self)
        return None

    def ready(self) -> None:
        try:
            data = self._socket.recv(LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(from_error(error, self.probe))
            return
        outcome = self._understand(data)
        if outcome is not None:
            self._finish(outcome)

    def expired(self, _now: float) -> None:
        self._finish(TIMED_OUT)

    def give_up(self, why: str) -> None:
        self._finish(Unknown(why))

    def drop(self) -> None:
        self.done = True
        self._reactor.forget(self._socket.fileno())
        self._socket.close()

    def _finish(self, outcome: Observation) -> None:
        if not self.done:
            self.drop()
            self._report(self._index, outcome)

    @abstractmethod
    def _ask(self) -> None:
        """Send the client's first message, if there is one. Raises `OSError`."""

    @abstractmethod
    def _understand(self, data: bytes) -> Observation | None:
        """Return the outcome if these bytes complete an answer, else None."""


class TcpAttempt(Attempt):
    """A TCP probe. The server speaks first, so it sends nothing and does not wait for the handshake alone.

    An answer to a repeated SYN did not come in time, even if the deadline was moved.
    """

    __slots__ = ("_began",)

    def _ask(self) -> None:
        self._began = time.monotonic()

    def _understand(self, data: bytes) -> Observation | None:
        line, newline, _ = (self._buffer + data).partition(b"\n")
        if newline or len(line) > LONGEST_LINE:
            late = time.monotonic() - self._began >= REPEATED_SYN
            return TIMED_OUT if late and repeats(self._socket) else self._answers.read(line)
        if not data:
            return Unknown(f"the server closed the connection without saying who it is, after {line[:60]!r}")
        self._buffer = line
        return None


class UdpAttempt(Attempt):
    """A UDP probe. The answer has the question's nonce: a late answer to an earlier question is ignored."""

    __slots__ = ()

    def _ask(self) -> None:
        self._buffer = next_nonce()
        send(self._socket, self._buffer)

    def _understand(self, data: bytes) -> Observation | None:
        nonce, _, line = data.partition(b" ")
        return self._answers.read(line) if nonce == self._buffer else None


ATTEMPTS: dict[str, type[Attempt]] = {"TCP": TcpAttempt, "UDP": UdpAttempt}
