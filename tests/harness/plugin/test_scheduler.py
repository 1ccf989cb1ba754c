"""Tests that every test of a run on a real cluster runs once, whichever worker is lost at whichever moment."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from harness.plugin.scheduler import GroupScheduler

TESTS = ["a.py::one", "a.py::two@disruptive", "a.py::three", "a.py::four@disruptive", "b.py::five", "b.py::six"]


class Worker:
    """A worker of pytest-xdist. It begins a test only when it knows the next one, or that there is none."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, tests: list[int]) -> None:
        assert not self.shutting_down
        self.queue += tests

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.queue) > 1 or (self.shutting_down and bool(self.queue))


class Session:
    """The part of pytest-xdist that passes events from workers to the scheduler (`xdist.dsession.DSession`)."""

    def __init__(self, tests: list[str], workers: int) -> None:
        config: Any = SimpleNamespace(
            getvalue={"tx": [f"{workers}*popen"]}.get, option=SimpleNamespace(loadscopereorder=False)
        )
        self.tests, self.ran, self.workers = tests, Counter[str](), list[Worker]()
        self.scheduler = GroupScheduler(config)
        self._is_ending = False
        for _ in range(workers):
            self.start_worker()

    def start_worker(self) -> None:
        worker = Worker()
        self.workers.append(worker)
        if self._is_ending:
            worker.shutdown()
            return
        self.scheduler.add_node(worker)
        self.scheduler.add_node_collection(worker, self.tests)
        if self.scheduler.collection_is_completed:
            self.scheduler.schedule()
        self._after_event()

    def run_test(self, worker: Worker) -> None:
        test = worker.queue.pop(0)
        self.ran[self.tests[test]] += 1
        self.scheduler.mark_test_complete(worker, test)
        self._after_event()

    def lose(self, worker: Worker) -> None:
        """Kill a worker in its test, which therefore counts as run."""
        self.workers.remove(worker)
        running = self.tests[worker.queue[0]]
        assert self.scheduler.remove_node(worker) == running
        self.ran[running] += 1
        self._is_ending = False
        self._after_event()

    def end_idle_workers(self) -> None:
        for worker in [each for each in self.workers if each.shutting_down and not each.queue]:
            self.workers.remove(worker)
            if worker in self.scheduler.nodes:
                assert self.scheduler.remove_node(worker) is None
            self._after_event()

    def _after_event(self) -> None:
        if self.scheduler.tests_finished and not self._is_ending:
            self._is_ending = True
            for worker in self.scheduler.nodes:
                worker.shutdown()


@pytest.mark.parametrize("replaced_late", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [2, 3, 5, 6])
def test_each_test_runs_once_if_workers_are_lost(workers: int, count: int, replaced_late: bool) -> None:
    """A replacement starts immediately, or only when the other workers can do nothing more."""
    tests = TESTS[:count]
    for lost_at in itertools.chain(((each,) for each in range(count)), itertools.combinations(range(count), 2)):
        session, missing = Session(tests, workers), 0
        for turn in itertools.count():
            session.end_idle_workers()
            able = [each for each in session.workers if each.can_run]
            if missing and not (able and replaced_late):
                missing -= 1
                session.start_worker()
            elif not able:
                break
            elif session.ran.total() in lost_at:
                missing += 1
                session.lose(able[turn % len(able)])
            else:
                session.run_test(able[turn % len(able)])
        assert (session.ran, session.workers) == (Counter(tests), []), lost_at
