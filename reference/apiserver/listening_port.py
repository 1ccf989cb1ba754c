"""A TCP port that can stop listening and start again, and stays reserved while it does not listen.

If the socket were closed, another program could take the port, and opening the port again in another network namespace
would need privileges. So the socket stays open. On Linux, `shutdown(SHUT_RD)` makes the socket stop listening and
resets connections that wait to be accepted. The socket can then listen again.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

LOOPBACK = "127.0.0.1"
_STILL_BOUND = frozenset({errno.EINVAL, errno.EACCES})  # EACCES: a low port, and no privilege to bind it once more
_BACKLOG = 512
_TURNS = 100
"""The maximum number of event loop iterations in which transports may detect a shutdown and close."""

SSLProtocol.max_size = 32 * 1024  # asyncio fills a buffer of 256 KB for each connection; a TLS record has 16 KB


class _Listener(socket.socket):
    """A listening socket that records accepted sockets, because asyncio hides them during the TLS handshake."""

    __slots__ = ("_accepted", "done")

    def __init__(self, copied: socket.socket, accepted: WeakSet[socket.socket]) -> None:
        super().__init__(fileno=copied.dup().detach())
        self._accepted = accepted
        self.done = False

    def accept(self) -> tuple[socket.socket, Any]:
        if self.done:
            raise BlockingIOError
        sock, address = super().accept()
        self._accepted.add(sock)
        return sock, address


class ListeningPort:
    """The port of a bound TCP socket, which this object owns. Use it in one event loop only."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._address = sock.getsockname()
        self._serving: tuple[_Listener, asyncio.Server] | None = None
        self._accepted: WeakSet[socket.socket] = WeakSet()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so that it can be bound twice

    async def listen(self, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        listener = _Listener(self._socket, self._accepted)  # a copy, because the loop closes the listening socket
        server = await loop.create_server(protocol, sock=listener, ssl=tls, backlog=_BACKLOG)
        self._serving = listener, server

    async def stop_listening(self) -> None:
        """Refuse connections until `listen` is called again. Connections that were already accepted remain open."""
        if self._serving is not None:
            listener, server = self._serving
            listener.done = True
            await asyncio.sleep(0)  # accepted sockets get a transport, which later closes them
            server.close()
            self._serving = None
        if not self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return
        self._socket.shutdown(socket.SHUT_RD)
        try:
            self._socket.bind(self._address)  # the shutdown freed a port that the kernel had chosen
        except OSError as error:
            if error.errno not in _STILL_BOUND:
                raise

    async def hang_up(self) -> None:
        await hang_up(self._accepted)

    def close(self) -> None:
        """Free the port. Call `stop_listening` first."""
        self._socket.close()


async def hang_up(sockets: Iterable[socket.socket]) -> None:
    """Shut down sockets that belong to transports of this event loop, and wait until the transports close them."""
    for each in sockets:
        with contextlib.suppress(OSError):  # the socket is closed, or the other side was faster
            each.shutdown(socket.SHUT_RDWR)
    for _ in range(_TURNS):
        if all(each.fileno() < 0 for each in sockets):
            return
        await asyncio.sleep(0)


def free_loopback() -> socket.socket:
    """Return a socket bound to a free loopback port. The kernel reserves the port even while nothing listens on it."""
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind((LOOPBACK, 0))
        second = socket.socket()
        second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        second.bind(first.getsockname())
    return second
