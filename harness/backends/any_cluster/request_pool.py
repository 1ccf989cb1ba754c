"""Sends many requests concurrently, in threads that never delay the end of a run. Gives up if nodes stop responding."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from harness.errors import InconclusiveError

LATE = 8.0  # seconds without any answer until nodes are watched
LOOK = 1.0  # seconds between two checks of the watch

BeginWatch = Callable[[], Callable[[], None]]
"""Starts to watch nodes. The returned function is called repeatedly, and raises an error if no answer can arrive."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class RequestPool:
    """Sends at most `size` requests concurrently. Thread-safe."""

    def __init__(self, size: int, begin_watch: BeginWatch) -> None:
        self._size = size
        self._turns = threading.BoundedSemaphore(size)  # shared by all calls of `each`
        self._begin_watch = begin_watch
        self._ended = threading.Event()

    def close(self) -> None:
        """Start no more requests. Idempotent."""
        self._ended.set()

    def each(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> Iterator[tuple[Item, Answer]]:
        """Yield items with their answers in order of arrival. Raises the errors of `ask` and of `begin_watch`."""
        answers: queue.SimpleQueue[tuple[Item, Answer] | BaseException] = queue.SimpleQueue()
        waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
        for item in items:
            waiting.put(item)
        given_up = threading.Event()

        def work() -> None:
            while not given_up.is_set():
                try:
                    item = waiting.get_nowait()
                except queue.Empty:
                    return
                with self._turns:
                    if given_up.is_set():
                        return
                    try:
                        if self._ended.is_set():
                            raise InconclusiveError("no more requests are sent: the run has ended")
                        answers.put((item, ask(item)))
                    except BaseException as error:  # noqa: BLE001  raised where it is waited for
                        answers.put(error)

        for _ in range(min(self._size, len(items))):
            threading.Thread(target=work, name="pool", daemon=True).start()
        try:
            for _ in items:
                answer = self._next(answers)
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            given_up.set()

    def _next(self, answers: queue.SimpleQueue[Answer]) -> Answer:
        with contextlib.suppress(queue.Empty):
            return answers.get(timeout=LATE)
        look = self._begin_watch()
        while True:
            look()
            with contextlib.suppress(queue.Empty):
                return answers.get(timeout=LOOK)
