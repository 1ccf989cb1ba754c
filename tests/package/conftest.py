"""The wheel of this checkout, built and installed once."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path

import pytest

from tests.package.environment import ROOT, Installed, pip


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel in a new virtual environment, which borrows its dependencies from ours.

    A line of a .pth file adds our site-packages, but not the entries of the .pth files there, such as the project
    itself.
    """
    environment = Installed(tmp_path_factory.mktemp("installed"))
    venv.create(environment.folder)
    pip("--python", environment.folder / "bin/python", "install", "--no-compile", wheel)
    (environment.packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return environment
