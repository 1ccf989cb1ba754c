"""Tests verdicts. One wrong answer or an unseen endpoint fails, and doubtful observations neither pass nor fail."""

from __future__ import annotations

import random

import pytest

from harness.judging.statistics import Rates
from harness.judging.verdict import (
    NO_ANSWER,
    AnyOf,
    EqualShares,
    Expectation,
    Expected,
    Judgement,
    Tally,
    Verdict,
    is_wrong,
    judge,
    plan,
    plans,
)
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Refused, Unknown

A1, B1 = Reached("a1", "10.244.1.2"), Reached("b1", "10.244.1.2")
C1 = Reached("c1", "10.244.1.2")
EVENLY = EqualShares(frozenset({"a1", "b1"}))
EITHER = AnyOf(frozenset({"a1", "b1"}))
FAILED, PASSED, INCONCLUSIVE, SKIPPED = Verdict.FAILED, Verdict.PASSED, Verdict.INCONCLUSIVE, Verdict.SKIPPED


def judged(expected: Expected, *observations: Observation) -> Judgement:
    """Judge the observations of one client, a1."""
    return judge_planned({"a1": expected}, {"a1": Tally.of(observations)})


def judge_planned(expectation: Expectation, tallies: dict[str, Tally]) -> Judgement:
    return judge(expectation, tallies, plans(expectation))


@pytest.mark.parametrize(
    ("expected", "observations", "verdict", "message"),
    [
        ({"a1"}, [A1] * 283, PASSED, "all of 283 probes by 1 client had an allowed outcome"),
        ({"a1", "b1"}, [A1] * 200 + [B1] * 83, PASSED, "every endpoint was seen"),
        ({"a1"}, [A1] * 282 + [B1], FAILED, "a1 reached b1 in 1 of 283 probes, where a1 is expected"),
        ({"a1"}, [B1], FAILED, "a1 reached b1 in 1 of 1 probes, where a1 is expected"),
        ({"a1"}, [A1] * 282 + [TIMED_OUT], FAILED, "a1 got no answer in 1 of 283 probes"),
        ({"a1"}, [A1] * 282 + [REFUSED], FAILED, "a1 was refused in 1 of 283 probes"),
        ({"a1", "b1"}, [A1] * 283, FAILED, "a1 never reached b1 in 283 probes, and must reach a1, b1"),
        ({"a1", "b1"}, [A1] * 20, INCONCLUSIVE, "a1 has 20 observations, and the stated error rates need 283"),
        ({"a1"}, [A1] * 282, INCONCLUSIVE, "need 283"),
        ({"a1"}, [], INCONCLUSIVE, "a1 has 0 observations"),
        ({"a1"}, [A1] * 283 + [Unknown("no route")], INCONCLUSIVE, "a1 could not tell 1 time: no route"),
        ({"a1", "b1"}, [A1] * 283 + [Unknown("no route")] * 99, INCONCLUSIVE, "could not tell 99 times"),
        ({"a1"}, [B1, Unknown("no route")], FAILED, "reached b1"),
        (TIMED_OUT, [TIMED_OUT] * 283, PASSED, "all of 283"),
        (TIMED_OUT, [TIMED_OUT] * 282 + [A1], FAILED, "a1 reached a1 in 1 of 283 probes, where silence is expected"),
        (TIMED_OUT, [REFUSED] * 283, FAILED, "a1 was refused in 283 of 283 probes, where silence is expected"),
        (NO_ANSWER, [TIMED_OUT] * 100 + [REFUSED] * 183, PASSED, "all of 283"),
        (NO_ANSWER, [TIMED_OUT] * 282 + [A1], FAILED, "a1 reached a1 in 1 of 283 probes, where no answer is expected"),
        (EITHER, [A1] * 283, PASSED, "all of 283 probes by 1 client had an allowed outcome"),
        (EITHER, [A1] * 282 + [TIMED_OUT], FAILED, "a1 got no answer in 1 of 283 probes, where any of a1, b1 is"),
        (EITHER, [A1] * 282 + [C1], FAILED, "a1 reached c1 in 1 of 283 probes, where any of a1, b1 is expected"),
        (EITHER, [A1] * 282, INCONCLUSIVE, "need 283"),
        (EVENLY, [A1] * 400 + [B1] * 430, PASSED, "every endpoint was seen"),
        (
            EVENLY,
            [A1] * 540 + [B1] * 290,
            FAILED,
            "a1 reached a1 540 times in 830 probes, where an equal share is 343 to",
        ),
        (EVENLY, [A1] * 830, FAILED, "where an equal share is 343 to 487 (and 1 more)"),
        (EVENLY, [A1] * 414 + [B1] * 415 + [C1], FAILED, "a1 reached c1 in 1 of 830 probes"),
        (EVENLY, [A1] * 200 + [B1] * 20, INCONCLUSIVE, "a1 has 220 observations, and the stated error rates need 830"),
        (REFUSED, [REFUSED] * 283, PASSED, "all of 283"),
        (REFUSED, [TIMED_OUT] * 283, FAILED, "where refusal is expected"),
    ],
)
def test_one_client_is_judged(
    expected: Expected, observations: list[Observation], verdict: Verdict, message: str
) -> None:
    judgement = judged(expected, *observations)
    assert judgement.verdict is verdict
    assert message in judgement.message


