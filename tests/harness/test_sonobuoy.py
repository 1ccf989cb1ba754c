"""Tests the Sonobuoy plugin, whose worker reads the `done` file at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.eventually import eventually
from harness.judging.exit_codes import ExitCode

pytest_plugins = ["pytester"]

BLOCKED = """
@must("KEP-1/blocks")
def test_blocks():
    pathlib.Path("blocked").touch()
    signal.pause()
"""

DEAF = BLOCKED.replace("    signal.pause()", "    while True: signal.sigwait({signal.SIGINT})").replace(
    "    pathlib", "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); pathlib"
)

PLUGIN = "import os, sys; from harness.commands.sonobuoy import main; sys.exit(main(sys.argv[1:], os.environ, {}))"


@pytest.fixture
def results(pytester: pytest.Pytester) -> Path:
    """Return the folder that the plugin and the worker share."""
    return pytester.mkdir("results")


def start(results: Path, *options: str, patience: Sequence[float] = (), **variables: str) -> subprocess.Popen[bytes]:
    """Start the plugin as its container does, with the suite in `pack`."""
    program = ["-m", "harness.commands.sonobuoy"]
    if patience:
        program = ["-c", PLUGIN.replace(", {}", f", patience={patience[0]}")]
    environment = os.environ | {"SONOBUOY_RESULTS_DIR": str(results)} | variables
    command = [sys.executable, *program, "--backend=netns", "--suite=pack", *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def handed_over(results: Path) -> ElementTree.Element:
    """Return the JUnit suite in the folder that file `done` names. Check that the file is complete."""
    folder = (results / "done").read_text(encoding="utf-8")
    assert folder == str(results / "trafficdist")
    suite = ElementTree.parse(f"{folder}/junit.xml").getroot().find("testsuite")
    assert suite is not None
    return suite


def pack(pytester: pytest.Pytester, text: str) -> None:
    (pytester.mkdir("pack") / "test_sample.py").write_text(text)


def test_failing_run_is_handed_over(pytester: pytest.Pytester, sample_suite: Any, results: Path) -> None:
    pack(pytester, sample_suite("passes", "fails", "inconclusive", "breaks"))
    (pytester.mkdir("config") / "trafficdist.yaml").write_text("skip-tests: [KEP-1/breaks]\n")
    plugin = start(results, SONOBUOY_CONFIG_DIR="config")
    assert plugin.wait(60) == ExitCode.FAILED
    suite = handed_over(results)
    assert [suite.get(each) for each in ("tests", "failures", "errors", "skipped")] == ["3", "1", "1", "0"]


def test_run_that_does_not_begin_is_handed_over_as_an_error(pytester: pytest.Pytester, results: Path) -> None:
    (results / "done").write_text("of an earlier run")
    assert start(results, "--run-test=KEP-9/none").wait(60) == ExitCode.USAGE
    error = handed_over(results).find("testcase/error")
    assert error is not None
    assert error.get("message") == "trafficdist run ended with 4: wrong options"


def end(pytester: pytest.Pytester, text: str, results: Path, **options: Any) -> tuple[int, list[str | None]]:
    """Stop the plugin while a scenario runs. Return its exit code, and the names of the test cases in its results."""
    pack(pytester, text)
    plugin = start(results, **options)
    eventually(Path("blocked").exists, within=60, describe="the scenario that is interrupted")
    plugin.send_signal(signal.SIGTERM)
    return plugin.wait(60), [case.get("name") for case in handed_over(results).findall("testcase")]


def test_run_that_is_told_to_end_is_handed_over(pytester: pytest.Pytester, sample_suite: Any, results: Path) -> None:
    ended = end(pytester, sample_suite("passes", extra=BLOCKED), results)
    assert ended == (ExitCode.INTERRUPTED, ["blocks", "passes"])


def test_run_that_ignores_the_signal_is_killed_and_handed_over(
    pytester: pytest.Pytester, sample_suite: Any, results: Path
) -> None:
    ended = end(pytester, sample_suite("passes", extra=DEAF), results, patience=(0.2,))
    assert ended == (128 + signal.SIGKILL, ["run"])
