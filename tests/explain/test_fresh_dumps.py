"""Dumps that nobody has looked at are answered without contradiction: text, JSON, `--all` and each form of a dump."""

from __future__ import annotations

from pathlib import Path

import pytest

from explain import dump, objects
from tests.explain.answer_rules import violations
from tests.explain.dump_formats import SHAPES
from tests.explain.fresh_dumps import contradictions, fresh_dump

SEEDS = (*range(9100, 9120), 998015)
RECORDING, *OTHERS = SHAPES


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_about_a_fresh_dump_agree(seed: int, tmp_path: Path) -> None:
    others = [OTHERS[(seed + number) % len(OTHERS)] for number in (0, 1)]
    assert contradictions(fresh_dump(seed), tmp_path, (RECORDING, *others)) == []


@pytest.mark.timeout(600)  # generating a dump takes seconds of CPU, and minutes on a busy machine
@pytest.mark.parametrize(
    "seed",
    [
        *range(660001, 660021),
        *range(770001, 770021),
        *range(880001, 880021),
        *range(990001, 990011),
        *range(995001, 995011),
        *range(997001, 997021),
        *range(998001, 998011),
        *range(9200, 9205),
        9724,
        998022,
    ],
)
def test_answers_about_a_fresh_dump_keep_the_rules(seed: int, tmp_path: Path) -> None:
    objects.write(fresh_dump(seed), tmp_path / "dump")
    assert [*violations(dump.read(str(tmp_path / "dump")))] == []
