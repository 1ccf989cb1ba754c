"""Tests that a passed scenario is checked a second time before its fixtures are torn down."""

from __future__ import annotations

from typing import Any

pytest_plugins = "pytester"

FIXTURES = """
from types import SimpleNamespace

from harness.scenario.record import ObservedValue, ScenarioRecord

class Cluster:
    def __init__(self, lasts):
        self.api = self.backend = SimpleNamespace(writes=0, changes=0)
        value = ObservedValue(0.0, (0, 0), "a", lambda: "a" if lasts else "none")
        self.record = ScenarioRecord("t", sightings={"hints": value})
    def settle(self): pass
    def expect_equal(self, what, *, expected, observed):
        assert expected == observed, f"{what}: expected {expected}, observed {observed}"

@pytest.fixture
def lasting(): return Cluster(True)

@pytest.fixture
def fleeting(): return Cluster(False)

@must("KEP-1/lasts")
def test_lasts(lasting): pass

@must("KEP-1/changes")
def test_changes(fleeting): pass

@must("KEP-1/wrong")
def test_wrong(fleeting): assert False, "a1 reached nobody"
"""


def test_unprompted_change_after_the_check_fails(certify: Any) -> None:
    done = certify(extra=FIXTURES)
    assert done.verdicts == {"lasts": "passed", "changes": "failed", "wrong": "failed"}
    assert "hints, left alone: expected a, observed none" in done.text
    assert "a1 reached nobody" in done.text
