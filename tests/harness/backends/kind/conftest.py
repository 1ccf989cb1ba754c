"""Fixtures for kind and a container engine, if both are installed, and a folder for the files of clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.backends.kind.checks import find_kind
from harness.errors import UnavailableError

Install = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set and return the folder for the test's clusters."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def kind() -> Path:
    """Return the kind command, or skip the test if it is not installed."""
    try:
        return find_kind()[0]
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that puts a shell script on PATH, which otherwise has only /bin and /usr/bin."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("TRAFFICDIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)

    def put(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return put
