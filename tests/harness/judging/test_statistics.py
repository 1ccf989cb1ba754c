"""Tests that sample sizes keep the stated error rates, by calculation and with simulated proxies."""

from __future__ import annotations

import ast
import math
import random
from pathlib import Path

import pytest

from harness.judging.statistics import (
    DEFAULT_RATES,
    LAXEST,
    LEAST_RATE,
    Rates,
    allowed_set,
    at_most,
    even_shares,
    every_probe,
    samples_for_leak,
    samples_for_members,
    share_bounds,
    unseen_bound,
)

LOOSE = Rates(leak=0.1, miss=0.02, chances=1)
ROUNDS = 4000


@pytest.mark.parametrize(
    ("leak", "miss", "samples"),
    [(0.05, 1e-3, 135), (0.05, 1e-6, 270), (0.01, 1e-6, 1375), (0.001, 1e-3, 6905), (0.5, 0.5, 1), (0.5, 0.25, 2)],
)
def test_samples_for_a_leak(leak: float, miss: float, samples: int) -> None:
    assert samples_for_leak(leak, miss) == samples
    assert samples == 1 or (1 - leak) ** (samples - 1) > miss


@pytest.mark.parametrize(("clients", "samples"), [(1, 283), (2, 142), (3, 95), (4, 71), (5, 66), (12, 66)])
def test_small_fault_is_seen_by_all_clients_together_and_a_larger_one_by_each(clients: int, samples: int) -> None:
    rates = Rates()
    assert rates.samples(clients) == samples
    assert 2 * (1 - rates.leak) ** (clients * samples) <= rates.miss  # twice: a wrong window is measured again
    assert 2 * (1 - rates.by_itself(clients)) ** samples <= rates.miss


@pytest.mark.parametrize(
    ("rates", "clients", "text"),
    [
        (Rates(), 1, "5% leak"),
        (Rates(), 2, "5% leak at 2 clients, 20% leak at one"),
        (Rates(leak=0.25), 5, "25% leak"),
        (Rates(alone=0.05), 5, "5% leak"),
    ],
)
def test_a_plan_states_what_clients_see(rates: Rates, clients: int, text: str) -> None:
    assert allowed_set(1, rates, clients=clients).smallest_fault == text
    assert rates.samples(clients) == every_probe("silence", rates, clients=clients).samples


@pytest.mark.parametrize(("count", "samples"), [(1, 1), (2, 21), (3, 37), (4, 53), (6, 86), (10, 153)])
def test_samples_for_members(count: int, samples: int) -> None:
    assert samples_for_members(count, 1e-6) == samples
    assert unseen_bound(count, samples) <= 1e-6


def test_allowed_set_needs_the_larger_of_two_sample_sizes() -> None:
    assert allowed_set(3).samples == 283
    assert allowed_set(100).samples == samples_for_members(100, 1e-9) > 283


def test_a_check_states_its_rates_for_all_clients() -> None:
    check = allowed_set(10).check(clients=5)
    assert check == {
        "kind": "allowed-set",
        "samples": 283,
        "falseAlarm": 5.7e-12,
        "smallestFault": "5% leak",
        "miss": 1e-6,
    }
    assert 5 * unseen_bound(10, 283) <= 5.7e-12
    assert every_probe("silence").check()["falseAlarm"] == 0


@pytest.mark.parametrize("rates", [(0.0, 0.1), (1.0, 0.1), (0.1, 0.0), (0.1, 1.0), (-1.0, 0.5)])
def test_impossible_rates_are_refused(rates: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="from 1e-09 to below 1"):
        samples_for_leak(*rates)


@pytest.mark.parametrize("count", [2, 3, 10])
def test_a_right_proxy_misses_a_member_no_more_often_than_stated(count: int) -> None:
    samples = samples_for_members(count, LOOSE.miss)
    rng = random.Random(f"members {count}")
    missed = sum(len({rng.randrange(count) for _ in range(samples)}) < count for _ in range(ROUNDS))

    assert missed <= highest_plausible(ROUNDS, LOOSE.miss)
    assert missed > 0, "the simulation is too small to detect a fault"


def test_endpoint_stays_unseen_by_chance_less_than_once_in_a_thousand_runs() -> None:
    windows = 100_000  # more than clients times windows of a whole run
    assert all(windows * allowed_set(count).false_alarm <= 1e-3 for count in (2, 3, 7, 11, 130))


