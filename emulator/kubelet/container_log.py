"""Keep the log of a container in memory: the latest lines, with their times and streams."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

MOST = 1 << 20  # maximum size of a log in bytes
_LONGEST = 16 << 10  # maximum size of a line in bytes; containerd also splits longer lines
_EACH = 64  # assumed overhead of a stored line in bytes


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, or a part of a line, that a container wrote. `at` is in nanoseconds since the epoch."""

    at: int
    stream: str
    text: bytes
    whole: bool = True

    def shown(self, *, timestamps: bool = False) -> bytes:
        """Return the line as `kubectl logs` prints it. `timestamps` puts `2026-11-24T02:00:00.123456789Z` before it."""
        seconds, nanoseconds = divmod(self.at, 10**9)
        time = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z "
        return (time.encode() if timestamps else b"") + self.text + (b"\n" if self.whole else b"")


class ContainerLog:
    """The log of one run of a container. Thread-safe."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._wakes: set[Callable[[], None]] = set()  # callbacks that wake followers
        self._lines: deque[LogLine] = deque()
        self._first = 0  # the number of the oldest line that is still stored
        self._size = 0
        self._open: dict[str, bytes] = {}  # the unfinished line, by stream
        self._ended = False

    def write(self, data: bytes, stream: str = "stdout") -> None:
        with self._lock:
            *whole, rest = (self._open.get(stream, b"") + data).split(b"\n")
            at = time.time_ns()
            for text in whole:
                self._keep(LogLine(at, stream, self._last_part(at, stream, text)))
            self._open[stream] = self._last_part(at, stream, rest)
            self._wake()

    def end(self) -> None:
        """Record that the container has ended. Store unfinished lines, and end all `follow` calls. Idempotent."""
        with self._lock:
            for stream, rest in self._open.items():
                if rest:
                    self._keep(LogLine(time.time_ns(), stream, rest, whole=False))
            self._open.clear()
            self._ended = True
            self._wake()

    def lines(self, *, tail: int | None = None, since: float | None = None) -> list[LogLine]:
        """Return the last `tail` lines (default: all), without lines from before `since` (seconds since the epoch)."""
        with self._lock:
            return list(self._chosen(tail, since))

    async def follow(self, *, tail: int | None = None, since: float | None = None) -> AsyncGenerator[LogLine, None]:
        """Yield the lines that `lines` returns, and then new lines until the container has ended."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._wakes.add(wake)
            found, number = list(self._chosen(tail, since)), self._first + len(self._lines)
        try:
            while True:
                for line in found:
                    yield line
                changed.clear()
                with self._lock:
                    found = list(self._lines)[max(0, number - self._first) :]
                    number, ended = self._first + len(self._lines), self._ended
                if ended and not found:
                    return
                if not found:
                    await changed.wait()
        finally:
            with self._lock:
                self._wakes.discard(wake)

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()

    def _chosen(self, tail: int | None, since: float | None) -> Iterator[LogLine]:
        newest = list(self._lines)
        if tail is not None:
            newest = newest[_begin_of_tail(newest, tail) :]
        return (line for line in newest if since is None or line.at >= since * 10**9)

    def _last_part(self, at: int, stream: str, text: bytes) -> bytes:
        while len(text) > _LONGEST:
            self._keep(LogLine(at, stream, text[:_LONGEST], whole=False))
            text = text[_LONGEST:]
        return text

    def _keep(self, line: LogLine) -> None:
        self._lines.append(line)
        self._size += len(line.text) + _EACH
        while self._size > self._most:
            self._size -= len(self._lines.popleft().text) + _EACH
            self._first += 1


def _begin_of_tail(lines: list[LogLine], tail: int) -> int:
    """Return the index at which the last `tail` lines begin. The parts of a split line count as one line."""
    left = tail
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].whole or index == len(lines) - 1:
            if left == 0:
                return index + 1
            left -= 1
    return 0
