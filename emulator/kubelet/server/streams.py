"""Streams of bytes between a client and a kubelet: several of them over one connection, whatever the protocol.

Each stream keeps what has come and was not read yet, up to a limit. A client that sends more waits, with all its
streams: neither SPDY, as Kubernetes uses it, nor WebSockets can hold back one stream alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

_MOST = 1 << 20  # bytes that came and were not read


class Wire(Protocol):
    """Both directions of a connection."""

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the other side does not read. Raises `ConnectionError` if it has gone."""


class Stream(Protocol):
    """One stream of a connection."""

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the other side does not read. Raises `ConnectionError` if it has gone."""

    async def end(self) -> None:
        """Say that nothing more is sent. Raises `ConnectionError`."""

    def ignore(self) -> None:
        """Drop what came, and what comes."""


class Incoming:
    """What came for one stream."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._over = False  # nothing more comes
        self._unwanted = False
        self._readable, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    async def put(self, data: bytes) -> None:
        """Add bytes, as soon as there is room for them."""
        await self._room.wait()
        if data and not self._unwanted and not self._over:
            self._chunks.append(data)
            self._size += len(data)
            self._readable.set()
            if self._size >= _MOST:
                self._room.clear()

    def finish(self) -> None:
        """Note that nothing more comes."""
        self._over = True
        self._readable.set()
        self._room.set()

    async def get(self) -> bytes:
        """Return some bytes; none at the end."""
        while not self._chunks and not self._over:
            self._readable.clear()
            await self._readable.wait()
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        self._size -= len(data)
        self._room.set()
        return data

    def ignore(self) -> None:
        """Drop what came, and what comes."""
        self._unwanted = True
        self._chunks.clear()
        self._size = 0
        self._room.set()
