"""Tests the timeline of steady traffic, where x is the time, from 96 to 956."""

from __future__ import annotations

from harness.judging.flow import Timed
from harness.judging.story import Story, WindowStory
from harness.judging.timeline import Change
from harness.judging.verdict import AnyOf, Tally
from harness.model.outcomes import TIMED_OUT, Observation, Reached
from harness.report.page.lanes import LANE, TOP, Gap, Mark, Timeline, lay_out, losses, ribbon

A1, B1, D1 = (Reached(name) for name in ("a1", "b1", "d1"))


def story(*observations: Observation, changes: tuple[Change, ...] = (), took_up: tuple[float, ...] = ()) -> Timeline:
    """Lay out a probe every 10 ms from second 5 on. A timeline of 86 probes has a width of 10 for each."""
    samples: list[Timed] = [(5 + number / 100, each) for number, each in enumerate(observations)]
    window = WindowStory(4.9, {"a1": AnyOf(frozenset({"a1", "b1"}))}, of=("web", "cluster-ip"))
    window.flows["a1"], window.tallies["a1"] = samples, Tally.of(observations)
    return lay_out(Story(list(changes), list(took_up), [window]), window)


def test_gap_is_shaded_between_answers_and_labelled_with_its_length() -> None:
    (lane,) = story(*[A1] * 10, *[TIMED_OUT] * 5, *[A1] * 72).lanes
    assert (lane.client, lane.y) == ("a1", TOP)
    assert lane.gaps == (Gap(186.0, 60.0, "60 ms"),)
    assert lane.lost == (196.0, 206.0, 216.0, 226.0, 236.0)
    assert losses(lane) == "M196 56v16M206 56v16M216 56v16M226 56v16M236 56v16"


def test_answer_of_a_wrong_pod_is_a_mark_and_not_a_gap() -> None:
    (lane,) = story(*[A1] * 10, D1, *[A1] * 76).lanes
    assert (lane.wrong, lane.lost, lane.gaps) == ((196.0,), (), ())


def test_shares_show_which_pod_answered_when() -> None:
    found = story(*[A1] * 43, *[B1] * 44)
    assert found.pods == ("a1", "b1")
    (lane,) = found.lanes
    assert [each.number for each in lane.shares] == [0] * 43 + [1] * 43
    assert (lane.shares[0].x, lane.shares[0].top, lane.shares[0].height) == (96.0, 0.0, 1.0)


def test_shares_of_one_moment_are_stacked() -> None:
    (lane,) = story(A1, *[TIMED_OUT] * 84, A1, B1).lanes
    assert [(each.number, each.top, each.height) for each in lane.shares[-2:]] == [(0, 0.0, 0.5), (1, 0.5, 0.5)]
    assert ribbon(lane, 1) == "M946 64.0h10v10.0h-10z"


def test_changes_are_numbered_and_convergence_is_marked() -> None:
    written = Change(5.1, "write slice", {"slice": "web-slice-ipv4", "endpoints": []})
    others = Change(5.2, "patch service", {"service": "other"}), Change(3.0, "stop", {"component": "service-proxy"})
    found = story(*[A1] * 87, changes=(written, *others), took_up=(4.0, 5.43))
    assert found.changes == (Mark(1, 196.0, "+100 ms  write slice web-slice-ipv4, 0 endpoints:"),)
    assert found.took_up == (526.0,)


def test_many_changes_have_no_numbers_after_the_fortieth() -> None:
    changes = tuple(Change(5.01 + number / 1000, "write slice", {"slice": "web-slice-ipv4"}) for number in range(50))
    found = story(*[A1] * 87, changes=changes).changes
    assert [each.number for each in found] == [*range(1, 41), *[0] * 10]


def test_the_axis_has_the_beginning_and_the_end() -> None:
    found = story(*[A1] * 87)
    assert (found.ticks[0], found.ticks[-1]) == ((96.0, "+0 ms"), (956.0, "+860 ms"))
    assert found.height == TOP + LANE + 26


def test_lane_without_requests_has_no_shares() -> None:
    assert story().lanes[0].shares == ()
