"""Tests the settings of generated scenarios: their duration or number, and their distribution over workers."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.model.generation_settings import LONGEST_PART, GenerationSettings, amount, check_amount
from harness.settings.options import resolve


@pytest.mark.parametrize(
    ("text", "means"), [("60s", (60.0, 0)), ("10m", (600.0, 0)), ("1h", (3600.0, 0)), ("500", (0.0, 500))]
)
def test_an_amount_is_a_time_or_a_number(text: str, means: tuple[float, int]) -> None:
    assert amount(check_amount(text)) == means


@pytest.mark.parametrize("text", ["0", "0s", "-1s", "1.5m", "ten", "60 s", "25h", "1d", "٣s", ""])
def test_any_other_amount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        check_amount(text)


@pytest.mark.parametrize("workers", [0, 1, 2, 3, 7])
def test_any_number_of_workers_makes_the_same_batches(workers: int) -> None:
    parts = GenerationSettings(1, cases=1000).split(4, workers)
    made = sorted(itertools.chain.from_iterable(each.batches(32) for each in parts))
    assert made == list(range(8))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_time_is_divided_among_all_tests_and_workers(workers: int) -> None:
    parts = GenerationSettings(1, seconds=600).split(4, workers)
    assert sum(each.seconds for each in parts) * 4 == pytest.approx(600 * workers)
    assert all(each.seconds <= LONGEST_PART for each in parts)
    assert [each.part for each in parts] == list(range(len(parts)))


def test_no_batch_begins_when_time_is_up() -> None:
    assert list(itertools.islice(GenerationSettings(1, seconds=1e-9).batches(32), 3)) == []


@pytest.fixture
def scenarios(tmp_path: Path) -> str:
    (tmp_path / "x.yaml").write_text("- {states: []}\n")
    return str(tmp_path / "x.yaml")


def test_settings_state_what_to_generate(scenarios: str) -> None:
    assert resolve({}, environment={}).generation is None
    assert resolve({"generate": "60s", "seed": "3"}, environment={}).generation == GenerationSettings(3, seconds=60.0)
    assert resolve({"replay": scenarios, "seed": "3"}, environment={}).generation == GenerationSettings(
        3, replay=scenarios
    )


def test_generating_and_replaying_together_is_refused(scenarios: str) -> None:
    with pytest.raises(UsageError, match="--replay: --generate and --replay cannot be combined"):
        resolve({"generate": "60s", "replay": scenarios}, environment={})
