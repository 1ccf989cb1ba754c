"""DNS over TCP: each message after its length, any number on one connection (RFC 7766)."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
from collections.abc import Callable

IDLE_SECONDS = 10.0
"""The longest time that a connection may be without a query, or a client may leave an answer unread."""

MOST_CONNECTIONS = 500
_CHUNK = 64 << 10
_LENGTH = struct.Struct("!H")


class Connection:
    """One connection: what has been read of queries, and what is to be written of answers."""

    def __init__(self, sock: socket.socket, answer: Callable[[bytes], bytes | None]) -> None:
        self.sock = sock
        self._answer = answer
        self._read = bytearray()
        self._unsent = bytearray()
        self._ended = False

    def go_on(self, events: int) -> int:
        """Read and write what goes without waiting; the events to wait for, 0 at the end. Raises `OSError`."""
        if events & selectors.EVENT_READ:
            data = self.sock.recv(_CHUNK)
            self._ended = not data
            self._read += data
            self._answer_all()
        if self._unsent:
            with contextlib.suppress(BlockingIOError):
                del self._unsent[: self.sock.send(self._unsent)]
        if self._unsent:
            # A client that does not read its answers is not read from until it does.
            return selectors.EVENT_WRITE
        return 0 if self._ended else selectors.EVENT_READ

    def _answer_all(self) -> None:
        while len(self._read) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._read)[0]
            if len(self._read) < end:
                return
            answer = self._answer(bytes(self._read[_LENGTH.size : end]))
            del self._read[:end]
            if answer is not None:
                self._unsent += _LENGTH.pack(len(answer)) + answer
