"""A transport that keeps what is written, and a protocol that keeps what it receives."""

from __future__ import annotations

import asyncio


class Recorder(asyncio.Transport):
    """An open connection to nobody."""

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


class Others(asyncio.Protocol):
    """What a connection is handed over to."""

    def __init__(self) -> None:
        self.received = b""
        self.made: asyncio.Protocol | None = None

    def make(self) -> asyncio.Protocol:
        self.made = self
        return self

    def data_received(self, data: bytes) -> None:
        self.received += data
