"""Tests that a promise counts only the time in which the judged programs could run.

The first part judges given times. The second part runs a program that is slow, and stops it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dns.exception
import pytest

from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.errors import StarvedError
from harness.eventually import eventually
from harness.judging.conclusion import InconclusiveJudgementError, UnmetError
from harness.judging.history import History
from harness.judging.verdict import Verdict
from harness.model.topology import ONE_ZONE
from harness.proxies.executable import ExecutableProxy
from harness.recipes.recipe import OF_PROXY, parse_recipe
from harness.run_delay import RunDelay, threads_of
from harness.scenario import convergence, dns_answers
from harness.scenario.cluster import Cluster
from harness.scenario.measuring import WaitResult, expect_in_time
from harness.scenario.record import ScenarioRecord
from harness.scenario.service import endpoint
from harness.scenario.traffic import expect_traffic


class StarvedMachine(RunDelay):
    """A machine on which the programs could not run for this number of seconds of each wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def lost(self, since: float, until: float | None = None) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("wrong", "lost", "verdict"),
    [
        (4.9, 0.0, Verdict.PASSED),
        (4.9, 4.9, Verdict.PASSED),
        (11.759, 0.5, Verdict.FAILED),
        (11.759, 6.7, Verdict.FAILED),
        (11.759, 6.8, Verdict.INCONCLUSIVE),
    ],
)
def test_promise_is_broken_only_by_the_time_in_which_the_programs_could_run(
    wrong: float, lost: float, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convergence, "RUN_DELAY", StarvedMachine(lost))
    with History(tmp_path / "run.jsonl") as history:
        cluster: Any = ClusterWithTimeLimit(history)
        with contextlib.ExitStack() as judged:
            if verdict is not Verdict.PASSED:
                error = UnmetError if verdict is Verdict.FAILED else InconclusiveJudgementError
                said = "traffic became as expected within the declared 5 s: "
                judged.enter_context(pytest.raises(error, match=said))
            expect_in_time(cluster, "traffic", WaitResult(wrong_until=wrong, begin=100.0))


class ClusterWithTimeLimit(Cluster):
    """A cluster that only judges. Its implementation declares that changes take effect within five seconds."""

    def __init__(self, history: History) -> None:
        self.history, self.converges_within = history, 5.0
        self.record = ScenarioRecord("test")


def no_answer() -> Any:
    raise dns.exception.Timeout


@pytest.mark.parametrize(("lost", "error"), [(0.0, dns.exception.Timeout), (60.0, StarvedError)])
def test_missing_dns_answer_counts_only_if_the_server_could_run(
    lost: float, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns_answers, "RUN_DELAY", StarvedMachine(lost))
    monkeypatch.setattr(dns_answers, "PATIENCE", 0.001)
    with pytest.raises(error):
        dns_answers._asked_in_time(no_answer)


def test_dns_server_that_could_not_run_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_answers, "RUN_DELAY", StarvedMachine(60.0))
    monkeypatch.setattr(dns_answers, "PATIENCE", 60.0)
    left = [no_answer, no_answer]

    def ask() -> Any:
        return left.pop()() if left else "an answer"

    answer: Any = dns_answers._asked_in_time(ask)
    assert answer == "an answer"


SLOW = [sys.executable, "-c", "import time; print('serving', flush=True); time.sleep(600)"]


@pytest.fixture
def cluster(tmp_path: Path, netns_allowed: None) -> Iterator[Cluster]:
    """Yield a cluster whose proxy promises a second, and sleeps for ten minutes."""
    recipe = parse_recipe({"name": "slow", "command": SLOW, "ready": [{"log": "serving"}]}, OF_PROXY)

    def proxy(plane: Any, pod_cidrs: Any) -> ExecutableProxy:
        return ExecutableProxy(plane, recipe, pod_cidrs=pod_cidrs)

    with (
        NetnsBackend(ONE_ZONE, implementation=replace(reference(), proxy=proxy)) as backend,
        History(tmp_path / "run.jsonl") as history,
    ):
        cluster = Cluster(backend, "promises", history=history, test="test", converges_within=1.0)
        yield cluster
        cluster.close()


@pytest.mark.parametrize("stopped", [False, True], ids=["slow", "stopped"])
def test_slow_proxy_fails_and_a_proxy_that_cannot_run_is_inconclusive(cluster: Cluster, stopped: bool) -> None:
    backend = cluster.backend.booted
    assert isinstance(backend, NetnsBackend)
    assert isinstance(backend.proxy, ExecutableProxy)
    service = cluster.create_service()
    (pod,) = cluster.run_servers(on=["a1"])
    cluster.publish(service, [endpoint(pod)])
    pid = backend.proxy._programs._parts[0].processes.running["a1"].pid
    if stopped:
        os.kill(pid, signal.SIGSTOP)
        eventually(
            lambda: {each.state for _, each in threads_of(Path(f"/proc/{pid}"))} == {"T"},
            within=10,
            describe="its stop",
        )
    with pytest.raises(
        StarvedError if stopped else UnmetError, match="a program is stopped" if stopped else "no answer"
    ):
        expect_traffic(cluster, service, {"a1": {pod}})
    os.kill(pid, signal.SIGCONT)
