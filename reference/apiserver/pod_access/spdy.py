"""SPDY/3.1, as much of it as kubectl speaks to forward ports: frames in both directions, as values.

Many streams on one connection, each with headers and two directions that end on their own. Flow control is left out,
as the library of Kubernetes leaves it out. The headers are compressed as one zlib stream for all streams, with a
dictionary that the protocol gives (`spdy.dictionary`: draft-mbelshe-httpbis-spdy-00, 2.6.10.1).
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

_CONTROL = 0x8003 << 16  # version 3; the type follows
_SYN_REPLY, _PING = 2, 6
_FIN = 1
_HEAD = 8  # bytes
_ID = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Opened:
    """The client has begun a stream; `ended` when it will say nothing on it."""

    stream: int
    headers: Mapping[str, str]
    ended: bool


@dataclass(frozen=True, slots=True)
class Data:
    """The client said something on a stream; `ended` when it says nothing more."""

    stream: int
    data: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The client gave a stream up."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The client wants these bytes back, as a frame."""

    answer: bytes


@dataclass(frozen=True, slots=True)
class Away:
    """The client goes."""


Frame = Opened | Data | Reset | Ping | Away


class Connection:
    """Reads and writes the frames of one connection; the server's side."""

    def __init__(self) -> None:
        self._unread = b""
        self._inflate = zlib.decompressobj(zdict=_dictionary())
        self._deflate = zlib.compressobj(zdict=_dictionary())

    def receive(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. Raises `ValueError` at what is no SPDY."""
        self._unread += data
        while len(self._unread) >= _HEAD:
            first, second = struct.unpack_from(">II", self._unread)
            flags, length = second >> 24, second & 0xFFFFFF
            if len(self._unread) < _HEAD + length:
                return
            payload = self._unread[_HEAD : _HEAD + length]
            self._unread = self._unread[_HEAD + length :]
            frame = self._frame(first, flags, payload)
            if frame is not None:
                yield frame

    def accept(self, stream: int) -> bytes:
        """The frame that answers a new stream: it is there."""
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack(">I", stream) + block)

    @staticmethod
    def data(stream: int, data: bytes, *, end: bool = False) -> bytes:
        """The frame that says something on a stream; with `end` the last one."""
        return struct.pack(">II", stream, (_FIN if end else 0) << 24 | len(data)) + data

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame | None:
        if not first >> 31:
            return Data(first, payload, bool(flags & _FIN))
        if first >> 16 != _CONTROL >> 16:
            raise ValueError("this is not version 3 of SPDY")
        match first & 0xFFFF:
            case 1:
                (stream,) = struct.unpack_from(">I", payload)
                return Opened(stream & _ID, self._headers(payload[10:]), bool(flags & _FIN))
            case 3:
                return Reset(struct.unpack_from(">I", payload)[0] & _ID)
            case 6:
                return Ping(_control(_PING, payload))
            case 7:
                return Away()
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._inflate.decompress(block)
        (count,) = struct.unpack_from(">I", text)
        texts, at = [], 4
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", text, at)
            texts.append(text[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return dict(zip((each.lower() for each in texts[::2]), texts[1::2], strict=True))


@functools.cache
def _dictionary() -> bytes:
    return files("reference.apiserver.pod_access").joinpath("spdy.dictionary").read_bytes()


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", 1 << 31 | _CONTROL & 0x7FFF0000 | kind, len(payload)) + payload
