"""An event loop: one thread that waits for many sockets.

Servers and probes are callbacks on file descriptors, because the cost of a probe limits the number of probes that a
requirement can use. All methods run on the loop's thread, except `start`, `close`, `run` and `call`. An exception in a
callback ends the loop, and all callers get an error, because a loop that failed silently would look like a proxy that
drops packets. The loop extends deadlines by the time in which it was busy or did not run.
"""

import errno
import heapq
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from harness import threads
from harness.errors import HarnessError, InconclusiveError

T = TypeVar("T")

LATE = 0.05  # seconds; if a timer is later than this, the loop itself is late, and all deadlines move by the delay
_HUNG = 60.0  # seconds after the time limit of a command at which the loop itself counts as hung

_STARVED = {errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Errors that mean that this machine or process lacks a resource. EADDRNOTAVAIL: the netns has no free port."""


class DescriptorOwner(Protocol):
    def ready(self) -> None:
        """Handle a descriptor that epoll reported as readable or in error. A read may still return no data."""

    def give_up(self, why: str) -> None:
        """Handle a fault of the harness: a probe ends as `Unknown`, while a server continues."""

    def drop(self) -> None:
        """Close the descriptor without a report, because the loop has ended."""


class Timer(Protocol):
    """An action at a deadline. The loop skips a timer whose `done` is true."""

    @property
    def done(self) -> bool: ...

    def expired(self, now: float) -> None: ...


class Reactor:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # other threads write to it to wake the loop
        self._watched: dict[int, DescriptorOwner] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._commands: deque[Callable[[], None]] = deque()
        self._waiting: set[Future[Any]] = set()
        self._mutex = threading.Lock()  # guards _state and _commands against a loop that ends
        self._state = "new"
        self._woken = 0.0  # time of the last return from epoll
        self._failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="probes", daemon=True)
        self._epoll.register(self._wake, select.EPOLLIN)

    def start(self) -> None:
        self._state = "running"
        self.thread.start()

    def close(self) -> None:
        """End the thread. Waiting callers receive an `InconclusiveError`. Idempotent."""
        with self._mutex:
            started = self._state != "new"
            if self._state == "running":
                self._state = "closing"
                os.eventfd_write(self._wake, 1)
        if started:
            self.thread.join()
        with self._mutex:
            if self._state != "closed":
                self._state = "closed"
                self._epoll.close()
                os.close(self._wake)

    def run(self, command: Callable[[Future[T]], None], *, within: float, what: str) -> T:
        """Run `command` on the loop's thread. Return the value it passes to `finish`. Raises `InconclusiveError`."""
        result: Future[T] = Future()
        with self._mutex:
            if self._state != "running":
                raise self._not_running()
            self._waiting.add(result)
            self._commands.append(lambda: command(result))
            os.eventfd_write(self._wake, 1)
        try:
            return result.result(within + _HUNG)
        except TimeoutError:
            if result.done():  # the command itself has raised it
                raise
            raise InconclusiveError(f"the probe loop did not finish {what}") from None

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the loop's thread. Return its value or raise its error. Blocks."""

        def command(result: Future[T]) -> None:
            try:
                self.finish(result, function())
            except (HarnessError, OSError) as error:
                self._waiting.discard(result)
                result.set_exception(error)

        return self.run(command, within=0, what="a command")

    def finish(self, result: Future[T], value: T) -> None:
        if result in self._waiting:
            self._waiting.remove(result)
            result.set_result(value)

    def watch(self, fd: int, owner: DescriptorOwner) -> None:
        self._watched[fd] = owner
        self._epoll.register(fd, select.EPOLLIN)

    def forget(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def give_up(self, why: str) -> None:
        """End all running probes as `Unknown`, because of a fault of the harness."""
        for owner in list(self._watched.values()):
            owner.give_up(why)

    def at(self, deadline: float, timer: Timer) -> None:
        """Call `timer.expired` at `deadline` (monotonic seconds) unless the timer is done by then."""
        heapq.heappush(self._timers, (deadline, next(self._order), timer))

    def _not_running(self) -> InconclusiveError:
        failed = f"the probe loop failed: {type(self._failure).__name__}: {self._failure}"
        return InconclusiveError(failed if self._failure else f"the probe loop is not running: it is {self._state}")

    def _run(self) -> None:
        self._woken = time.monotonic()
        try:
            while self._state == "running":
                self._turn()
        except BaseException as error:  # noqa: BLE001  waiting callers must receive any error
            self._failure = error
            threads.ends_by(error)
        with self._mutex:
            self._state = "broken" if self._failure else "stopped"
            waiting, self._waiting = self._waiting, set()
        for owner in list(self._watched.values()):
            owner.drop()
        for result in waiting:
            failure = self._not_running()
            failure.__cause__ = self._failure
            result.set_exception(failure)

    def _turn(self) -> None:
        busy = time.monotonic() - self._woken
        if busy > LATE:
            self._excuse(busy)
        events = self._epoll.poll(self._patience())
        self._woken = now = time.monotonic()
        for fd, _ in events:
            owner = self._watched.get(fd)
            if owner is not None:
                owner.ready()
            elif fd == self._wake:
                os.eventfd_read(fd)
                while self._commands:
                    self._commands.popleft()()
        if self._timers and now - self._timers[0][0] > LATE:
            self._excuse(now - self._timers[0][0] + LATE)
        timers = self._timers
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer.done:
                timer.expired(now)

    def _patience(self) -> float:
        timers = self._timers
        while timers and timers[0][2].done:
            heapq.heappop(timers)
        return max(0.0, timers[0][0] - time.monotonic()) if timers else -1

    def _excuse(self, delay: float) -> None:
        """Extend all deadlines by the time in which the loop did not receive events."""
        self._timers = [(deadline + delay, order, timer) for deadline, order, timer in self._timers]


def starved(error: OSError) -> bool:
    return error.errno in _STARVED
