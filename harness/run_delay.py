"""Measure for how long the programs of this run could not run, so that time limits can exclude this time.

A limit such as "within 5 s" applies to a program, and not to the machine. The kernel counts the time for which each
thread waits for a CPU (`run_delay` in /proc/…/schedstat), and shows a stopped thread as state "T". If a thread wakes
late although this process used no CPU time, the whole process was stopped, by SIGSTOP or a suspend. The programs are
this process and its descendants. The waits of all threads are added, up to the elapsed time, because a change passes
through one program after another. So the result is an upper bound: a limit that is exceeded even without this time is
certainly exceeded.
"""

import contextlib
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

EVERY = 0.1  # seconds between two samples

LATE = 0.5
"""Seconds without running after which this process counts as stopped. Shorter delays are part of `run_delay`."""

_SUPERVISOR = b"sandbox_supervisor.main()"  # in the command line of the ancestor of all programs in a sandbox
_SHOWN = 200  # maximum number of characters of a command line
_INTERVALS = 6_000  # ten minutes of samples
_RUNNABLE, _STOPPED = "R", "T"  # states of a thread


def time_left(limit: float, passed: float, lost: float, most: float) -> tuple[float, bool]:
    """Return the time left (in s), up to `limit * most` in all, and whether programs could run for the whole limit."""
    return min(limit + lost, limit * most) - passed, passed - lost >= limit


class ThreadTimes(NamedTuple):
    """The state of a thread, and for how many nanoseconds it has run and has waited for a CPU."""

    state: str
    ran: int
    waited: int


@dataclass(frozen=True, slots=True)
class ThreadSnapshot:
    """The times of all threads (keyed by ID), and the CPU time of this process (`used`), at the monotonic time `at`.

    `programs` lists two processes per thread: a child of this process, and its descendant that runs the thread.
    """

    at: float
    used: float
    threads: Mapping[str, ThreadTimes] = field(default_factory=dict)
    programs: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def lost_since(self, earlier: "ThreadSnapshot") -> float:
        """Return an upper bound (in s) of the time since an earlier sample in which some thread could not run.

        A runnable thread with unchanged times has waited: the kernel adds its waiting time only when it runs again.
        """
        passed = self.at - earlier.at
        asleep = passed - EVERY - (self.used - earlier.used)
        waited = 0.0
        for thread, before in earlier.threads.items():
            now = self.threads.get(thread)
            if now is None:
                waited += passed * (before.state == _RUNNABLE)
            elif now.state == before.state and now.state in (_RUNNABLE, _STOPPED) and now[1:] == before[1:]:
                waited += passed
            else:
                waited += (now.waited - before.waited) / 1e9
        new = self.threads.keys() - earlier.threads.keys() if earlier.threads else ()
        waited += sum(self.threads[thread].waited for thread in new) / 1e9
        return min(passed, max(waited, asleep if asleep > LATE else 0.0))

    def ran_since(self, earlier: "ThreadSnapshot") -> Counter[tuple[str, str]]:
        """Return for how many nanoseconds each program has run since an earlier sample."""
        ran: Counter[tuple[str, str]] = Counter()
        for thread, program in self.programs.items():
            before = earlier.threads.get(thread)
            ran[program] += self.threads[thread].ran - (before.ran if before else 0)
        return +ran


def sample(without: int = 0) -> ThreadSnapshot:
    """Return a sample of this process and its descendants, except for the thread with ID `without`."""
    this = Path(f"/proc/{os.getpid()}")
    threads = dict(threads_of(this))
    threads.pop(str(without), None)
    programs: dict[str, tuple[str, str]] = {}
    for child in _children(this):
        for process in family(child):
            for thread, times in threads_of(process):
                threads[thread], programs[thread] = times, (child.name, process.name)
    return ThreadSnapshot(time.monotonic(), time.process_time(), threads, programs)


def family(process: Path) -> Iterator[Path]:
    """Yield the /proc folders of a process and its descendants (only with `CONFIG_PROC_CHILDREN` in the kernel)."""
    yield process
    for child in _children(process):
        yield from family(child)


