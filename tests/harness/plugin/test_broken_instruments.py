"""Tests that a fixture can report a broken instrument, so that a failed assertion does not fail the requirement."""

from __future__ import annotations

from typing import Any

from harness.judging.exit_codes import ExitCode

pytest_plugins = "pytester"

FIXTURES = """
class Cluster:
    def __init__(self, broken): self.broken = broken
    def check_instruments(self):
        if self.broken: raise DistrustError("kube-proxy on a1 exited with 2")

@pytest.fixture
def sound(): return Cluster(False)

@pytest.fixture
def broken(): return Cluster(True)

@must("KEP-1/sound")
def test_sound(sound): assert False, "a1 reached nobody"

@must("KEP-1/works")
def test_works(broken): pass

@must("KEP-1/broken")
def test_broken(broken): assert False, "a1 reached nobody"
"""


def test_broken_instrument_causes_no_failure(certify: Any) -> None:
    done = certify(extra=FIXTURES)
    assert done.verdicts == {"sound": "failed", "works": "passed", "broken": "inconclusive"}
    assert done.code == ExitCode.DISTRUST
    assert "kube-proxy on a1 exited with 2" in done.text
