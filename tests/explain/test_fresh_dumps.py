"""Dumps that nobody has looked at are answered without contradiction: text, JSON, `--all` and each form of a dump."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explain.dump_shapes import SHAPES
from tests.explain.fresh_dumps import contradictions, fresh_dump

SEEDS = range(9100, 9120)
RECORDING, *OTHERS = SHAPES


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_about_a_fresh_dump_agree(seed: int, tmp_path: Path) -> None:
    others = [OTHERS[(seed + number) % len(OTHERS)] for number in (0, 1)]
    assert contradictions(fresh_dump(seed), tmp_path, (RECORDING, *others)) == []
