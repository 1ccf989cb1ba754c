"""Control probes beside one question that somebody else asks, on a thread and by a program of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from harness.errors import InconclusiveError
from harness.eventually import time_scale
from harness.probes.control import LIMIT, Control, Ground, once
from harness.probes.probe import Probe
from harness.probes.reactor import Reactor, Waiter


class Beside:
    """A context manager: control probes go beside the block, which may ask at its end whether they were lost."""

    def __init__(self, probe: Probe, *, ground: Ground, reactor: Reactor) -> None:
        """`probe` says from where and in which family; it is not sent."""
        self._probe = probe
        self._control = Control(ground=ground, reactor=reactor, missing=once(probe))
        self._reactor = reactor

    def what_was_wrong(self) -> str:
        """Return what was wrong with control probes until now, "" for nothing. Once. Raises `InconclusiveError`."""
        said: list[str] = []
        waiter = Waiter()

        def tell(why: str) -> None:
            said.append(why)
            self._reactor.finished(waiter)

        self._reactor.post(lambda: self._control.conclude(tell, [self._probe]), waiter)
        if not waiter.wait(60 + LIMIT * time_scale()):
            raise InconclusiveError("the probe loop did not finish control probes")
        return said[0]

    def __enter__(self) -> Self:
        self._post(self._control.begin)
        return self

    def __exit__(self, *_: object) -> None:
        self._post(self._control.end)

    def _post(self, command: Callable[[], None]) -> None:
        """Run a command on the loop's thread, and do not wait for it."""
        waiter = Waiter()

        def run() -> None:
            command()
            self._reactor.finished(waiter)

        self._reactor.post(run, waiter)
