"""Requests of a pod to others: one try over HTTP or UDP, and the tries of a `/dial` one after the other.

All on the reactor's thread. A try opens a socket in the client's netns, asks, and closes it.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from typing import ClassVar

from emulator.kubelet.agnhost import wording
from emulator.kubelet.agnhost.messages import HttpResponse, MalformedError, get_request, read_answer
from emulator.kubelet.agnhost.netexec import Dial, connected, dialed
from harness.errors import HarnessError
from harness.probes.probe import RESET_ON_CLOSE, SocketSource
from harness.probes.reactor import Reactor

TRY_SECONDS = 5.0
"""The time limit of one try, over HTTP and over UDP alike."""

_CHUNK = 1 << 16
_FLAGS = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC

Report = Callable[[int, str], None]
"""Called once with the status code (200 for a datagram, 0 for an error) and the text of the answer or the error."""


class Try:
    """One question to an address. `begin` may report before it returns."""

    network: ClassVar[str]
    kind: ClassVar[int]
    __slots__ = ("_data", "_reactor", "_report", "_socket", "_unsent", "done", "request", "target")

    def __init__(self, target: tuple[str, int], request: str, *, reactor: Reactor, report: Report) -> None:
        self.target = target
        self.request = request
        self.done = False
        self._reactor = reactor
        self._report = report
        self._data = b""
        self._unsent = True
        self._socket: socket.socket | None = None

    def begin(self, source: SocketSource, seconds: float = TRY_SECONDS) -> None:
        """Send the request, and report within that time."""
        family = socket.AF_INET6 if ":" in self.target[0] else socket.AF_INET
        try:
            self._socket = sock = source.socket(family, self.kind | _FLAGS)
            self._connect(sock)
        except OSError as error:
            self._fail(self._not_connected(error))
            return
        except HarnessError as error:  # no descriptor is left, or the netns is gone
            self._fail(str(error))
            return
        if self._send():
            self._reactor.watch(sock.fileno(), self, edges=self._unsent)
            self._reactor.at(time.monotonic() + seconds, self)

    def _send(self) -> bool:
        """Send the request, if the connection is made already. Returns False after an error."""
        assert self._socket is not None
        try:
            self._socket.send(self._question())
            self._unsent = False
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(self._not_sent(error))
            return False
        return True

    def ready(self) -> None:
        """Send or receive: the socket is writable or readable, or has failed."""
        if self._unsent and (not self._send() or self._unsent):
            return
        while self._socket is not None:
            try:
                data = self._socket.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(self._not_read(error))
                return
            self._take(data)

    def expired(self, _now: float) -> None:
        self._fail(self._timed_out())

    def give_up(self, why: str) -> None:
        self._fail(why)

    def drop(self) -> None:
        """End it without a report."""
        self.done = True
        sock, self._socket = self._socket, None
        if sock is not None:
            self._reactor.forget(sock.fileno())
            sock.close()

    def _finish(self, code: int, text: str) -> None:
        if not self.done:
            self.drop()
            self._report(code, text)

    def _fail(self, text: str) -> None:
        self._finish(0, text)

    @property
    def _joined(self) -> str:
        return wording.joined(*self.target)

    @property
    def _source(self) -> str:
        assert self._socket is not None
        return wording.joined(*self._socket.getsockname()[:2])

    def _failed(self, call: str, error: OSError) -> str:
        return wording.failed(call, self.network, self._source, self._joined, error)

    def _connect(self, sock: socket.socket) -> None:
        """Raises `OSError`. SO_ERROR alone reports an ICMP error that came during connect(2): see `probe.py`."""
        failure = sock.connect_ex(self.target)
        if failure == errno.EINPROGRESS:
            failure = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, "")

    def _question(self) -> bytes:
        raise NotImplementedError

    def _take(self, data: bytes) -> None:
        raise NotImplementedError

    def _not_connected(self, error: OSError) -> str:
        raise NotImplementedError

    def _not_sent(self, error: OSError) -> str:
        raise NotImplementedError

    def _not_read(self, error: OSError) -> str:
        raise NotImplementedError

    def _timed_out(self) -> str:
        raise NotImplementedError


class HttpTry(Try):
    """GET http://TARGET/REQUEST over a new connection."""

    network = "tcp"
    kind = socket.SOCK_STREAM
    __slots__ = ()

    def _connect(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        super()._connect(sock)

    def _question(self) -> bytes:
        return get_request(_target_of(self.request), self._joined)

    def _take(self, data: bytes) -> None:
        self._data += data
        try:
            answer = read_answer(self._data, not data)
        except MalformedError as error:
            self._fail(self._of(str(error)))
            return
        if answer is not None:
            self._finish(answer[0], answer[1].decode("utf-8", "replace"))

    def _of(self, what: str) -> str:
        return wording.http_failed(self._joined, self.request, what)

    def _not_connected(self, error: OSError) -> str:
        return self._of(wording.connect_failed(self.network, self._joined, error))

    def _not_sent(self, error: OSError) -> str:
        """The first send fails if the connection could not be made: the error is that of connecting."""
        return self._not_connected(error)

    def _not_read(self, error: OSError) -> str:
        return self._of(self._failed("read", error))

    def _timed_out(self) -> str:
        return self._of(wording.HTTP_TIMED_OUT)


def _target_of(request: str) -> str:
    """Return the path and query of a URL whose path begins with `request`, without its fragment.

    As Go does it: a space is escaped in the path, and stays in the query, which the server then does not understand.
    """
    path, mark, query = request.partition("#")[0].partition("?")
    plain = f"/{path.replace(' ', '%20')}{mark}{query}"
    return plain if plain.isascii() and plain.isprintable() else "/"


class TcpTry(HttpTry):
    """A TCP connection without data."""

    __slots__ = ()

    def _question(self) -> bytes:
        return b""

    def _send(self) -> bool:
        """Finish when the socket is writable: then the connection is made."""
        sent = super()._send()
        if sent and not self._unsent:
            self._finish(200, "")
        return sent and not self.done


class ConnectTry(TcpTry):
    """A TCP connection without data, with the errors of a connection alone."""

    __slots__ = ()

    def _of(self, what: str) -> str:
        return what

    def _timed_out(self) -> str:
        return f"dial {self.network} {self._joined}: {wording.TIMED_OUT}"


class UdpTry(Try):
    """One datagram, and the first answer to it."""

    network = "udp"
    kind = socket.SOCK_DGRAM
    __slots__ = ()

    def _question(self) -> bytes:
        return self.request.encode()

    def _take(self, data: bytes) -> None:
        if data:
            self._finish(200, data[:2048].decode("utf-8", "replace"))
        else:
            self._fail(self._not_answered("<nil>"))

    def _not_answered(self, what: str) -> str:
        return f"reading from udp connection failed. err:'{what}'"

    def _not_connected(self, error: OSError) -> str:
        return f"udp dial failed. err:{wording.connect_failed(self.network, self._joined, error)}"

    def _not_sent(self, error: OSError) -> str:
        return f"udp connection write failed. err:{self._failed('write', error)}"

    def _not_read(self, error: OSError) -> str:
        return self._not_answered(self._failed("read", error))

    def _timed_out(self) -> str:
        return self._not_answered(f"read {self.network} {self._source}->{self._joined}: {wording.TIMED_OUT}")


_TRIES: dict[str, type[Try]] = {"http": HttpTry, "tcp": ConnectTry, "udp": UdpTry}


class Dialing:
    """The tries of one `/dial`, one after the other; then `done` is called with the answer."""

    def __init__(
        self, dial: Dial, source: SocketSource, reactor: Reactor, done: Callable[[HttpResponse], None]
    ) -> None:
        self._dial = dial
        self._source = source
        self._reactor = reactor
        self._done = done
        self._left = dial.tries
        self._try: Try | None = None
        self._beginning = False
        self._responses: list[str] = []
        self._errors: list[str] = []
        self._last = ""

    def begin(self) -> None:
        """Begin the next try. Tries that end at once follow each other in a loop, without recursion."""
        if self._beginning:
            return
        self._beginning = True
        dial = self._dial
        while self._left > 0 and self._try is None:
            self._left -= 1
            self._try = _TRIES[dial.protocol](
                (dial.address, dial.port), dial.request, reactor=self._reactor, report=self._heard
            )
            self._try.begin(self._source, dial.seconds)
        self._beginning = False
        if self._try is None:
            is_command = dial.protocol == "tcp"
            answer = connected(self._errors) if is_command else dialed(self._responses, self._errors, last=self._last)
            self._done(answer)

    def drop(self) -> None:
        """End all tries without an answer."""
        self._left = 0
        if self._try is not None:
            self._try.drop()

    def _heard(self, code: int, text: str) -> None:
        self._try = None
        if code:
            self._responses.append(text)
            self._last = text
        else:
            self._errors.append(text)
            self._last = ""
        self.begin()
