"""Build the wheel of this checkout and install it, once for all tests."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path

import pytest

from tests.package.wheel_environment import ROOT, WheelEnvironment, pip


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelEnvironment:
    """Install the wheel in a new virtual environment. The dependencies come from the current environment.

    A .pth file adds the current site-packages. The .pth files in those site-packages are not read, so the checkout
    itself is not on the path.
    """
    environment = WheelEnvironment(tmp_path_factory.mktemp("installed"))
    venv.create(environment.folder)
    pip("--python", environment.folder / "bin/python", "install", "--no-compile", wheel)
    (environment.packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return environment
