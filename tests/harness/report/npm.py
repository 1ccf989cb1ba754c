"""Node programs for tests of reports, installed once into the cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.binaries.cache import default_folder

ALLURE = "allure@3.18.0"


def installed(package: str, version: str, path: str, *, what: str) -> Path:
    """Return a file of a package by its path in `node_modules`.

    Without npm, skip the test and report `what` as missing.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm, which installs {what}, is not available: install Node 20 or newer")
    folder = default_folder() / f"npm-{package}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "node_modules" / path
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [npm, "install", "--no-audit", "--no-fund", f"--prefix={folder}", f"{package}@{version}"]
        if not file.exists():
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"{what} is not installed, and `{' '.join(command)}` fails: {done.stderr[-300:]}")
    return file
