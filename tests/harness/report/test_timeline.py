"""Tests the timeline of steady traffic, whose lanes have 72 intervals."""

from __future__ import annotations

from harness.judging.case_events import CaseEvents, WindowRecord
from harness.judging.timeline import Change, Timed
from harness.judging.verdict import AnyOf, Tally
from harness.model.outcomes import TIMED_OUT, Observation, Reached
from harness.report.page.details import INTERVALS, MOST_CHANGES, Interval, Timeline, timeline_of

A1, B1, D1 = (Reached(name) for name in ("a1", "b1", "d1"))
TIMES = "\N{MULTIPLICATION SIGN}"


def story(*observations: Observation, changes: tuple[Change, ...] = (), took_up: tuple[float, ...] = ()) -> Timeline:
    """Return the timeline of a probe every 10 ms from second 5 on. With 73 probes, each interval has one."""
    samples: list[Timed] = [(5 + number / 100, each) for number, each in enumerate(observations)]
    window = WindowRecord(4.9, {"a1": AnyOf(frozenset({"a1", "b1"}))}, of=("web", "cluster-ip"))
    window.flows["a1"], window.tallies["a1"] = samples, Tally.of(observations)
    return timeline_of(CaseEvents(list(changes), list(took_up), [window]), window)


def test_gap_is_labelled_with_its_length_and_its_losses_are_in_the_lane() -> None:
    found = story(*[A1] * 10, *[TIMED_OUT] * 5, *[A1] * 58)
    assert found.gaps == {"a1": ["60 ms from +90 ms"]}
    assert [number for number, each in enumerate(found.lanes["a1"]) if each.kind == "lost"] == [10, 11, 12, 13, 14]
    assert found.lanes["a1"][10] == Interval("lost", "", f"timed out 1{TIMES}")


def test_answer_of_a_wrong_pod_is_a_mark_and_not_a_gap() -> None:
    found = story(*[A1] * 10, D1, *[A1] * 62)
    assert found.lanes["a1"][10] == Interval("wrong", "d1", f"d1 1{TIMES}")
    assert found.gaps == {"a1": []}


def test_intervals_show_which_pod_answered_when() -> None:
    found = story(*[A1] * 36, *[B1] * 37)
    assert found.pods == ["a1", "b1"]
    assert [each.pod for each in found.lanes["a1"]] == ["a1"] * 36 + ["b1"] * 36
    assert found.lanes["a1"][-1].text == f"b1 2{TIMES}"


def test_changes_are_numbered_and_convergence_is_marked() -> None:
    written = Change(5.1, "write slice", {"slice": "web-slice-ipv4", "endpoints": []})
    others = Change(5.2, "patch service", {"service": "other"}), Change(3.0, "stop", {"component": "service-proxy"})
    found = story(*[A1] * 73, changes=(written, *others), took_up=(4.0, 5.43))
    assert found.changes == ["+100 ms  write slice web-slice-ipv4, 0 endpoints:"]
    assert [number for number, each in enumerate(found.written) if each == [1]] == [10]
    assert found.took_up == {43}


def test_many_changes_have_no_numbers_after_the_fortieth() -> None:
    changes = tuple(Change(5.01 + number / 1000, "write slice", {"slice": "web-slice-ipv4"}) for number in range(50))
    found = story(*[A1] * 73, changes=changes)
    assert (len(found.changes), found.more_changes) == (MOST_CHANGES, 10)


def test_the_axis_has_the_beginning_and_the_end() -> None:
    assert story(*[A1] * 73).times == ("+0 ms", "+720 ms")


def test_lane_without_requests_has_no_failure() -> None:
    assert story().lanes == {"a1": [Interval()] * INTERVALS}