def test_a_leaking_proxy_is_missed_no_more_often_than_stated() -> None:
    samples = allowed_set(2, LOOSE).samples
    rng = random.Random("leak")
    missed = sum(all(rng.random() >= LOOSE.leak for _ in range(samples)) for _ in range(ROUNDS))

    assert 0 < missed <= highest_plausible(ROUNDS, LOOSE.miss)


def test_one_probe_less_than_computed_would_break_the_promise() -> None:
    assert 0.9 ** (samples_for_leak(0.1, 0.02) - 1) > 0.02


@pytest.mark.parametrize(("count", "samples", "bounds"), [(2, 830, (343, 487)), (3, 1060, (277, 433))])
def test_samples_and_bounds_of_equal_shares(count: int, samples: int, bounds: tuple[int, int]) -> None:
    wanted = even_shares(count)
    assert wanted.samples == samples
    assert share_bounds(samples, count, 1e-6) == bounds
    assert 0 < wanted.false_alarm <= 1e-6


def test_likelihoods_of_counts_are_exact() -> None:
    for most in (0, 3, 7, 20):
        exact = sum(math.comb(20, k) * 0.3**k * 0.7 ** (20 - k) for k in range(most + 1))
        assert at_most(most, 20, 0.3) == pytest.approx(exact, rel=1e-12)
    assert at_most(-1, 20, 0.3) == 0


@pytest.mark.parametrize("weights", [(2, 1, 1), (1, 2, 2)])
def test_a_skew_of_two_to_one_is_missed_no_more_often_than_stated(weights: tuple[int, ...]) -> None:
    missed = sum(_within_bounds(weights, f"skew {weights} {number}") for number in range(ROUNDS // 4))
    assert 0 < missed <= highest_plausible(ROUNDS // 4, LOOSE.miss)


def test_equal_shares_raise_an_alarm_no_more_often_than_stated() -> None:
    alarms = sum(not _within_bounds((1, 1, 1), f"fair {number}") for number in range(ROUNDS // 4))
    assert 0 < alarms <= highest_plausible(ROUNDS // 4, LOOSE.miss)


def _within_bounds(weights: tuple[int, ...], seed: str) -> bool:
    wanted = even_shares(len(weights), LOOSE)
    fewest, most = share_bounds(wanted.samples, len(weights), LOOSE.miss)
    drawn = random.Random(seed).choices(range(len(weights)), weights, k=wanted.samples)
    return all(fewest <= drawn.count(each) <= most for each in range(len(weights)))


def test_one_endpoint_has_no_share_to_compare() -> None:
    with pytest.raises(ValueError, match="at least two endpoints"):
        even_shares(1)


def highest_plausible(rounds: int, rate: float) -> int:
    """Return the largest count that events with this rate exceed with a probability below 1e-6. The result is exact."""
    beyond = 1.0
    for count in range(rounds + 1):
        beyond -= math.comb(rounds, count) * rate**count * (1 - rate) ** (rounds - count)
        if beyond < 1e-6:
            return count
    return rounds


@pytest.mark.parametrize(
    "rates", [{"leak": 1e-300}, {"miss": 1e-300}, {"alone": 1e-300}, {"alarm": 1e-300}, {"chances": 0}, {"chances": 99}]
)
def test_undetectable_rates_are_refused_without_computation(rates: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected error rates from 1e-09 to below 1"):
        Rates(**rates)  # type: ignore[arg-type]


def test_smallest_rates_are_computed_without_delay() -> None:
    assert samples_for_leak(LEAST_RATE, LEAST_RATE) == pytest.approx(20.7e9, rel=0.01)


def test_no_scenario_has_laxer_error_rates_than_verify_accepts() -> None:
    suite = Path(__file__).resolve().parents[3] / "conformance"
    calls = [
        each
        for path in suite.rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "Rates"
    ]
    found = [Rates(**{str(one.arg): ast.literal_eval(one.value) for one in each.keywords}) for each in calls]
    assert LAXEST in found
    assert not any(each.args for each in calls)
    assert not any(each.laxer(LAXEST) for each in [*found, DEFAULT_RATES])


@pytest.mark.parametrize("rates", [Rates(leak=0.6), Rates(miss=1e-5), Rates(alone=0.6)])
def test_rates_that_may_miss_more_are_laxer(rates: Rates) -> None:
    assert rates.laxer(LAXEST)
    assert not LAXEST.laxer(LAXEST)
