"""The container runtime: runs containers, and sends them HTTP requests, all on one thread."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from emulator.kubelet.agnhost import printed
from emulator.kubelet.agnhost.answers import NetexecAnswers, Process, answers_of
from emulator.kubelet.agnhost.arguments import Command
from emulator.kubelet.agnhost.dialing import HttpTry, Report, TcpTry
from emulator.kubelet.agnhost.serving import AgnhostServer
from emulator.kubelet.container_log import ContainerLog
from emulator.kubelet.program import RunningProgram
from emulator.kubelet.sandbox import KILLED, Sandbox
from harness.errors import InconclusiveError
from harness.netns.addresses import Family
from harness.netns.namespace import roam
from harness.probes.probe import SocketSource
from harness.probes.reactor import Reactor, Waiter


class Container:
    """An agnhost. `ended` is called with its exit code on the engine's thread, except after `drop`."""

    def __init__(self, command: Command, process: Process, reactor: Reactor, ended: Callable[[int], None]) -> None:
        self._command = command
        self._process = process
        self._reactor = reactor
        self._ended = ended
        self._server: AgnhostServer | None = None
        self._runs = True
        self._told_to_end = False

    def open(self, source: SocketSource, families: Sequence[Family]) -> None:
        """Open the ports. On the engine's thread. Raises `OSError`."""
        if (answers := answers_of(self._command, self._process, source)) is not None:
            server = AgnhostServer(answers, source, self._reactor)
            server.open(families)
            self._server = server
        for stream, data in printed.at_start(self._command):
            self._process.log.write(data, stream)

    def terminate(self) -> None:
        """End it as SIGTERM does, after the delay in its command line."""
        with contextlib.suppress(InconclusiveError):  # an engine that ended has ended it
            self._reactor.call(self._terminate)

    def kill(self) -> None:
        """End it as SIGKILL does, at once."""
        with contextlib.suppress(InconclusiveError):
            self._reactor.call(lambda: self._end(KILLED))

    def drop(self) -> None:
        """End it at once, without a call of `ended`."""
        self._ended = lambda _code: None
        self.kill()

    def _terminate(self) -> None:
        if self._told_to_end:
            return
        self._told_to_end = True
        for stream, data in printed.at_sigterm(self._command):
            self._process.log.write(data, stream)
        if self._server is not None and isinstance(self._server.answers, NetexecAnswers):
            self._server.answers.me = dataclasses.replace(self._server.answers.me, ending=True)
        delay, code = self._command.delay_shutdown, self._command.exit_code
        if delay > 0:
            self._reactor.at(time.monotonic() + delay, Alarm(lambda: self._end(code)))
        else:
            self._end(code)

    def _end(self, code: int) -> None:
        if not self._runs:
            return
        self._runs = False
        if self._server is not None:
            self._server.shut()
        self._ended(code)


class Alarm:
    """Calls a function on the engine's thread when its time comes."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.done = False
        self._ring = ring

    def expired(self, _now: float) -> None:
        self.done = True
        self._ring()

    def cancel(self) -> None:
        """Cancel the call."""
        self.done = True


class Engine:
    """A context manager. `get`, `connect` and `after` may be called from any thread, the others not from its own."""

    def __init__(self) -> None:
        self._reactor = Reactor()

    @property
    def thread(self) -> threading.Thread:
        """Its thread, which runs from `start` to `close`."""
        return self._reactor.thread

    def start(self) -> None:
        """Start the engine's thread. Once."""
        self._reactor.start()
        self._reactor.call(roam)

    def close(self) -> None:
        """End all containers and the thread. Idempotent."""
        self._reactor.close()

    def run(
        self,
        command: Command,
        source: SocketSource,
        *,
        families: Sequence[Family],
        process: Process,
        ended: Callable[[int], None] = lambda _code: None,
    ) -> Container:
        """Start an agnhost whose sockets are made by `source`. Raises `OSError` if its ports are taken."""
        container = Container(command, process, self._reactor, ended)
        self._reactor.call(lambda: container.open(source, families))
        return container

    def execute(
        self,
        argv: Sequence[str],
        sandbox: Sandbox,
        environment: Mapping[str, str],
        folder: str,
        log: ContainerLog,
        *,
        ended: Callable[[int], None] = lambda _code: None,
    ) -> RunningProgram:
        """Start the own program of a container, and log what it writes. Raises what `Sandbox.start` does."""
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        (out, to_out), (err, to_err) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        try:
            process = sandbox.start(argv, env=environment, stdin=nothing, stdout=to_out, stderr=to_err, folder=folder)
        except BaseException:
            os.close(out)
            os.close(err)
            raise
        finally:
            for each in (nothing, to_out, to_err):
                os.close(each)
        program = RunningProgram(process, log, self._reactor, ended)
        self._reactor.call(lambda: program.open({out: "stdout", err: "stderr"}))
        return program

    def get(self, source: SocketSource, target: tuple[str, int], path: str, *, seconds: float, report: Report) -> None:
        """GET a path from `source`; `report` gets status code and body, or 0 and the error, on the engine's thread."""
        attempt = HttpTry(target, path.removeprefix("/"), reactor=self._reactor, report=report)
        self._post(lambda: attempt.begin(source, seconds))

    def connect(self, source: SocketSource, target: tuple[str, int], *, seconds: float, report: Report) -> None:
        """Make a TCP connection and close it; `report` gets 200 and "", or 0 and the error."""
        attempt = TcpTry(target, "", reactor=self._reactor, report=report)
        self._post(lambda: attempt.begin(source, seconds))

    def after(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        """Call a function on the engine's thread after that time. It must not block."""
        alarm = Alarm(ring)
        self._post(lambda: self._reactor.at(time.monotonic() + seconds, alarm))
        return alarm

    def _post(self, command: Callable[[], None]) -> None:
        waiter = Waiter()

        def obey() -> None:
            command()
            self._reactor.finished(waiter)

        self._reactor.post(obey, waiter)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
