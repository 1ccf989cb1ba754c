"""Tests that the estimated remaining time is right within a third after a quarter of the run, on any machine."""

from __future__ import annotations

import heapq

import pytest

from harness.plugin.progress import Eta

SECONDS = {f"n{number}": 12.0 / (1 + number / 8) for number in range(120)}


def estimates(slower: float, workers: int) -> list[tuple[float, float]]:
    """Return two ratios at the end of each case: elapsed / total time, and estimated / actual remaining time."""
    eta = Eta(SECONDS, at_once=workers)
    waiting, running, now = sorted(SECONDS, key=lambda each: -SECONDS[each]), [], 0.0
    said = []
    while waiting or running:
        while waiting and len(running) < workers:
            nodeid = waiting.pop(0)
            eta.begin(nodeid, now)
            heapq.heappush(running, (now + SECONDS[nodeid] * slower, nodeid))
        now, nodeid = heapq.heappop(running)
        eta.end(nodeid, now)
        said.append((now, eta.left(now)))
    return [(at / now, left / max(now - at, 1.0)) for at, left in said if now - at > 1.0]


@pytest.mark.parametrize("slower", [0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("workers", [1, 4])
def test_the_estimate_is_right_within_a_third_from_the_first_quarter_on(slower: float, workers: int) -> None:
    late = [ratio for share, ratio in estimates(slower, workers) if share >= 0.25]
    assert late
    assert all(2 / 3 <= ratio <= 4 / 3 for ratio in late), late


def test_the_estimate_ticks_while_nothing_ends() -> None:
    eta = Eta({"a": 10.0, "b": 10.0}, at_once=1)
    eta.begin("a", 0.0)
    assert [eta.left(now) for now in (0.0, 4.0, 8.0)] == [20.0, 16.0, 12.0]


def test_the_end_of_the_run_takes_time_too() -> None:
    eta = Eta({"one": 2.0}, at_once=1, ending=3.0)
    assert eta.left(0.0) == 5.0
    eta.begin("one", 0.0)
    eta.end("one", 2.0)
    assert eta.left(2.0) == 3.0
