"""Tests that steady traffic from many client pods starts at different times."""

from __future__ import annotations

import threading
from typing import cast

from harness.backends.any_cluster.dialing import STEADY_TRIES, Dialer, DialResult, SteadyProbes
from harness.backends.any_cluster.pods import ClientPod
from harness.model.outcomes import TIMED_OUT, Reached
from harness.probes.loop import Probe

CLIENT = ClientPod("td-abcd1234-main-clients", "client-a1", 8080)


class _FakeDialer:
    """A dialer that gets no answer to its first requests. It sets `done` after enough requests to the awaited ports."""

    def __init__(self, awaited: set[int], silent: int = 0, requests: int = 1) -> None:
        self.asked: list[int] = []
        self.tries: list[int] = []
        self._awaited = awaited
        self._silent = silent
        self._requests = requests
        self.done = threading.Event()

    def begin(self, probe: Probe) -> None:
        pass

    def dial(self, probe: Probe, tries: int) -> DialResult:
        self.asked.append(probe.port)
        self.tries.append(tries)
        if self._awaited <= {*self.asked} and len(self.asked) >= self._requests:
            self.done.set()
        silent = len(self.asked) <= self._silent
        return DialResult([TIMED_OUT if silent else Reached("td-x-main-1/a1")] * tries, 0.001)


def _run(dialer: _FakeDialer, interval: float, streams: int = 4) -> int:
    """Run steady traffic, and return the number of samples."""
    probes = [Probe(CLIENT, "TCP", "10.96.0.1", 80 + each) for each in range(streams)]
    steady = SteadyProbes(cast("Dialer", dialer), interval, probes)
    assert dialer.done.wait(30)
    return len(steady.stop())


def test_streams_are_staggered() -> None:
    """The second of the four streams would start after 25 s."""
    dialer = _FakeDialer({80})
    assert _run(dialer, 10.0) == 1
    assert dialer.asked == [80]


def test_all_streams_are_sent() -> None:
    dialer = _FakeDialer({80, 81, 82, 83})
    assert _run(dialer, 0.004) == sum(dialer.tries)


def test_requests_have_one_try_until_one_is_answered() -> None:
    """The number of unanswered attempts is then always known, and their repeated SYNs do not count as losses."""
    dialer = _FakeDialer({80}, silent=3, requests=6)
    _run(dialer, 0.001, streams=1)
    assert dialer.tries[:6] == [1, 1, 1, 1, STEADY_TRIES, STEADY_TRIES]
