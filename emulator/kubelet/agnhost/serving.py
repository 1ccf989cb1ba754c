"""The sockets of agnhost's servers, for each family, inside a pod's netns.

All on the reactor's thread. When a container ends, all its sockets are closed at once, as with a process.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from emulator.kubelet.agnhost.dialing import Dialing
from emulator.kubelet.agnhost.messages import (
    HttpResponse,
    MalformedError,
    Request,
    read_request,
    write_answer,
    write_malformed,
)
from emulator.kubelet.agnhost.netexec import Dial
from emulator.kubelet.agnhost.wording import joined
from harness.netns.addresses import Family
from harness.probes.bound import accepted, bound
from harness.probes.probe import SocketSource
from harness.probes.reactor import Reactor

_CHUNK = 1 << 16
_AT_ONCE = 64
"""Datagrams that one socket reads before the others have their turn."""


class Answers(Protocol):
    """What a server says: to requests, to datagrams, and to whom connects; `client` is address and port in one."""

    hostname: str
    ports: Sequence[tuple[str, int]]
    """Its ports, each with "HTTP", "TCP" or "UDP"."""

    def to_request(self, request: Request, client: str, /) -> HttpResponse | Dial:
        """Return the answer, or the dial that must be made first."""

    def to_datagram(self, data: bytes, client: str, /) -> bytes | None:
        """Return the answer; None for none."""

    def to_connection(self, client: str, /) -> bytes:
        """Return what it says before it closes a connection over TCP."""


class AgnhostServer:
    """The open sockets of one container."""

    def __init__(self, answers: Answers, source: SocketSource, reactor: Reactor) -> None:
        self.answers = answers
        self.source = source
        self.reactor = reactor
        self.parts: set[_Part] = set()
        self.dialings: set[Dialing] = set()

    def open(self, families: Sequence[Family]) -> None:
        """Open all ports, or none. Raises `OSError`."""
        try:
            for family in families:
                for protocol, port in self.answers.ports:
                    part, transport = _PARTS[protocol]
                    part(self, bound(self.source, transport, family, port)).watch()
        except BaseException:
            self.shut()
            raise

    def shut(self) -> None:
        """Close everything. Idempotent."""
        for dialing in list(self.dialings):
            dialing.drop()
        self.dialings.clear()
        for part in list(self.parts):
            part.drop()


class _Part:
    """One descriptor of a server."""

    __slots__ = ("_fd", "_server", "_socket")

    def __init__(self, server: AgnhostServer, sock: socket.socket) -> None:
        self._server = server
        self._socket = sock
        self._fd = sock.fileno()
        server.parts.add(self)

    def watch(self) -> None:
        """Watch the descriptor for input, unless it is closed already."""
        if self in self._server.parts:
            self._server.reactor.watch(self._fd, self)

    def ready(self) -> None:
        raise NotImplementedError

    def give_up(self, why: str) -> None:
        """Ignore it: a server goes on."""

    def drop(self) -> None:
        if self in self._server.parts:
            self._server.parts.remove(self)
            self._server.reactor.forget(self._fd)
            self._socket.close()


class _Listener(_Part):
    """A listening TCP socket. It accepts one connection per event: mostly there is one, and another try costs more."""

    __slots__ = ()

    def ready(self) -> None:
        for sock, peer in accepted(self._socket, self._server.reactor, self._server.answers.hostname, most=1):
            connection = _Connection(self._server, sock, joined(*peer[:2]))
            connection.ready()  # mostly the request is there already
            connection.watch()


class _Greeter(_Part):
    """A listening TCP socket that says something to whom connects, and closes the connection."""

    __slots__ = ()

    def ready(self) -> None:
        for sock, peer in accepted(self._socket, self._server.reactor, self._server.answers.hostname, most=1):
            with sock, contextlib.suppress(OSError):  # who has gone hears nothing
                sock.send(self._server.answers.to_connection(joined(*peer[:2])), socket.MSG_DONTWAIT)


class _Connection(_Part):
    """One HTTP connection: requests are answered in their order, and none during a dial.

    The socket itself is blocking (that saves a system call for each connection); every call on it is not. It is watched
    for edges only after an answer did not fit into its buffer, or the client has closed its side and waits.
    """

    __slots__ = ("_busy", "_client", "_edges", "_ended", "_input", "_output", "_stays", "_watched")

    def __init__(self, server: AgnhostServer, sock: socket.socket, client: str) -> None:
        super().__init__(server, sock)
        self._client = client
        self._input = b""
        self._output = b""
        self._busy = False
        self._edges = False
        self._ended = False  # the client sends nothing more
        self._stays = True
        self._watched = False

    def ready(self) -> None:
        try:
            if self._output:
                self._flush()
            self._read()
        except BlockingIOError:
            pass
        except OSError:  # reset by the client
            self.drop()
            return
        self._go_on()

    def _read(self) -> None:
        """Read from the socket: once, or with `edges` everything. Raises `OSError`."""
        while not self._ended:
            data = self._socket.recv(_CHUNK, socket.MSG_DONTWAIT)
            self._ended = not data
            self._input += data
            if self._ended:
                self._watch_edges()  # else epoll would report the end over and over during a dial
            if not self._edges:
                return

    def _go_on(self) -> None:
        """Answer the requests that were read, and close the connection after the last answer."""
        try:
            while self._input and not self._busy and self._stays:
                found = read_request(self._input, self._ended)
                if found is None:
                    break
                request, length = found
                self._input = self._input[length:]
                self._stays = request.stays
                self._serve(request)
        except MalformedError as error:
            self._stays = False
            self._say(write_malformed(error))
        if not self._busy and not self._output and (self._ended or not self._stays):
            self.drop()

    def _serve(self, request: Request) -> None:
        answer = self._server.answers.to_request(request, self._client)
        if isinstance(answer, HttpResponse):
            self._stays &= ("Connection", "close") not in answer.headers
            self._say(write_answer(answer, request))
            return
        self._busy = True
        self._dial(answer, lambda answered: self._dialed(answered, request))

    def _dial(self, dial: Dial, done: Callable[[HttpResponse], None]) -> None:
        server = self._server

        def ended(answer: HttpResponse) -> None:
            server.dialings.discard(dialing)
            done(answer)

        dialing = Dialing(dial, server.source, server.reactor, ended)
        server.dialings.add(dialing)
        dialing.begin()

    def _dialed(self, answer: HttpResponse, request: Request) -> None:
        self._busy = False
        if self in self._server.parts:
            self._say(write_answer(answer, request))
            self._go_on()

    def _say(self, data: bytes) -> None:
        self._output += data
        try:
            self._flush()
        except BlockingIOError:
            self._watch_edges()
        except OSError:  # the client is gone
            self._output, self._ended = b"", True

    def watch(self) -> None:
        self._watched = True
        if self in self._server.parts:
            self._server.reactor.watch(self._fd, self, edges=self._edges)

    def _watch_edges(self) -> None:
        if not self._edges:
            self._edges = True
            if self._watched:
                self._server.reactor.watch_edges(self._fd)

    def _flush(self) -> None:
        """Send the rest of the output. Raises `BlockingIOError` if the client must read first, else `OSError`."""
        while self._output:
            sent = self._socket.send(self._output, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            self._output = self._output[sent:]


class _Datagrams(_Part):
    """A UDP socket; as in agnhost, the kernel chooses the source address of an answer."""

    __slots__ = ()

    def ready(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, peer = self._socket.recvfrom(2048)
                answer = self._server.answers.to_datagram(data, joined(*peer[:2]))
                if answer is not None:
                    self._socket.sendto(answer, peer)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error for an earlier answer, or no way back to this client: it sees silence
                continue


_PARTS: dict[str, tuple[type[_Part], str]] = {
    "HTTP": (_Listener, "TCP"),
    "TCP": (_Greeter, "TCP"),
    "UDP": (_Datagrams, "UDP"),
}
