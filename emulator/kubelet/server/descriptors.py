"""The standard streams of a program that a client starts: pipes, or a terminal."""

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Collection

_OUTPUTS = ("stdout", "stderr")


class Descriptors:
    """Both ends of each stream. `started` closes the program's ends. `close` closes our ends that were not taken."""

    def __init__(self, names: Collection[str], *, tty: bool) -> None:
        """Connect the named streams ("stdin", "stdout", "stderr"). The other streams are /dev/null."""
        self._theirs: list[int] = []
        self._ours: dict[str, int] = {}
        self._terminal = -1
        self.stdin = self.stdout = self.stderr = -1
        if tty:
            self._open_terminal(names)
        else:
            self._open_pipes(names)

    @property
    def outputs(self) -> list[str]:
        """The connected output streams whose ends were not taken."""
        return [name for name in _OUTPUTS if name in self._ours]

    def take(self, name: str) -> int | None:
        """Return this side's end of a stream, which the caller then owns, or None if the stream is not connected."""
        return self._ours.pop(name, None)

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, if there is one. The program receives SIGWINCH."""
        if self._terminal >= 0:
            size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def started(self) -> None:
        """Close the program's ends. Idempotent."""
        while self._theirs:
            os.close(self._theirs.pop())

    def close(self) -> None:
        """Close this side's ends that were not taken. Idempotent."""
        self.started()
        while self._ours:
            os.close(self._ours.popitem()[1])
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    def _open_pipes(self, names: Collection[str]) -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        self._theirs.append(nowhere)
        self.stdin = self.stdout = self.stderr = nowhere
        for name in names:
            read, write = os.pipe()
            ours, theirs = (write, read) if name == "stdin" else (read, write)
            self._theirs.append(theirs)
            self._ours[name] = ours
            setattr(self, name, theirs)

    def _open_terminal(self, names: Collection[str]) -> None:
        self._terminal, theirs = os.openpty()
        self._theirs.append(theirs)
        self.stdin = self.stdout = self.stderr = theirs
        self._ours = {name: os.dup(self._terminal) for name in names}


@contextlib.asynccontextmanager
async def reading(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield reader
    finally:
        transport.close()


@contextlib.asynccontextmanager
async def writing(descriptor: int) -> AsyncIterator[asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield asyncio.StreamWriter(transport, protocol, reader, loop)
    except BaseException:
        transport.abort()
        raise
    transport.close()  # after everything is written