@pytest.mark.parametrize(
    ("expectation", "samples"),
    [
        ({"a1": {"a1"}}, [283]),
        ({"a1": {"a1"}, "a2": {"a1"}, "b1": {"b1"}, "b2": {"b1"}}, [71, 71, 71, 71]),
        # A client detects a wrong pod only if this pod is wrong for it. Each client that expects answers detects a
        # missing pod.
        ({"a1": {"a1"}, "b1": {"b1"}, "c1": {"a1", "b1"}}, [142, 142, 95]),
        ({"a1": {"a1"}, "b1": frozenset({"a1"}), "c1": {"a1"}}, [95, 95, 95]),
        ({"a1": {"a1"}, "b1": TIMED_OUT, "c1": TIMED_OUT}, [283, 142, 142]),
        ({"a1": REFUSED, "b1": NO_ANSWER, "c1": TIMED_OUT}, [283, 283, 283]),
        ({"a1": EITHER, "b1": EITHER, "c1": {"a1"}}, [142, 142, 283]),
        ({"a1": EVENLY, "b1": EVENLY}, [830, 830]),
        ({str(each): {str(each)} for each in range(20)}, [66] * 20),
    ],
)
def test_clients_who_would_see_the_same_faults_share_their_probes(expectation: Expectation, samples: list[int]) -> None:
    assert [each.samples for each in plans(expectation).values()] == samples


def test_failed_beats_inconclusive_between_clients() -> None:
    judgement = judge_planned(
        {"a1": {"a1"}, "b1": {"b1"}, "c1": {"b1"}},
        {"a1": Tally.of([Unknown("no route")]), "b1": Tally.of([A1]), "c1": Tally.of([A1, REFUSED])},
    )
    assert judgement.verdict is FAILED
    assert judgement.message == "b1 reached a1 in 1 of 1 probes, where b1 is expected (and 2 more)"
    assert judgement.unmet == ("a1", "b1", "c1")


def test_the_grid_shows_expected_and_observed_of_each_client() -> None:
    judgement = judge_planned(
        {"a1": {"a1"}, "b1": {"a1", "b1"}, "c1": TIMED_OUT},
        {
            "a1": Tally.of([A1] * 283 + [B1] * 3 + [TIMED_OUT] * 2),
            "b1": Tally.of([B1] * 283),
            "c1": Tally.of([TIMED_OUT] * 283),
        },
    )
    assert judgement.grid.splitlines() == [
        "client | expected | a1             | b1              | timed out",
        "-------+----------+----------------+-----------------+----------------",
        "a1     | a1       | 283 ✓          | 3 ✗ not allowed | 2 ✗ not allowed",
        "b1     | a1, b1   | 0 ✗ never seen | 283 ✓           | ·",
        "c1     | silence  | ·              | ·               | 283 ✓",
    ]


def test_empty_set_is_not_an_expectation() -> None:
    with pytest.raises(ValueError, match="use TIMED_OUT, REFUSED or NO_ANSWER"):
        plan(frozenset())
    with pytest.raises(ValueError, match="no pod may answer"):
        plan(AnyOf(frozenset()))


