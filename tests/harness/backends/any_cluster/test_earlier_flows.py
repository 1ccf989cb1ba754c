"""Tests that an attempt that may reuse an earlier flow is no fault, and that it excuses no real fault."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.backends.any_cluster.earlier_flows import TcpFlows, UdpFlows, enough, of_new_flows, ports_of
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Unknown

BEFORE, AFTER = Reached("a1"), Reached("b1")
PORTS = 28_232


def seen(before: int, after: int) -> list[Observation]:
    return [*[BEFORE] * before, *[AFTER] * after]


def nobody_asks(count: int) -> Sequence[Observation]:
    raise AssertionError(f"{count} more probes are made")


def test_answers_that_earlier_flows_explain_are_left_out() -> None:
    told = of_new_flows(seen(4, 266), {BEFORE: 270}, PORTS, lambda count: seen(8, count - 8))
    assert told == [AFTER] * 270


@pytest.mark.parametrize("of_more", [33, 60])
def test_fault_shows_despite_earlier_flows(of_more: int) -> None:
    told = of_new_flows(seen(8, 262), {BEFORE: 270}, PORTS, lambda count: seen(of_more, count - of_more))
    assert told == seen(8, 262)


@pytest.mark.parametrize(("earlier", "of_before"), [({BEFORE: 270}, 40), ({AFTER: 900}, 4), ({}, 4)])
def test_unexplained_outcomes_are_not_probed_again(earlier: dict[Observation, int], of_before: int) -> None:
    outcomes = seen(of_before, 270 - of_before)
    assert of_new_flows(outcomes, earlier, PORTS, nobody_asks) == outcomes


def test_earlier_timeout_is_an_outcome_too() -> None:
    outcomes = [TIMED_OUT, *seen(0, 269)]
    assert of_new_flows(outcomes, {TIMED_OUT: 20}, PORTS, lambda count: seen(0, count)) == [AFTER] * 270


def test_too_many_earlier_flows_make_the_outcome_unknown() -> None:
    told = of_new_flows(seen(4, 266), {BEFORE: 20_000}, PORTS, nobody_asks)
    assert [type(each) for each in told] == [Unknown] * 4 + [Reached] * 266


def test_more_earlier_flows_take_more_probes() -> None:
    assert [enough(270, earlier / PORTS) for earlier in (4, 270, 1000, 3000, 20_000)] == [1080, 1080, 2160, 8640, 0]


def test_flows_are_forgotten_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = UdpFlows()
    for now, outcome in ((0.0, BEFORE), (50.0, AFTER)):
        monkeypatch.setattr("time.monotonic", lambda now=now: now)
        flows.note("a2", [outcome] * 3)
    assert flows.earlier("a2") == {BEFORE: 3, AFTER: 3}
    monkeypatch.setattr("time.monotonic", lambda: 70.0)
    assert flows.earlier("a2") == {AFTER: 3}


def test_both_ends_of_a_port_range_are_in_it() -> None:
    assert ports_of("32768\t60999\n") == PORTS


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> TcpFlows:
    """Return twenty unanswered attempts at 100 s."""
    made = TcpFlows()
    monkeypatch.setattr("time.monotonic", lambda: 105.0)
    made.note("a1", 100.0, 20)
    return made


@pytest.mark.parametrize(
    ("unanswered", "tries", "doubtful"),
    [(0, 51, 0), (1, 51, 1), (1, 1, 1), (20, 51, 20), (21, 51, 0), (2, 2, 0), (20, 20, 0)],
    ids=["all answered", "one", "the only one", "as many", "more than earlier ones", "both", "all"],
)
def test_few_unanswered_tries_may_have_reused_earlier_ones(
    flows: TcpFlows, unanswered: int, tries: int, doubtful: int
) -> None:
    flows.note("a1", 110.0, unanswered)
    assert flows.doubtful("a1", 110.0, tries) == doubtful
    flows.note("b1", 110.0, unanswered)
    assert flows.doubtful("b1", 110.0, tries) == 0, "of another client, or to another target"


def test_unanswered_tries_do_not_explain_concurrent_ones(flows: TcpFlows) -> None:
    assert flows.doubtful("a1", 100.0, 51) == 0


@pytest.mark.parametrize(("at", "earlier"), [(224.0, 20), (226.0, 0)])
def test_connections_are_forgotten_after_two_minutes(flows: TcpFlows, at: float, earlier: int) -> None:
    assert flows.earlier("a1", at) == earlier
