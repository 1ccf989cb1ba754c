"""The own program of a container while it runs: what it writes goes to the container's log, until it ends.

All on the reactor's thread, except `terminate`, `kill` and `drop`.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping

from emulator.kubelet.container_log import ContainerLog
from emulator.kubelet.sandbox import KILLED, SandboxProcess
from harness.errors import InconclusiveError
from harness.probes.reactor import Reactor

_CHUNK = 1 << 16
_MOST = 64  # chunks that are still read of each output after the end


class RunningProgram:
    """A program in a sandbox. `ended` is called with its exit code on the reactor's thread, except after `drop`."""

    def __init__(
        self, process: SandboxProcess, log: ContainerLog, reactor: Reactor, ended: Callable[[int], None]
    ) -> None:
        self._process = process
        self._log = log
        self._reactor = reactor
        self._ended = ended
        self._outputs: list[_Output] = []
        self._runs = True

    def open(self, outputs: Mapping[int, str]) -> None:
        """Take over these descriptors, and read them until the end. On the reactor's thread."""
        for descriptor, stream in outputs.items():
            os.set_blocking(descriptor, False)
            self._outputs.append(_Output(descriptor, stream, self._log, self._reactor))
        self._reactor.watch(self._process.fileno(), self)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.signal(signal.SIGKILL)

    def drop(self) -> None:
        """End it at once, without a call of `ended`. Any thread may ask."""
        self._ended = lambda _code: None
        with contextlib.suppress(InconclusiveError):  # an engine that ended has ended it
            self._reactor.call(lambda: self._end(KILLED))

    def ready(self) -> None:
        """Note its end."""
        if (code := self._process.poll()) is not None:
            self._end(code)

    def give_up(self, why: str) -> None:
        """Ignore it: a program goes on."""

    def _end(self, code: int) -> None:
        if not self._runs:
            return
        self._runs = False
        for output in self._outputs:
            output.finish()
        self._reactor.forget(self._process.fileno())
        self._process.close()
        self._log.end()
        self._ended(code)


class _Output:
    """The readable end of a pipe to which a program writes."""

    def __init__(self, descriptor: int, stream: str, log: ContainerLog, reactor: Reactor) -> None:
        self._descriptor = descriptor
        self._stream = stream
        self._log = log
        self._reactor = reactor
        reactor.watch(descriptor, self)

    def ready(self) -> None:
        """Read once."""
        if not self._read():
            self.drop()

    def give_up(self, why: str) -> None:
        """Ignore it: a program goes on."""

    def finish(self) -> None:
        """Read what is there, and close it."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST):
                if self._descriptor < 0 or not self._log_chunk():
                    break
        self.drop()

    def drop(self) -> None:
        """Close it. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._reactor.forget(descriptor)
            os.close(descriptor)

    def _read(self) -> bool:
        try:
            return self._log_chunk()
        except BlockingIOError:
            return True

    def _log_chunk(self) -> bool:
        data = os.read(self._descriptor, _CHUNK)
        self._log.write(data, self._stream)
        return bool(data)
