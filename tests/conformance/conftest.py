"""Fixture that boots clusters with mutants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from harness.judging.history import History
from mutants import Mutant
from tests.conformance.mutant_trials import MutantTrial, booted, draw_of_mutant


@pytest.fixture
def trial(tmp_path: Path, netns_allowed: None) -> Iterator[Callable[[Mutant], MutantTrial]]:
    """Return a function that boots a cluster with a mutant."""
    with ExitStack() as stack:
        numbers = itertools.count(1)

        def boot(mutant: Mutant) -> MutantTrial:
            history = stack.enter_context(closing(History(tmp_path / f"history-{next(numbers)}.jsonl")))
            return MutantTrial(stack.enter_context(booted(mutant)), history, draw_of_mutant(mutant))

        yield boot
