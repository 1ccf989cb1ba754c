"""Create the Allure report of a run as a single HTML file, if Node is installed.

Allure is a Node program that npx downloads and starts. Runs do not need Allure.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.errors import UnavailableError, UsageError
from harness.report.rejudged import place_of
from harness.run.folder import write_whole

ALLURE = "allure@3.18.0"
PAGE = "allure-report/index.html"
SECONDS = 600.0
"""Time limit in seconds for npx to download Allure and for Allure to generate the report."""

_HOW = "Install Node 20 or newer, which has npx: https://nodejs.org, or `apt-get install nodejs npm`."


def write(run: str, out: Path | None = None) -> Path:
    """Write Allure's report of a run, by default into its folder, and return its path.

    Raises `UsageError` if the folder has no Allure results, and `UnavailableError` with the remedy if npx or Allure is
    missing.
    """
    folder = place_of(run).parent
    for name in ("allure-results", "allurerc.json"):
        if not (folder / name).exists():
            raise UsageError(f"{folder}: there is no {name} in it; want the complete folder of a run")
    target = out or folder / PAGE
    with tempfile.TemporaryDirectory(prefix="trafficdist-allure-") as made:
        _generate(folder, made)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, (Path(made) / "index.html").read_bytes())
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def _generate(folder: Path, made: str) -> None:
    npx = shutil.which("npx")
    if npx is None:
        raise UnavailableError(f"Allure is a Node program, and npx is not installed. {_HOW}")
    command = [npx, "--yes", ALLURE, "generate", "allure-results", "--output", made]
    try:
        done = subprocess.run(  # noqa: S603  npx, with our own arguments
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"`npx {ALLURE}` fails: {error}. {_HOW}") from error
    if done.returncode or not (Path(made) / "index.html").exists():
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise UnavailableError(
            f"`npx {ALLURE}` made no report (exit code {done.returncode}): {said or 'no output'}. {_HOW} "
            "The first call fetches it from the npm registry."
        )
