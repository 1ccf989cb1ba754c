"""Tests that what only decorates a report may fail: it is noted as missing, and the run goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from harness.plugin import progress
from harness.report import allure, environment
from harness.report.page import page
from harness.run.run import Run

pytest_plugins = ["pytester"]

DECORATIONS: dict[str, tuple[object, str]] = {
    "the revision of the suite": (environment, "suite_revision"),
    "the version of the suite": (progress, "suite_version"),
    "facts about the cluster": (Run, "_left_environment"),
    "allure-results": (allure, "write"),
    "report.html": (page, "as_html"),
}
ERRORS = [subprocess.TimeoutExpired("git", 20), OSError(5, "Input/output error"), KeyError("oops")]


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("what", DECORATIONS)
def test_missing_decoration_is_noted_and_changes_no_verdict(
    certify: Any, monkeypatch: pytest.MonkeyPatch, what: str, error: Exception
) -> None:
    owner, name = DECORATIONS[what]
    monkeypatch.setattr(owner, name, failing(error))
    run = certify("passes", "fails")
    assert (run.code, run.verdicts) == (1, {"passes": "passed", "fails": "failed"})
    assert f"The report lacks {what}: {type(error).__name__}: " in run.text
    assert run.text.count(f"The report lacks {what}") == 1
    assert "Traceback" not in run.text


def test_slow_git_is_noted(certify: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.suite_revision.cache_clear()
    monkeypatch.setattr(subprocess, "run", failing(subprocess.TimeoutExpired("git status", 10)))
    monkeypatch.setattr(environment.shutil, "which", lambda _: "/bin/git")
    monkeypatch.setattr(environment, "_ROOT", environment._ROOT)
    run = certify("passes")
    assert run.code == 0
    (missing,) = run.report["run"]["missing"]
    assert missing == "the revision of the suite: TimeoutExpired: Command 'git status' timed out after 10 seconds"
    environment.suite_revision.cache_clear()
