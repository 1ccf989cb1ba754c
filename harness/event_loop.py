"""An asyncio event loop in its own thread. It ends all tasks and connections when it closes."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

T = TypeVar("T")


class EventLoop:
    """An event loop in a separate thread. On the loop's thread, call only `after` and `spawn`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        if self.thread.is_alive():
            self.run(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self.thread.join()
        self._loop.close()

    def run(self, task: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()

    def spawn(self, task: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine. Cancelling the future cancels the coroutine. After `close`, the future is cancelled."""
        try:
            return asyncio.run_coroutine_threadsafe(task, self._loop)
        except RuntimeError:
            task.close()
            cancelled: Future[T] = Future()
            cancelled.cancel()
            return cancelled

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function on the loop's thread after a delay, unless the loop ends. The function must not block."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, call)

    async def _end(self) -> None:
        while running := asyncio.all_tasks() - {asyncio.current_task()}:
            # A task that is cancelled before its first step leaves its arguments open. asyncio starts such a task for
            # each connection that it accepts.
            await asyncio.sleep(0)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def close_server(server: asyncio.Server) -> None:
    """Close a server after its accepted connections have a transport. `Server.close` alone would leave connections open
    that asyncio has just accepted.
    """
    for each in server.sockets:
        asyncio.get_running_loop().remove_reader(each)
    await asyncio.sleep(0)
    server.close()
