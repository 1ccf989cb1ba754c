"""Sockets that wait to be asked, in whatever network namespace they are made."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from harness.probes.probe import SocketSource

_FLAGS = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC

GONE = {errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH}
"""What accept(2) says when a client left before it was accepted, or of an error of its network: not the server's."""

SocketOption = tuple[int, int, int | bytes]
"""As setsockopt(2) takes it: level, name, value."""


def bound(
    source: SocketSource,
    protocol: str,
    family: str,
    port: int,
    *,
    address: str = "",
    options: Iterable[SocketOption] = (),
) -> socket.socket:
    """A non-blocking socket on this port, listening if it is of TCP; of all addresses of the family without one.

    Protocol "TCP" or "UDP", family "IPv4" or "IPv6". Raises `OSError`, also for a port that cannot be.
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
