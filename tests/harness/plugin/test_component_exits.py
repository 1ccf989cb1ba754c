"""Tests that the exit of a component makes requirements inconclusive and fails the requirement "It keeps running"."""

from __future__ import annotations

from typing import Any

from harness.judging.exit_codes import ExitCode

pytest_plugins = "pytester"

ENDS = """
from harness.plugin.recorder import Recorder
from harness.run.run import run_of

@requirement("KEP-1/keeps-running", "It keeps running.", level=MUST, features={CORE}, source="KEP-1, Design", last=True)
def test_keeps_running(request):
    assert run_of(request.config).known_ends() == {}, "the service-proxy: expected runs"

@must("KEP-1/ends")
def test_ends(): raise EndedError("kube-proxy on a1 exited with 2", "service-proxy")

@must("KEP-1/ends-unasked")
def test_ends_unasked():
    try:
        raise EndedError("kube-proxy on a1 exited with 2", "service-proxy")
    except InconclusiveError as error:
        raise AssertionError("a1 reached nobody") from error
"""


def test_exit_of_a_component_fails_the_requirement_that_runs_last(certify: Any) -> None:
    done = certify(extra=ENDS)
    assert done.verdicts["keeps-running"] == "failed"
    assert done.verdicts["ends"] == "inconclusive"
    assert "kube-proxy on a1 exited with 2" in done.text
    assert done.code == ExitCode.FAILED
