"""Steady traffic from client pods: each pod sends small batches one after the other until it is stopped.

The threads start staggered, because hundreds at once would delay each other's answers. While a client receives no
answers, each request has a single attempt: then its repeated SYNs do not count as lost packets of other probes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from harness.backends.any_cluster.dialing import Dialer
from harness.model.outcomes import TIMED_OUT
from harness.probes.loop import Probe, Sample

TRIES = 10  # attempts per request: with fewer attempts, the time of an answer is more exact


class Steady:
    """Sends probes in the background, with one thread each."""

    def __init__(self, dialer: Dialer, interval: float, probes: Sequence[Probe]) -> None:
        self._dialer = dialer
        self._interval = interval
        self._count = len(probes)
        self._samples: list[Sample] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(number, probe), name=f"steady-{number}", daemon=True)
            for number, probe in enumerate(probes)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def asked(self) -> int:
        """The number of probes with an outcome so far."""
        return len(self._samples)

    def stop(self) -> list[Sample]:
        """Stop sending, wait for the last answers, and return all samples in the order of their start."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        return sorted(self._samples, key=lambda sample: sample.at)

    def _ask(self, number: int, probe: Probe) -> None:
        if self._ended.wait(TRIES * self._interval * number / self._count):
            return
        self._dialer.begin(probe)
        tries = 1
        while not self._ended.is_set():
            begin = time.monotonic()
            dialed = self._dialer.dial(probe, tries)
            step = (time.monotonic() - begin) / tries
            # agnhost does not report which attempt had which outcome: unanswered attempts are sorted first.
            ordered = sorted(dialed.outcomes, key=lambda outcome: outcome != TIMED_OUT)
            self._samples += [
                Sample(begin + index * step, outcome, number, step) for index, outcome in enumerate(ordered)
            ]
            self._ended.wait(begin + tries * self._interval - time.monotonic())
            tries = 1 if TIMED_OUT in dialed.outcomes else TRIES
