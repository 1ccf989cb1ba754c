"""Steady traffic of many client pods comes one after the other."""

from __future__ import annotations

import threading
from typing import cast

from harness.backends.any_cluster.dialing import Dialed, Dialer
from harness.backends.any_cluster.pods import ClientPod
from harness.backends.any_cluster.steady import TRIES, Steady
from harness.model.outcomes import Reached
from harness.probes.loop import Probe

CLIENT = ClientPod("td-abcd1234-main-clients", "client-a1", 8080)


class _Dialer:
    """Answers at once, and says when all of these ports were asked for."""

    def __init__(self, awaited: set[int]) -> None:
        self.asked: list[int] = []
        self._awaited = awaited
        self.done = threading.Event()

    def begin(self, probe: Probe) -> None:
        pass

    def dial(self, probe: Probe, tries: int) -> Dialed:
        self.asked.append(probe.port)
        if self._awaited <= {*self.asked}:
            self.done.set()
        return Dialed([Reached("td-x-main-1/a1")] * tries, 0.001)


def _ports(interval: float, awaited: set[int]) -> tuple[list[int], int]:
    """The ports that four streams asked for, and the number of their samples."""
    dialer = _Dialer(awaited)
    steady = Steady(
        cast("Dialer", dialer), interval, [Probe(CLIENT, "TCP", "10.96.0.1", 80 + each) for each in range(4)]
    )
    assert dialer.done.wait(30)
    samples = steady.stop()
    return dialer.asked, len(samples)


def test_each_stream_begins_in_its_own_moment() -> None:
    """The second one would in 25 s."""
    assert _ports(10.0, {80}) == ([80], TRIES)


def test_all_streams_are_sent() -> None:
    asked, samples = _ports(0.004, {80, 81, 82, 83})
    assert samples == TRIES * len(asked)
