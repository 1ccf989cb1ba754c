"""Tests that the changes a scenario makes to a real cluster are reverted, except if the cluster is then deleted."""

from __future__ import annotations

from typing import Any

import pytest

pytest_plugins = ["pytester"]

SCENARIO = """
import dataclasses
import harness.scenario.cluster
from harness.run.run import run_of

class Cluster:
    def __init__(self, *_, **__): pass
    def evidence(self): return {{}}
    def judgement(self): return {{}}
    def environment(self): return {{}}
    def needs(self): return {{}}
    def check_instruments(self): pass
    def close(self): pathlib.Path("given-back").touch()

@pytest.fixture(scope="session")
def backends(pytestconfig):
    run = run_of(pytestconfig)
    run.settings = dataclasses.replace(run.settings, backend="kind", keep_cluster={keep})
    harness.scenario.cluster.Cluster = Cluster
    return Backends()

class Backends:
    def __call__(self, topology, draw): pass
    def releases(self, topology, draw): pass
    def shared_services(self, topology, draw): pass
    def unanswered(self, used): return dict()

@must("KEP-1/scenario")
def test_scenario(three_zones):
    {body}
"""
PASSES, IS_INTERRUPTED = "pass", "os.kill(os.getpid(), signal.SIGINT)"


@pytest.mark.parametrize(
    ("body", "keep", "given_back"),
    [(PASSES, False, True), (IS_INTERRUPTED, False, False), (IS_INTERRUPTED, True, True)],
)
def test_interrupted_run_does_not_restore_a_deleted_cluster(
    certify: Any, pytester: pytest.Pytester, body: str, keep: bool, given_back: bool
) -> None:
    run = certify(extra=SCENARIO.format(keep=keep, body=body), options=("-n0",))  # in a new process
    assert run.code == (0 if body == PASSES else 2), run.text
    assert (pytester.path / "given-back").exists() == given_back
