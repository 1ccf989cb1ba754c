"""The standard streams of a program: pipes, or a terminal."""

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Collection


class StandardStreams:
    """Both ends of each stream. `started` closes the program's ends. `close` closes all ends that were not taken."""

    def __init__(self, names: Collection[str] = (), *, tty: bool = False) -> None:
        """Connect the named streams ("stdin", "stdout", "stderr"). Without `tty`, the other streams are /dev/null."""
        self.tty = tty
        self._ours: dict[str, int] = {}
        self._terminal, theirs = os.openpty() if tty else (-1, os.open(os.devnull, os.O_RDWR))
        self._theirs = [theirs]
        self.stdin = self.stdout = self.stderr = theirs
        for name in names:
            if tty:
                self._ours[name] = os.dup(self._terminal)
            else:
                read, write = os.pipe()
                self._ours[name], theirs = (write, read) if name == "stdin" else (read, write)
                self._theirs.append(theirs)
                setattr(self, name, theirs)

    def take(self, name: str) -> int:
        """Return the kubelet's end of a connected stream, which the caller then owns."""
        return self._ours.pop(name)

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, if there is one. The program receives SIGWINCH."""
        if self._terminal >= 0:
            size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def started(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())

    def close(self) -> None:
        self.started()
        while self._ours:
            os.close(self._ours.popitem()[1])
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


@contextlib.asynccontextmanager
async def reading(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb", 0)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
    try:
        yield reader
    finally:
        transport.close()


@contextlib.asynccontextmanager
async def writing(descriptor: int) -> AsyncIterator[asyncio.StreamWriter]:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    file = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield asyncio.StreamWriter(transport, protocol, reader, loop)
    except BaseException:
        transport.abort()
        raise
    transport.close()  # after everything is written