def _children(process: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(process / "task"):  # noqa: PTH208  paths cost as much as the reading, and this is hot
            with contextlib.suppress(OSError):
                for child in _read(f"{process}/task/{thread}/children").split():
                    yield process.parent / child.decode()


def threads_of(process: Path) -> Iterator[tuple[str, ThreadTimes]]:
    """Yield the ID, state and times of each thread of a process, or nothing on a kernel without `CONFIG_SCHED_INFO`."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(process / "task"):  # noqa: PTH208  as in `family`
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                state = _read(f"{process}/task/{thread}/stat").rpartition(b")")[2].split(None, 1)[0].decode()
                ran, waited, *_ = map(int, _read(f"{process}/task/{thread}/schedstat").split())
                yield thread, ThreadTimes(state, ran, waited)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123  as in `family`
        return file.read()


def of_this_thread() -> float:
    """Return for how many seconds this thread has waited for a CPU since its start."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9
    return 0.0


class RunDelay:
    """Samples all threads, in a separate thread, while a wait is in progress."""

    def __init__(self, look: Callable[[int], ThreadSnapshot] = sample) -> None:
        self._look = look
        self.stopped = False  # whether a program was stopped in the last sample
        self._last = ThreadSnapshot(time.monotonic(), time.process_time())
        self._lost: deque[tuple[float, float, float]] = deque(maxlen=_INTERVALS)  # begin, end, lost seconds
        self._ran: deque[tuple[float, Mapping[tuple[str, str], int]]] = deque(maxlen=_INTERVALS)  # end, nanoseconds
        self._mutex, self._sampling = threading.Lock(), threading.RLock()  # an alarm may interrupt a sample
        self._watching = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Take samples during the block. Blocks may overlap."""
        with self._mutex:
            self._watching += 1
            if self._ended.is_set() or self._thread is None or not self._thread.is_alive():  # a fork has no thread
                self._ended = threading.Event()
                self._last = ThreadSnapshot(time.monotonic(), time.process_time())
                self._thread = threading.Thread(target=self._watch, args=(self._ended,), name="run-delay", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._mutex:
                self._watching -= 1
                if not self._watching:
                    self._ended.set()  # without waiting for the thread, which may take long on a busy machine

    def end(self) -> None:
        """Wait for the end of the thread, for a caller that needs a process with one thread."""
        if self._thread is not None and self._ended.is_set():
            self._thread.join()

    def lost(self, since: float, until: float | None = None) -> float:
        """Return an upper bound (in s) of the time between `since` and `until` in which programs could not run."""
        until = time.monotonic() if until is None else until
        if self._watching and until - self._last.at > 2 * EVERY:  # the thread may be late itself
            self._update()
        lost = 0.0
        for begin, end, seconds in reversed(list(self._lost)):
            if end <= since:
                break
            lost += min(seconds, max(0.0, min(end, until) - max(begin, since)))
        return lost

    def busiest(self, since: float) -> tuple[float, str]:
        """Find the node whose judged programs ran longest. Return their CPU time (in s) and their busiest process."""
        ran: Counter[tuple[str, str]] = Counter()
        for end, each in reversed(list(self._ran)):
            if end <= since:
                break
            ran.update(each)
        by_child: Counter[str] = Counter()
        for (child, _), nanoseconds in ran.items():
            by_child[child] += nanoseconds
        for child, nanoseconds in by_child.most_common():
            if _SUPERVISOR in _command(child):  # other children are workers and helpers of the run
                process = next(process for (at, process), _ in ran.most_common() if at == child)
                return nanoseconds / 1e9, process
        return 0.0, ""

    def note(self, now: ThreadSnapshot) -> None:
        if self._last.threads and (ran := now.ran_since(self._last)):
            self._ran.append((now.at, ran))
        if now.at > self._last.at and (lost := now.lost_since(self._last)):
            self._lost.append((self._last.at, now.at, lost))
        self._last = now
        self.stopped = any(each.state == _STOPPED for each in now.threads.values())

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(EVERY):
            self._update()

    def _update(self) -> None:
        with self._sampling:
            self.note(self._look((self._thread and self._thread.native_id) or 0))


def _command(process: str) -> bytes:
    with contextlib.suppress(OSError):
        return _read(f"/proc/{process}/cmdline")
    return b""


def program_text(process: str) -> str:
    """Return the untrusted command line of a process, or the process ID if the process has ended."""
    words = _command(process).rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return words[:_SHOWN] or f"process {process}"


RUN_DELAY = RunDelay()
"""The delay of this process and its descendants. All time limits use this object."""
