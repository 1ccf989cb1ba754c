"""A virtual environment with the installed project, and pip without access to a registry."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class WheelEnvironment:
    """A virtual environment with the wheel."""

    folder: Path

    @property
    def packages(self) -> Path:
        """Return the site-packages folder of the environment."""
        return Path(sysconfig.get_path("purelib", "venv", vars={"base": str(self.folder)}))

    def run(self, program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, without the variables and the folder of a checkout."""
        ours = ("PYTHON", "PYTEST", "TRAFFICDIST_", "KUBECONFIG", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=cwd,
            env=environment | {"HOME": str(cwd)},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )


def pip(*arguments: str | Path) -> None:
    """Run pip without a registry."""
    command = [sys.executable, "-m", "pip", *map(str, arguments), "--quiet", "--no-index", "--no-deps"]
    subprocess.run(command, check=True, timeout=100, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
