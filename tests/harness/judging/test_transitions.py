"""Tests the measurements of a change. Windows give the expected endpoints, and probes give the times."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judging.case_events import CaseEvents, WindowRecord
from harness.judging.timeline import Change, Timed
from harness.judging.transitions import concerns, reaction_ms, transitions
from harness.judging.verdict import AnyOf, Expected, Tally
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached

OF = ("web", "cluster-ip")
A1, B1, C1 = (Reached(name) for name in ("a1", "b1", "c1"))
WRITTEN = Change(10.1, "write slice", {"slice": "web-slice-ipv4", "endpoints": []})


def window(at: float, expected: Expected, client: str = "a1") -> WindowRecord:
    return WindowRecord(at, {client: expected}, of=OF)


def steady(*observations: Observation, title: str = "TCP") -> WindowRecord:
    """Return steady traffic that starts at second 10 and sends a probe every 20 ms."""
    samples: list[Timed] = [(10 + number * 0.02, each) for number, each in enumerate(observations)]
    flow = WindowRecord(9.9, {"a1": AnyOf(frozenset({"a1", "b1", "c1"}))}, of=OF, title=title)
    flow.flows["a1"], flow.tallies["a1"] = samples, Tally.of(observations)
    return flow


def client(story: CaseEvents) -> Any:
    ((found,),) = [each["clients"] for each in transitions(story)]
    return found


def test_a_move_from_one_pod_to_another() -> None:
    # sent at: 10.00 10.02 .04 .06 .08 .10 .12 .14       .16        .18     .20 …
    flow = steady(*[A1] * 8, TIMED_OUT, REFUSED, *[B1] * 6)
    story = CaseEvents([WRITTEN], [], [window(9.5, {"a1"}), flow, window(10.25, {"b1"})])
    assert client(story) == {
        "client": "a1",
        "asked": 16,
        "longestGapMs": 60.0,  # from 10.14 to 10.20
        "longestPauseMs": 20.0,
        "lost": {"timedOut": 1, "refused": 1},
        "wrongSet": 0,
        "removedEndpoints": 3,  # at 10.10, 10.12 and 10.14, after the removal of a1
        "reactions": [{"change": "write slice", "firstRightMs": 100.0, "allRightMs": 100.0}],
    }


def test_pod_that_is_wrong_before_and_after_is_in_the_wrong_set() -> None:
    flow = steady(*[A1] * 6, C1, C1, *[B1] * 8)
    story = CaseEvents([WRITTEN], [], [window(9.5, {"a1"}), flow, window(10.25, {"b1"})])
    assert client(story)["wrongSet"] == 2


def test_forbidden_pod_is_in_the_wrong_set_without_any_window() -> None:
    story = CaseEvents([WRITTEN], [], [steady(A1, Reached("d1"), A1)])
    assert (client(story)["wrongSet"], client(story)["reactions"]) == (1, [])


def test_a_set_that_grows_is_taken_up_when_the_new_pod_answers() -> None:
    flow = steady(*[A1] * 10, B1, *[A1] * 6)
    story = CaseEvents([WRITTEN], [], [window(9.5, {"a1"}), flow, window(10.3, {"a1", "b1"})])
    (reaction,) = client(story)["reactions"]
    assert reaction == {"change": "write slice", "firstRightMs": 100.0, "allRightMs": 0.0}
    assert reaction_ms(reaction) == 100.0


def test_change_without_effect_has_no_reaction() -> None:
    story = CaseEvents([WRITTEN], [], [window(9.5, {"a1"}), steady(*[A1] * 16), window(10.25, {"a1"})])
    assert client(story)["reactions"] == []


def test_a_change_that_is_never_taken_up_has_no_end() -> None:
    story = CaseEvents([WRITTEN], [], [window(9.5, {"a1"}), steady(*[A1] * 16), window(10.25, {"b1"})])
    (reaction,) = client(story)["reactions"]
    assert reaction == {"change": "write slice"}
    assert reaction_ms(reaction) is None


def test_windows_of_another_address_are_ignored() -> None:
    other = WindowRecord(10.25, {"a1": {"b1"}}, of=("web", "node-port"))
    story = CaseEvents([WRITTEN], [], [window(9.5, {"a1"}), steady(*[A1] * 8, *[B1] * 8), other])
    assert client(story)["reactions"] == []


def test_each_change_lasts_until_the_next() -> None:
    back = Change(10.3, "restart", {"component": "service-proxy"})
    flow = steady(*[A1] * 5, *[B1] * 11, *[A1] * 5)
    windows = [window(9.5, {"a1"}), flow, window(10.2, {"b1"}), window(10.38, {"a1"})]
    found = client(CaseEvents([WRITTEN, back], [], windows))["reactions"]
    assert [(each["change"], each["firstRightMs"]) for each in found] == [
        ("write slice", pytest.approx(0.0)),
        ("restart service-proxy", 20.0),
    ]


@pytest.mark.parametrize(
    ("change", "concerned"),
    [
        (WRITTEN, True),
        (Change(0, "write slice", {"slice": "web-2-slice-ipv4"}), False),
        (Change(0, "patch service", {"service": "web"}), True),
        (Change(0, "patch service", {"service": "other"}), False),
        (Change(0, "restart", {"component": "service-proxy"}), True),
        (Change(0, "measured", {"title": "gap"}), False),
    ],
)
def test_a_change_concerns_a_service_unless_it_names_another(change: Change, concerned: bool) -> None:
    assert concerns(change, "web") is concerned
