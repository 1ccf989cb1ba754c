"""Server sockets in any network namespace."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator
from typing import Any

from harness.probes.probe import SocketSource
from harness.probes.reactor import Reactor, starved

_FLAGS = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC

_GONE = {errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH}
"""Errors of accept(2) that are not the server's: the client left early, or its network failed."""

SocketOption = tuple[int, int, int | bytes]
"""Arguments of setsockopt(2): level, name, value."""


def bound(
    source: SocketSource,
    protocol: str,
    family: str,
    port: int,
    *,
    address: str = "",
    options: Iterable[SocketOption] = (),
) -> socket.socket:
    """Return a non-blocking socket on this port, listening for TCP; on all addresses of the family by default.

    Protocol "TCP" or "UDP", family "IPv4" or "IPv6". Raises `OSError`, also for an invalid port.
    """
    if not 0 <= port <= 65535:
        raise OSError(errno.EINVAL, f"address {port}: invalid port")
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
    """Yield the connections that wait to be accepted, with their peers; at most so many.

    The reactor gives up when `who`, the server, can accept none for want of descriptors or memory. Raises `OSError`.
    """
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