def test_observations_of_an_unknown_client_are_an_error() -> None:
    with pytest.raises(ValueError, match="there is no expectation for clients b1"):
        judge_planned({"a1": {"a1"}}, {"b1": Tally()})


def test_one_observation_is_wrong_or_not() -> None:
    assert is_wrong(B1, {"a1"})
    assert is_wrong(A1, TIMED_OUT)
    assert is_wrong(TIMED_OUT, {"a1"})
    assert is_wrong(TIMED_OUT, REFUSED)
    assert not is_wrong(A1, {"a1"})
    assert not is_wrong(REFUSED, REFUSED)
    assert not is_wrong(REFUSED, NO_ANSWER)
    assert is_wrong(A1, NO_ANSWER)
    assert not is_wrong(A1, EITHER)
    assert is_wrong(REFUSED, EITHER)
    assert not is_wrong(Unknown("no route"), {"a1"})


def test_refusals_are_equal_and_show_their_error() -> None:
    seen = [REFUSED, Refused("EHOSTUNREACH")] * 142
    assert judged(REFUSED, *seen).verdict is PASSED
    message = judged(TIMED_OUT, *seen).message
    assert message == "a1 was refused (EHOSTUNREACH) in 284 of 284 probes, where silence is expected"


ROUNDS, RATES = 2000, Rates(leak=0.1, miss=0.02, chances=1, alarm=0.02)


def rounds(name: str, pods: list[str], allowed: set[str], leak: float = 0.0) -> list[Verdict]:
    """Judge a simulated proxy. It selects evenly from `pods`, and sends a connection to x1 with probability `leak`."""
    rng = random.Random(name)
    planned = plans({"a1": allowed}, RATES)
    samples = planned["a1"].samples
    found = []
    for _ in range(ROUNDS):
        seen = [Reached("x1" if rng.random() < leak else rng.choice(pods)) for _ in range(samples)]
        found.append(judge({"a1": allowed}, {"a1": Tally.of(seen)}, planned).verdict)
    return found


def test_a_right_proxy_with_one_endpoint_is_never_failed() -> None:
    assert set(rounds("right", ["a1"], {"a1"})) == {PASSED}


def test_a_right_proxy_is_failed_no_more_often_than_stated() -> None:
    many = [f"p{i}" for i in range(12)]
    failed = rounds("many", many, set(many)).count(FAILED)
    assert 0 < failed <= HIGHEST_PLAUSIBLE


def test_a_leaking_proxy_passes_no_more_often_than_stated() -> None:
    passed = rounds("leak", ["a1"], {"a1"}, leak=RATES.leak).count(PASSED)
    assert 0 < passed <= HIGHEST_PLAUSIBLE


@pytest.mark.parametrize("leaks_at", [["a1", "a2", "b1", "b2"], ["a1"]])
def test_a_proxy_that_leaks_at_some_clients_passes_no_more_often_than_stated(leaks_at: list[str]) -> None:
    rates = Rates(leak=0.1, miss=0.02, alone=0.3, chances=1)
    expectation: Expectation = {each: {"x1"} for each in ("a1", "a2", "b1", "b2")} | {"c1": {"x1", "y1"}}
    planned = plans(expectation, rates)
    leak = rates.by_itself(4) if len(leaks_at) == 1 else rates.leak
    rng = random.Random(f"leaks at {leaks_at}")

    def asked(client: str) -> Tally:
        share = leak if client in leaks_at else 0.5 if client == "c1" else 0.0
        return Tally.of([Reached("y1" if rng.random() < share else "x1") for _ in range(planned[client].samples)])

    found = [judge(expectation, {each: asked(each) for each in expectation}, planned) for _ in range(ROUNDS)]
    assert 0 < sum(each.verdict is PASSED for each in found) <= HIGHEST_PLAUSIBLE


def test_a_proxy_that_starves_a_member_always_fails() -> None:
    assert set(rounds("starved", ["a1"], {"a1", "b1"})) == {FAILED}


HIGHEST_PLAUSIBLE = 73
"""An event of 2 % exceeds this count in 2,000 rounds with a probability below 1e-6: the exact binomial tail."""
