"""Tests that a scenario that takes too long, or a lost worker, costs only the scenario's own requirement."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from harness.plugin import time_limit
from harness.plugin.time_limit import TimeLimitError, limited, uncounted
from harness.run_delay import RunDelay

pytest_plugins = ["pytester"]

HANGS = """
@pytest.mark.timeout(0.5)
@must("KEP-1/hangs")
def test_hangs():
    threading.Event().wait()  # goes on after an alarm that is only put off
"""

IGNORES = """
@pytest.mark.timeout(0.5)
@must("KEP-1/ignores")
def test_ignores(monkeypatch):
    monkeypatch.setattr("harness.plugin.time_limit.AGAIN", 0.05)
    while True:
        try:
            signal.pause()
        except BaseException:
            pass
"""

SLOW_TO_FORMAT = """
class Slow(AssertionError):
    def __str__(self):
        end = __import__("time").monotonic() + 1.5
        while __import__("time").monotonic() < end:
            pass
        return "wrong"

@pytest.mark.timeout(1)
@must("KEP-1/slow-to-format")
def test_slow_to_format():
    raise Slow
"""

BREAKS_PYTEST = """
class Unprintable(AssertionError):
    def __str__(self):
        raise KeyError("no text")

@must("KEP-1/breaks-pytest")
def test_breaks_pytest():
    raise Unprintable
"""

KILLED = """
@must("KEP-1/killed")
def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)
"""

MANY_KILLED = """
@pytest.mark.parametrize("number", range(9))
@must("KEP-1/killed")
def test_killed(number):
    os.kill(os.getpid(), signal.SIGKILL)
"""


class StarvedMachine(RunDelay):
    """A machine on which the programs can run for half of the time."""

    def lost(self, since: float, until: float | None = None) -> float:
        return 0.5 * ((time.monotonic() if until is None else until) - since)


def test_limit_counts_the_time_in_which_programs_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "RUN_DELAY", StarvedMachine())
    begin = time.monotonic()
    with pytest.raises(TimeLimitError, match=r"Timeout \(>0.1s\)"), limited(0.1):
        threading.Event().wait()
    assert time.monotonic() - begin >= 0.2


def test_start_of_a_cluster_does_not_count() -> None:
    with limited(0.01):
        with uncounted():
            begin = time.monotonic()
            while time.monotonic() < begin + 0.05:  # five times the limit
                pass
        with pytest.raises(TimeLimitError, match=r"Timeout \(>0.01s\)"):
            threading.Event().wait()


def test_no_alarm_is_left_after_a_phase() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with limited(600):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_scenario_that_ignores_its_limit_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "AGAIN", 0.01)
    told: list[str] = []
    heard = 0
    with limited(0.01, told.append):
        while not told:
            try:
                signal.pause()
            except TimeLimitError:
                heard += 1
    assert heard == time_limit.LAST
    assert "Timeout (>0.01s)" in told[0]


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_hanging_scenario_is_inconclusive_and_the_run_goes_on(certify: Any, workers: str) -> None:
    run = certify("passes", extra=HANGS, options=(workers,))
    assert (run.code, run.verdicts) == (10, {"hangs": "inconclusive", "passes": "passed"})
    assert "the scenario did not end within its time limit: Timeout (>0.5s)" in run.text


def test_time_for_a_report_does_not_count(certify: Any) -> None:
    run = certify("passes", extra=SLOW_TO_FORMAT, options=("-n1",))
    assert run.verdicts == {"passes": "passed", "slow-to-format": "failed"}


@pytest.mark.parametrize(
    ("extra", "slug", "why"),
    [
        (IGNORES, "ignores", "Timeout (>0.5s)"),
        (BREAKS_PYTEST, "breaks-pytest", "internal error: "),
        (KILLED, "killed", "it was ended by SIGKILL"),
    ],
    ids=["ignores-its-limit", "breaks-pytest", "killed"],
)
def test_lost_worker_costs_one_requirement_and_is_replaced(certify: Any, extra: str, slug: str, why: str) -> None:
    run = certify("passes", extra=extra, options=("-n1",))
    assert (run.code, run.verdicts) == (10, {slug: "inconclusive", "passes": "passed"})
    (test,) = (each for each in run.report["tests"] if each["id"] == f"KEP-1/{slug}")
    assert "crashed while running" in test["message"]
    assert why in test["message"]
    assert "INTERNALERROR" not in run.text


def test_many_lost_workers_do_not_end_the_run(certify: Any) -> None:
    run = certify("passes", extra=MANY_KILLED, options=("-n1",))
    assert (run.code, run.verdicts) == (10, {"killed": "inconclusive", "passes": "passed"})
    (killed,) = (each for each in run.report["tests"] if each["id"] == "KEP-1/killed")
    assert all("SIGKILL" in case["message"] for case in killed["cases"])
