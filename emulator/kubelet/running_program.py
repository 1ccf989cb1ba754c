"""The running program of a container. The program's output is written to the container's log."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping

from emulator.kubelet.container_log import ContainerLog
from emulator.kubelet.sandbox import SandboxProcess
from harness.event_loop import EventLoop

_CHUNK = 1 << 16
_LAST_CHUNKS = 64  # maximum number of chunks to read from each output after the program has ended


async def exit_code(process: SandboxProcess) -> int:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.fileno(), ended.set)
    try:
        while (code := process.poll()) is None:
            ended.clear()
            await ended.wait()
    finally:
        loop.remove_reader(process.fileno())
    return code


class RunningProgram:
    """A program in a sandbox. `ended` is called with the exit code on the loop's thread, except after `drop`."""

    def __init__(
        self,
        process: SandboxProcess,
        outputs: Mapping[int, str],
        log: ContainerLog,
        loop: EventLoop,
        ended: Callable[[int], None],
    ) -> None:
        """Take ownership of the process and of the read ends in `outputs`, a map from descriptors to stream names."""
        self._process = process
        self._future = loop.spawn(self._follow(outputs, log, ended))

    def terminate(self) -> None:
        self._process.signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.signal(signal.SIGKILL)

    def drop(self) -> None:
        self._future.cancel()

    async def _follow(self, outputs: Mapping[int, str], log: ContainerLog, ended: Callable[[int], None]) -> None:
        loop = asyncio.get_running_loop()

        def read(descriptor: int) -> bool:
            data = os.read(descriptor, _CHUNK)
            log.write(data, outputs[descriptor])
            return bool(data)

        def readable(descriptor: int) -> None:
            with contextlib.suppress(BlockingIOError):
                if not read(descriptor):
                    loop.remove_reader(descriptor)

        try:
            for each in outputs:
                os.set_blocking(each, False)
                loop.add_reader(each, readable, each)
            code = await exit_code(self._process)
        finally:
            for each in outputs:
                loop.remove_reader(each)
                with contextlib.suppress(BlockingIOError):
                    for _ in range(_LAST_CHUNKS):
                        if not read(each):
                            break
                os.close(each)
            self._process.close()
            log.end()
        ended(code)
