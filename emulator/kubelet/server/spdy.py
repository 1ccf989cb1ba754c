"""SPDY/3.1, which multiplexes several byte streams on one connection. The client opens each stream.

Kubernetes still uses this obsolete protocol. Every version of kubectl forwards ports by SPDY inside a WebSocket, and
API servers before 1.36 translate WebSockets to SPDY for kubelets. Kubernetes uses no flow control (Go's library has
none), no settings and no pushed streams.

https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

import asyncio
import struct
import zlib
from collections.abc import Mapping

from aiohttp import web

from emulator.kubelet.server.streams import Stream, Wire
from reference.apiserver.pod_access.kubelets import switched

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_CONTROL = 0x80030000  # a control frame of version 3, without its type
_FIN = 1
_HEAD = 8  # size of a frame header in bytes
_CANCEL = 5  # the reset status for a stream that is no longer needed
_MOST_HEADERS = 1 << 20  # maximum size of a stream's headers in bytes
_CHUNK = 1 << 16  # maximum size of a frame in bytes
_VERSION, _UPGRADE = "X-Stream-Protocol-Version", "SPDY/3.1"

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
"""The initial dictionary for the compression of headers (section 2.6.10.1)."""


class SpdyStream(Stream):
    """One stream of a connection. Header names are in lower case."""

    def __init__(self, number: int, headers: Mapping[str, str], wire: Wire) -> None:
        super().__init__()
        self.number = number
        self.headers = headers
        self.ended = False
        """True if no more data can be sent, because `end` was called or the client has reset the stream."""
        self._wire = wire

    async def write(self, data: bytes) -> None:
        for begin in range(0, len(data), _CHUNK):
            if not self.ended:
                chunk = data[begin : begin + _CHUNK]
                await self._wire.write(struct.pack("!II", self.number, len(chunk)) + chunk)

    async def end(self) -> None:
        if not self.ended:
            self.ended = True
            await self._wire.write(struct.pack("!II", self.number, _FIN << 24))

    async def reset(self) -> None:
        """Reset both directions of the stream."""
        self.broken()
        await self._wire.write(_control(_RST_STREAM, struct.pack("!II", self.number, _CANCEL)))

    def broken(self) -> None:
        """Record that both directions have ended, because the connection or the stream is broken."""
        self.ended = True
        self.finish()


class SpdyConnection:
    """The server side of one connection. `serve` reads until the connection ends, while other tasks use the streams.

    The headers of all streams share one compression context, so their order matters.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._compressor = zlib.compressobj(zdict=DICTIONARY)
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    async def accept(self) -> SpdyStream | None:
        """Return the next stream that the client opens, or None at the end of the connection."""
        return await self._opened.get()

    def forget(self, stream: SpdyStream) -> None:
        """Remove a stream that has ended, and discard later data for this stream."""
        self._streams.pop(stream.number, None)

    async def serve(self) -> None:
        """Receive frames until the client disconnects or violates the protocol."""
        unread = b""
        try:
            while data := await self._wire.read():
                unread += data
                while len(unread) >= _HEAD:
                    first, second = struct.unpack_from("!II", unread)
                    end = _HEAD + (second & 0xFFFFFF)
                    if len(unread) < end:
                        break
                    await self._handle(first, bool(second >> 24 & _FIN), unread[_HEAD:end])
                    unread = unread[end:]
        except (OSError, struct.error, zlib.error, ValueError):
            pass
        finally:
            for stream in self._streams.values():
                stream.broken()
            self._opened.put_nowait(None)

    async def send_goaway(self) -> None:
        """Announce that no more streams are accepted (GOAWAY). Raises `ConnectionError`."""
        await self._wire.write(_control(_GOAWAY, struct.pack("!II", max(self._streams, default=0), 0)))

    async def _handle(self, first: int, last: bool, payload: bytes) -> None:
        """Handle one frame. `last` is the flag FIN. SETTINGS and WINDOW_UPDATE are ignored. Raises `ValueError`."""
        if first < 1 << 31:
            await self._receive(first, payload, last)
            return
        if first & 0xFFFF0000 != _CONTROL:
            raise ValueError("this is not SPDY/3")
        kind, (number,) = first & 0xFFFF, struct.unpack_from("!I", payload) if payload else (0,)
        if kind == _SYN_STREAM:  # stream, associated stream, priority, slot
            stream = self._streams[number] = SpdyStream(number, self._headers(payload[10:]), self._wire)
            if last:
                stream.finish()
            empty = self._compressor.compress(bytes(4)) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
            await self._wire.write(_control(_SYN_REPLY, struct.pack("!I", number) + empty))
            self._opened.put_nowait(stream)
        elif kind in (_SYN_REPLY, _HEADERS):
            self._headers(payload[4:])
            await self._receive(number, b"", last)
        elif kind == _RST_STREAM and (found := self._streams.pop(number, None)) is not None:
            found.broken()
        elif kind == _PING and number % 2:  # a client's
            await self._wire.write(_control(_PING, payload))

    async def _receive(self, number: int, data: bytes, last: bool) -> None:
        if (stream := self._streams.get(number)) is not None:
            await stream.put(data)
            if last:
                stream.finish()

    def _headers(self, packed: bytes) -> dict[str, str]:
        block = self._decompressor.decompress(packed, _MOST_HEADERS)
        if self._decompressor.unconsumed_tail:
            raise ValueError(f"headers of a stream are longer than {_MOST_HEADERS} bytes")
        strings, at = list[str](), 4
        while at < len(block):
            (length,) = struct.unpack_from("!I", block, at)
            strings.append(block[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return {name.lower(): value for name, value in zip(strings[::2], strings[1::2], strict=True)}


class UpgradedWire:
    """The bytes of an HTTP connection after the upgrade to SPDY. See `Wire`."""

    def __init__(self, reader: asyncio.StreamReader, response: web.StreamResponse) -> None:
        self._reader = reader
        self.response = response
        """The response that the request handler must return at the end."""

    async def read(self) -> bytes:
        return await self._reader.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        await self.response.write(data)


async def upgrade(request: web.BaseRequest, protocol: str) -> UpgradedWire | web.Response:
    """Switch to SPDY, with this protocol for its streams. The connection ends with the request.

    Returns an error response if the client does not request the upgrade. Raises `ConnectionError`.
    """
    offered = {each.strip() for text in request.headers.getall(_VERSION, []) for each in text.split(",")}
    if _UPGRADE.lower() not in request.headers.get("Upgrade", "").lower():
        return web.Response(status=400, text="unable to upgrade: missing upgrade headers in request\n")
    if protocol not in offered:
        said = f"unable to upgrade: unable to negotiate protocol: server accepts [{protocol}]\n"
        return web.Response(status=403, text=said, headers={"X-Accepted-Stream-Protocol-Versions": protocol})
    return UpgradedWire(*await switched(request, {"Connection": "Upgrade", "Upgrade": _UPGRADE, _VERSION: protocol}))


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack("!II", _CONTROL | kind, len(payload)) + payload
