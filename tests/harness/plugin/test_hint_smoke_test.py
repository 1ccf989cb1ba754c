"""Tests the check, before the first scenario, that hints have any effect."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.model.topology import ONE_ZONE, grid
from harness.plugin.fixtures import BackendPool
from harness.plugin.hint_smoke_test import hint_facts
from mutants import BENIGN, MUTANTS

if TYPE_CHECKING:
    import pytest

TWO_ZONES = grid("two", {"a": 1, "b": 1})
ALL = {"hintsChangeSomething": True, "changesOfHintsAreFollowed": True}


def test_reference_follows_hints() -> None:
    with NetnsBackend(TWO_ZONES) as backend:
        assert hint_facts(backend) == ALL
        assert backend.api.list("services", "td-hint-smoke-test") == []


def test_proxy_with_optional_hint_support_is_tested_with_the_option() -> None:
    with NetnsBackend(TWO_ZONES, implementation=reference(BENIGN["follows-hints-where-asked"])) as backend:
        assert hint_facts(backend) == ALL


def test_proxy_that_ignores_hints_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.plugin.hint_smoke_test.WITHIN", 0.5)
    with NetnsBackend(TWO_ZONES, implementation=reference(MUTANTS["ignores-zone-hints"])) as backend:
        assert hint_facts(backend) == {"hintsChangeSomething": False}


def test_proxy_that_ignores_hint_changes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.plugin.hint_smoke_test.WITHIN", 0.5)
    with NetnsBackend(TWO_ZONES, implementation=reference(MUTANTS["freezes-hints"])) as backend:
        assert hint_facts(backend) == ALL | {"changesOfHintsAreFollowed": False}


def test_result_is_in_the_environment_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = NetnsBackend(TWO_ZONES, implementation=reference(MUTANTS["ignores-zone-hints"]))
    run: Any = SimpleNamespace(target={}, worker="", plan=None)
    monkeypatch.setattr("harness.plugin.hint_smoke_test.WITHIN", 0.5)
    monkeypatch.setattr("harness.plugin.fixtures._boot", lambda *_: made.start())
    with contextlib.closing(BackendPool(run)) as backends:
        assert backends.environment() == {}
        backends(TWO_ZONES)
        assert backends.environment() == {"hintsChangeSomething": False}


def test_one_zone_is_inconclusive() -> None:
    with NetnsBackend(ONE_ZONE) as backend:
        assert hint_facts(backend) == {}
