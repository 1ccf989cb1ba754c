"""Echo servers that answer with their pod's name and the client's address, which shows masquerading."""

import contextlib
import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.errors import InconclusiveError, UsageError
from harness.probes.probe import RESET_ON_CLOSE, SocketSource
from harness.probes.reactor import Reactor, starved

_AT_ONCE = 64  # number of connections or datagrams that a socket handles before other sockets get a turn

_IN_PKTINFO = struct.Struct("@i4s4s")  # interface, local address, destination in the header; ip(7)
_IN6_PKTINFO = struct.Struct("@16sI")  # address, interface; ipv6(7)
_IP_PKTINFO = getattr(socket, "IP_PKTINFO", 8)  # in the socket module since Python 3.12

_FLAGS = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC

_GONE = {errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH}
"""Errors of accept(2) that the client causes: it closed the connection early, or its network failed."""

SocketOption = tuple[int, int, int | bytes]  # arguments of setsockopt(2): level, name, value


@dataclass(frozen=True, slots=True)
class ServerPort:
    """A port to listen on. Protocol is "TCP" or "UDP", family "IPv4" or "IPv6". The address "" means all addresses."""

    protocol: str
    family: str
    port: int
    address: str = ""

    def open(self, namespace: SocketSource) -> socket.socket:
        """Return the bound socket; a TCP socket also listens. Raises `OSError` and `UsageError`."""
        if self.protocol not in ("TCP", "UDP") or self.family not in ("IPv4", "IPv6"):
            raise UsageError(f"cannot serve {self.protocol!r} over {self.family!r}: expected TCP or UDP, IPv4 or IPv6")
        if self.protocol == "TCP":
            option: SocketOption = (socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)  # for accepted sockets
        elif self.family == "IPv6":
            option = (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            option = (socket.IPPROTO_IP, _IP_PKTINFO, 1)
        return bound(namespace, self.protocol, self.family, self.port, address=self.address, options=[option])


def bound(
    source: SocketSource,
    protocol: str,
    family: str,
    port: int,
    *,
    address: str = "",
    options: Iterable[SocketOption] = (),
) -> socket.socket:
    """Return a non-blocking (and, for TCP, listening) socket. Raises `OSError`, including for an invalid port."""
    if not 0 <= port <= 65535:
        raise OSError(errno.EINVAL, f"invalid port {port}")
    tcp, six = protocol == "TCP", family == "IPv6"
    kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
    sock = source.socket(socket.AF_INET6 if six else socket.AF_INET, kind | _FLAGS)
    try:
        if six:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if tcp:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for option in options:
            sock.setsockopt(*option)
        sock.bind((address, port))
        if tcp:
            sock.listen(4096)
    except OSError:
        sock.close()
        raise
    return sock


def accepted(listening: socket.socket, reactor: Reactor, who: str, *, most: int) -> Iterator[tuple[socket.socket, Any]]:
    """Accept up to `most` pending connections. Yield each with the client's address. Raises `OSError`."""
    for _ in range(most):
        try:
            yield listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if starved(error):
                reactor.give_up(f"{who} cannot accept connections: {error.strerror}")
                return
            if error.errno not in _GONE:
                raise


class _ServerSocket:
    """A server's socket. It stays open after a fault of the harness, which ends only probes."""

    __slots__ = ("_reactor", "_socket")

    def __init__(self, sock: socket.socket, reactor: Reactor) -> None:
        self._socket = sock
        self._reactor = reactor

    def give_up(self, why: str) -> None:
        """Ignore the fault."""

    def drop(self) -> None:
        self._reactor.forget(self._socket.fileno())
        self._socket.close()


class _Listener(_ServerSocket):
    def __init__(self, sock: socket.socket, identity: str, reactor: Reactor) -> None:
        super().__init__(sock, reactor)
        self._identity = identity.encode()
        self._connections: set[_Connection] = set()
        reactor.watch(sock.fileno(), self)

    def drop(self) -> None:
        super().drop()
        for connection in list(self._connections):
            connection.drop()

    def ready(self) -> None:
        for sock, peer in accepted(self._socket, self._reactor, "an echo server", most=_AT_ONCE):
            _Connection(sock, b"%s %s\n" % (self._identity, peer[0].encode()), self._connections, self._reactor)


class _Connection(_ServerSocket):
    """An accepted connection of a TCP server, which answers immediately, and again for each line that it reads."""

    __slots__ = ("_all", "_answer")

    def __init__(self, sock: socket.socket, answer: bytes, connections: "set[_Connection]", reactor: Reactor) -> None:
        super().__init__(sock, reactor)
        self._answer, self._all = answer, connections
        connections.add(self)
        if self._send(answer):
            reactor.watch(sock.fileno(), self)

    def drop(self) -> None:
        self._all.discard(self)
        super().drop()

    def _send(self, data: bytes) -> bool:
        try:
            self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:  # the client has closed the connection, or does not read
            self.drop()
            return False
        return True

    def ready(self) -> None:
        try:
            data = self._socket.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop()
        elif lines := data.count(b"\n"):
            self._send(self._answer * lines)


class _Datagrams(_ServerSocket):
    """A UDP socket that answers "<nonce>" with "<nonce> <identity> <client>" from the same address."""

    def __init__(self, sock: socket.socket, identity: str, reactor: Reactor) -> None:
        super().__init__(sock, reactor)
        self._identity = identity.encode()
        reactor.watch(sock.fileno(), self)

    def ready(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                nonce, ancillary, _, peer = self._socket.recvmsg(64, 64)
                answer = b"%s %s %s" % (nonce, self._identity, peer[0].encode())
                self._socket.sendmsg((answer,), _reply_source(ancillary), 0, peer)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error for an earlier answer, or no route to this client
                continue


def _reply_source(ancillary: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Return the control message that sets the answer's source to the destination address of the request."""
    for level, kind, data in ancillary:
        if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
            destination = _IN_PKTINFO.unpack(data)[2]
            return [(level, kind, _IN_PKTINFO.pack(0, destination, destination))]
        if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:
            address, interface = _IN6_PKTINFO.unpack(data)
            link_local = address[0] == 0xFE and address[1] & 0xC0 == 0x80
            return [(level, kind, _IN6_PKTINFO.pack(address, interface if link_local else 0))]
    return []


class Server:
    def __init__(self, identity: str, reactor: Reactor) -> None:
        self.identity = identity
        self._reactor = reactor
        self._parts: list[_Listener | _Datagrams] = []

    def close(self) -> None:
        """Close all sockets, which resets their connections. Idempotent."""
        with contextlib.suppress(InconclusiveError):  # a loop that has ended has already closed the sockets
            self._reactor.call(self.shut)

    def open(self, namespace: SocketSource, ports: tuple[ServerPort, ...]) -> None:
        """Open all ports, or none if one fails. Call this on the loop's thread. Raises `OSError` and `UsageError`."""
        try:
            for port in ports:
                sock = port.open(namespace)
                part = _Listener if port.protocol == "TCP" else _Datagrams
                self._parts.append(part(sock, self.identity, self._reactor))
        except BaseException:
            self.shut()
            raise

    def shut(self) -> None:
        parts, self._parts = self._parts, []
        for part in parts:
            part.drop()
