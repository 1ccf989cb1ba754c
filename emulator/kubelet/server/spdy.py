"""Frames of SPDY/3.1: several streams of bytes over one connection, as Kubernetes' clients ask kubelets for them.

Nobody else speaks SPDY any more; Kubernetes keeps it for `exec` and `port-forward`, today inside of WebSockets. Of the
protocol it is what those use: no flow control (Go's library has none), no settings, no pushed streams.
https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN = 1
_CONTROL = 1 << 31
_HEAD = 8  # bytes of a frame before its payload
_MOST_HEADERS = 1 << 20  # bytes of the headers of a stream
CANCEL = 5
"""The status of a stream that is reset because nobody wants it any more."""


class ProtocolError(Exception):
    """The other side does not speak SPDY/3."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The client opens a stream; a stream that has ended at once has `last`."""

    stream: int
    headers: Mapping[str, str]
    last: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; `last` if no more follow."""

    stream: int
    data: bytes
    last: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream is broken off."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The other side wants to have it back, or answers ours."""

    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """No more streams are opened by the other side."""


Frame = Opened | Data | Reset | Ping | GoAway


class Framing:
    """Both directions of one connection: the headers of all its streams are compressed together, so order matters."""

    def __init__(self) -> None:
        self._unread = b""
        self._compressor = zlib.compressobj(zdict=DICTIONARY)
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> list[Frame]:
        """Return the frames that end in these bytes. Raises `ProtocolError`."""
        self._unread += data
        found: list[Frame] = []
        begin = 0
        while len(self._unread) - begin >= _HEAD:
            first, second = struct.unpack_from("!II", self._unread, begin)
            end = begin + _HEAD + (second & 0xFFFFFF)
            if len(self._unread) < end:
                break
            found += self._frame(first, second >> 24, self._unread[begin + _HEAD : end])
            begin = end
        self._unread = self._unread[begin:]
        return found

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Return the frame that opens a stream."""
        return _control(_SYN_STREAM, struct.pack("!IIBB", stream, 0, 0, 0) + self._packed(headers))

    def reply(self, stream: int) -> bytes:
        """Return the frame that accepts a stream."""
        return _control(_SYN_REPLY, struct.pack("!I", stream) + self._packed({}))

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        """Return the frame for bytes of a stream, at most 16 MiB."""
        return struct.pack("!II", stream, (_FIN if last else 0) << 24 | len(data)) + data

    def reset(self, stream: int) -> bytes:
        """Return the frame that breaks a stream off."""
        return _control(_RST_STREAM, struct.pack("!II", stream, CANCEL))

    def ping(self, number: int) -> bytes:
        """Return a ping; those of clients have odd numbers, and are sent back as they came."""
        return _control(_PING, struct.pack("!I", number))

    def go_away(self, last: int) -> bytes:
        """Return the frame that says that no stream after `last` is served."""
        return _control(_GOAWAY, struct.pack("!II", last, 0))

    def _frame(self, first: int, flags: int, payload: bytes) -> Iterator[Frame]:
        if not first & _CONTROL:
            yield Data(first, payload, last=bool(flags & _FIN))
            return
        if first >> 16 & 0x7FFF != _VERSION:
            raise ProtocolError(f"this is no SPDY/3: a frame of version {first >> 16 & 0x7FFF}")
        try:
            yield from self._control_frame(first & 0xFFFF, flags, payload)
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"a frame of SPDY/3 is broken: {error}") from error

    def _control_frame(self, kind: int, flags: int, payload: bytes) -> Iterator[Frame]:
        match kind:
            case 1:  # SYN_STREAM: stream, the stream that it belongs to, priority, slot
                (stream,) = struct.unpack_from("!I", payload)
                yield Opened(stream, self._unpacked(payload[10:]), last=bool(flags & _FIN))
            case 2 | 8:  # SYN_REPLY, HEADERS
                (stream,) = struct.unpack_from("!I", payload)
                self._unpacked(payload[4:])
                if flags & _FIN:
                    yield Data(stream, b"", last=True)
            case 3:  # RST_STREAM: stream, why
                yield Reset(struct.unpack_from("!I", payload)[0])
            case 6:  # PING
                yield Ping(struct.unpack_from("!I", payload)[0])
            case 7:  # GOAWAY
                yield GoAway()
            case _:  # SETTINGS, WINDOW_UPDATE and what is not known: nothing to do
                pass

    def _packed(self, headers: Mapping[str, str]) -> bytes:
        parts = [struct.pack("!I", len(headers))]
        for pair in headers.items():
            for text in (pair[0].lower().encode(), pair[1].encode()):
                parts += [struct.pack("!I", len(text)), text]
        return self._compressor.compress(b"".join(parts)) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def _unpacked(self, packed: bytes) -> dict[str, str]:
        """Return headers; their names have small letters."""
        block = self._decompressor.decompress(packed, _MOST_HEADERS)
        if self._decompressor.unconsumed_tail:
            raise ProtocolError(f"headers of a stream are longer than {_MOST_HEADERS} bytes")
        (count,) = struct.unpack_from("!I", block)
        texts: list[str] = []
        at = 4
        while len(texts) < 2 * count:
            (length,) = struct.unpack_from("!I", block, at)
            if at + 4 + length > len(block):
                raise ProtocolError("headers of a stream are cut off")
            texts.append(block[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack("!HHI", 0x8000 | _VERSION, kind, len(payload)) + payload


_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack("!I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _REST.encode()
)
"""What the headers' compression knows from the start (2.6.10.1)."""
