"""A fake transport that records writes, and a fake protocol that records received data."""

from __future__ import annotations

import asyncio


class RecordingTransport(asyncio.Transport):
    """An open connection without a peer."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.protocol: asyncio.BaseProtocol | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class NextProtocol(asyncio.Protocol):
    """A fake of the protocol that takes over a connection."""

    def __init__(self) -> None:
        self.received = b""
        self.made: asyncio.Protocol | None = None

    def make(self) -> asyncio.Protocol:
        self.made = self
        return self

    def data_received(self, data: bytes) -> None:
        self.received += data
