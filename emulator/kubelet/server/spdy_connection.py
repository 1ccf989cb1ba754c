"""The streams of a SPDY connection, which its client opens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from emulator.kubelet.server.spdy import Data, Framing, GoAway, Opened, Ping, ProtocolError, Reset
from emulator.kubelet.server.streams import Incoming, Wire

_CHUNK = 1 << 16  # bytes of a frame


class SpdyStream:
    """One stream of a connection; see `Stream`."""

    def __init__(self, number: int, headers: Mapping[str, str], wire: Wire, framing: Framing) -> None:
        self.number = number
        self.headers = headers
        """Names have small letters."""
        self.incoming = Incoming()
        self._wire, self._framing = wire, framing
        self._ended = False

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        """Send bytes, unless the stream has ended."""
        for begin in range(0, len(data), _CHUNK):
            if not self._ended:
                await self._wire.write(self._framing.data(self.number, data[begin : begin + _CHUNK]))

    async def end(self) -> None:
        """Say that nothing more is sent."""
        if not self._ended:
            self._ended = True
            await self._wire.write(self._framing.data(self.number, b"", last=True))

    async def reset(self) -> None:
        """Break both directions off."""
        self.broken()
        await self._wire.write(self._framing.reset(self.number))

    def ignore(self) -> None:
        """Drop what came, and what comes."""
        self.incoming.ignore()

    @property
    def ended(self) -> bool:
        """True if nothing more can be sent: by `end`, or because the client has broken it off."""
        return self._ended

    def broken(self) -> None:
        """Note that it has ended in both directions."""
        self._ended = True
        self.incoming.finish()


class SpdyConnection:
    """The server's side of one connection. `serve` reads it to its end, beside the tasks that use the streams."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._framing = Framing()
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()

    async def accept(self) -> SpdyStream | None:
        """Return the next stream that the client opens; None at the end of the connection."""
        return await self._opened.get()

    def forget(self, stream: SpdyStream) -> None:
        """Forget a stream that has ended: what comes for it is dropped."""
        self._streams.pop(stream.number, None)

    async def serve(self) -> None:
        """Read until the client has gone, or does not speak SPDY."""
        try:
            while data := await self._wire.read():
                for frame in self._framing.receive(data):
                    await self._take(frame)
        except (OSError, ProtocolError):
            pass
        finally:
            for stream in self._streams.values():
                stream.broken()
            self._opened.put_nowait(None)

    async def say_goodbye(self) -> None:
        """Tell the client that no more streams are served. Raises `ConnectionError`."""
        await self._wire.write(self._framing.go_away(max(self._streams, default=0)))

    async def _take(self, frame: Opened | Data | Reset | Ping | GoAway) -> None:
        match frame:
            case Opened():
                stream = SpdyStream(frame.stream, frame.headers, self._wire, self._framing)
                self._streams[frame.stream] = stream
                if frame.last:
                    stream.incoming.finish()
                await self._wire.write(self._framing.reply(frame.stream))
                self._opened.put_nowait(stream)
            case Data() if (found := self._streams.get(frame.stream)) is not None:
                await found.incoming.put(frame.data)
                if frame.last:
                    found.incoming.finish()
            case Reset() if (found := self._streams.pop(frame.stream, None)) is not None:
                found.broken()
            case Ping() if frame.number % 2:  # a client's
                await self._wire.write(self._framing.ping(frame.number))
            case _:
                pass
