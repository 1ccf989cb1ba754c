"""Tests that a wait ends as soon as possible, and that a timeout is explained."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

import pytest

from harness import eventually as eventually_module
from harness.errors import InconclusiveError, StarvedError
from harness.eventually import NotYetError, eventually, is_over, last_value, set_time_scale, time_scale
from harness.run_delay import RunDelay


@pytest.fixture(autouse=True)
def free_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs run all the time. On a busy machine, the short limits of these tests would be inconclusive."""
    monkeypatch.setattr(eventually_module, "RUN_DELAY", StarvedMachine(0.0))


@pytest.fixture(autouse=True)
def own_time_scale() -> Iterator[None]:
    before = time_scale()
    set_time_scale(1.0)
    yield
    set_time_scale(before)


def test_eventually_returns_the_first_true_value() -> None:
    values = iter([None, "", [], "b1", "b2"])
    assert eventually(lambda: next(values), within=5, every=0, describe="a name") == "b1"


def test_a_late_proxy_is_a_failure_with_the_last_thing_seen_and_since_when() -> None:
    looks = iter(["soon"] + ["a1 is not ready"] * 10_000)

    def check() -> bool:
        raise NotYetError(next(looks))

    with pytest.raises(AssertionError) as caught:
        eventually(check, within=0.05, every=0.001, describe="a1 to become ready")
    assert re.fullmatch(
        r"waited \d+\.\d{3} s for a1 to become ready; last seen: a1 is not ready, unchanged for \d+\.\d{3} s "
        r"\(looks: \d+, time scale: 1\)",
        str(caught.value),
    )


def test_late_infrastructure_raises_the_callers_error() -> None:
    with pytest.raises(InconclusiveError, match="the API server; last seen: None"):
        eventually(lambda: None, within=0, describe="the API server", error=InconclusiveError)


def test_description_can_be_computed_on_demand() -> None:
    assert eventually(lambda: True, within=0, describe=lambda: str(1 / 0))
    with pytest.raises(NotYetError, match=r"waited 0\..* s for b1, late; last seen: False"):
        eventually(lambda: False, within=0, describe=lambda: "b1, late")


def test_condition_is_checked_at_least_once() -> None:
    assert eventually(lambda: True, within=0, describe="nothing")


def test_other_errors_end_the_wait_immediately() -> None:
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0, within=60, describe="a number")


def test_time_scale_stretches_deadlines() -> None:
    set_time_scale(3)
    begin = time.monotonic()
    with pytest.raises(NotYetError, match="time scale: 3"):
        eventually(lambda: False, within=0.02, describe="nothing")
    assert time.monotonic() - begin >= 0.06


@pytest.mark.parametrize("factor", [0, -1])
def test_time_scale_must_be_positive(factor: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        set_time_scale(factor)


def test_polling_ends_with_the_right_value() -> None:
    looks = iter([1, 2, 3])
    assert last_value(lambda: next(looks), lambda seen: seen == 2, within=60, every=0, describe="2") == 2


def test_polling_without_success_returns_the_last_value() -> None:
    looks = iter([1, 2])
    seen = last_value(lambda: next(looks, 0), lambda seen: seen == 3, within=0.02, every=0.001, describe="3")
    assert seen == 0


def test_last_check_without_a_value_has_a_reason() -> None:
    looks = iter([1])

    def look() -> int:
        for each in looks:
            return each
        raise AssertionError("a1 stands there twice")

    with pytest.raises(NotYetError, match="for endpoints; last seen: a1 stands there twice"):
        last_value(look, lambda seen: seen == 2, within=0.02, every=0.001, describe="endpoints")


class StarvedMachine(RunDelay):
    """A machine on which the programs cannot run for this share of the time."""

    def __init__(self, share: float, *, stopped: bool = False, busiest: float = 0.0) -> None:
        super().__init__()
        self.share, self.stopped, self.ran = share, stopped, busiest

    def busiest(self, since: float) -> tuple[float, str]:
        return self.ran, str(os.getpid()) if self.ran else ""

    def lost(self, since: float, until: float | None = None) -> float:
        return self.share * ((time.monotonic() if until is None else until) - since)


def test_limit_counts_the_time_in_which_programs_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventually_module, "RUN_DELAY", StarvedMachine(0.5))
    begin = time.monotonic()
    with pytest.raises(NotYetError, match="last seen: False"):
        eventually(lambda: False, within=0.05, describe="nothing")
    assert time.monotonic() - begin >= 0.1


@pytest.mark.parametrize(
    ("stopped", "why"), [(False, "the machine is too busy"), (True, "a program is stopped")], ids=["waits", "stopped"]
)
def test_programs_that_cannot_run_are_not_late(stopped: bool, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventually_module, "RUN_DELAY", StarvedMachine(1.0, stopped=stopped))
    said = rf"waited .* for nothing; last seen: False.* The programs of this run could not run for up to .* s: {why}$"
    with pytest.raises(StarvedError, match=said):
        eventually(lambda: False, within=0.01, describe="nothing")


@pytest.mark.parametrize(("share", "over"), [(0.0, True), (0.5, True), (1.0, False)])
def test_wait_in_several_parts_counts_the_same_time(share: float, over: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventually_module, "RUN_DELAY", StarvedMachine(share))
    begin = time.monotonic() - 1.0
    assert is_over(begin, 0.4) is over
    assert not is_over(begin, 600)
    if not over:
        with pytest.raises(StarvedError, match="timed out"):
            is_over(begin, 0.05)


@pytest.mark.parametrize(("seconds", "ends"), [(1190.0, False), (1210.0, True)])
def test_wait_for_programs_that_busy_the_machine_ends_and_names_them(
    seconds: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventually_module, "RUN_DELAY", StarvedMachine(1.0, busiest=seconds))
    begin = time.monotonic() - 1000
    assert not is_over(time.monotonic() - 300, 600)
    if ends:
        said = r"too busy. Of the judged programs, .+ and the others on its node ran most, for 1210.000 s$"
        with pytest.raises(StarvedError, match=said):
            is_over(begin, 600)
    else:
        assert not is_over(begin, 600)


def test_timed_out_wait_has_its_reason() -> None:
    looks: list[int] = []
    with pytest.raises(NotYetError, match=r"last seen: 0, .* Stopped early: nobody comes$"):
        eventually(
            lambda: len(looks) * 0,
            describe="somebody",
            stop_reason=lambda: looks.append(1) or "nobody comes" * (len(looks) > 2),
        )
    assert len(looks) == 3
