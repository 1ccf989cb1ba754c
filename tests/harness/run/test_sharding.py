"""Tests that a selection is divided into shards completely, evenly, and in the same way on all machines."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.run.plan import Plan
from harness.run.sharding import ELSEWHERE, divide, other_shard
from harness.settings.options import resolve

DURATIONS = st.lists(st.integers(0, 9000), min_size=1).map(
    lambda hundredths: {f"KEP-{number % 3}/{number}": each / 100 for number, each in enumerate(hundredths)}
)


@given(DURATIONS, st.integers(1, 9))
def test_each_requirement_is_in_exactly_one_shard_and_no_shard_is_empty(seconds: dict[str, float], count: int) -> None:
    count = min(count, len(seconds))
    found = divide(seconds, f"1/{count}")
    assert found.keys() == seconds.keys()
    assert set(found.values()) == {f"{number}/{count}" for number in range(1, count + 1)}


@given(DURATIONS, st.integers(1, 9))
def test_no_shard_is_longer_than_another_by_more_than_one_requirement(seconds: dict[str, float], count: int) -> None:
    count = min(count, len(seconds))
    found = divide(seconds, f"1/{count}")
    loads = {shard: sum(max(0.01, seconds[each]) for each in found if found[each] == shard) for shard in found.values()}
    for shard, load in loads.items():
        shortest = min(max(0.01, seconds[each]) for each in found if found[each] == shard)
        assert load - shortest <= min(loads.values()) + 1e-6


@given(DURATIONS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_all_machines_divide_in_the_same_way(seconds: dict[str, float], count: int, rng: random.Random) -> None:
    count = min(count, len(seconds))
    shuffled = list(seconds)
    rng.shuffle(shuffled)
    expected = divide(seconds, f"1/{count}")
    for number in range(1, count + 1):
        assert divide({each: seconds[each] for each in shuffled}, f"{number}/{count}") == expected


def test_longest_requirements_are_spread_first() -> None:
    assert divide({"a": 1.0, "b": 9.0, "c": 2.0, "d": 8.0}, "1/2") == {"b": "1/2", "d": "2/2", "c": "2/2", "a": "1/2"}


def test_division_does_not_depend_on_the_hash_seed() -> None:
    program = "from harness.run.sharding import divide; print(divide({f'r{n}': n % 7 for n in range(99)}, '1/5'))"
    ends = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert ends[0] == ends[1]


def test_an_empty_selection_has_no_shards() -> None:
    assert divide({}, "1/5") == {}


def test_more_shards_than_requirements_are_refused_on_every_machine() -> None:
    for number in range(1, 4):
        with pytest.raises(UsageError, match=rf"--shard {number}/3: only 2 requirements are selected"):
            divide({"a": 1.0, "b": 2.0}, f"{number}/3")


def test_reason_names_the_shard_that_runs_a_requirement() -> None:
    assert other_shard(f"{ELSEWHERE}2/5") == "2/5"
    assert other_shard("named by --skip-tests") == ""


@pytest.mark.parametrize(
    "text", ["0/5", "6/5", "5", "1/", "/2", "1/1000", "-1/5", "1.5/3", "2/5/6", "\u0662/5", "01/5"]
)
def test_only_a_number_and_a_count_are_a_shard(text: str) -> None:
    with pytest.raises(UsageError, match=r"--shard: .*: expected NUMBER/COUNT, with NUMBER from 1 to COUNT, like 2/5"):
        resolve({"backend": "netns", "shard": text}, environment={})


@pytest.mark.parametrize("text", ["1/1", "2/5", "999/999"])
def test_shard_is_an_option_of_each_source(text: str) -> None:
    assert resolve({"backend": "netns", "shard": text}, environment={}).shard == text
    assert resolve({"backend": "netns"}, environment={"TRAFFICDIST_SHARD": text}).shard == text


@pytest.mark.parametrize("option", [{"quick": True}, {"generate": "5"}])
def test_options_that_select_requirements_differently_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="--shard selects the requirements itself: omit one of the options"):
        resolve({"backend": "netns", "shard": "1/2", **option}, environment={})


def test_shards_reach_the_xdist_controller() -> None:
    plan = Plan(shards={"KEP-1/a": "2/5"})
    assert Plan.from_json(json.loads(json.dumps(asdict(plan)))) == plan
