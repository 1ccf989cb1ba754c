"""Runs judge hostile programs. Nothing of them may remain on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.eventually import eventually
from tests.harness.run.terminals import marked

SECONDS = 280
"""The time limit of a run, on a machine that is busy with others."""


class HostileRun:
    """A run that judges a hostile program by one requirement, and everything that it could leave on the machine."""

    def __init__(self, folder: Path, *, kind: str, requirement: str, recipe: Mapping[str, Any]) -> None:
        """`kind` is the option that takes the recipe, such as "proxy"."""
        self.temp = folder / "temp"
        self.temp.mkdir()
        self.mark = uuid.uuid4().hex
        (folder / "hostile.yaml").write_text(yaml.safe_dump({"name": "hostile", **recipe}), encoding="utf-8")
        own = {"ENDS": self.mark, "TMPDIR": str(self.temp), "PYTHONDONTWRITEBYTECODE": "1"}
        self.mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        self.process = subprocess.Popen(
            [Path(sys.executable).with_name("trafficdist"), "run", f"--run-test={requirement}",
             f"--{kind}={folder / 'hostile.yaml'}", f"--output-dir={folder / 'out'}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **own},
            start_new_session=True,
        )  # fmt: skip

    def end(self) -> tuple[int, str]:
        """Wait for the end. Returns the exit code and the output."""
        said, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, said

    def expect_clean(self) -> None:
        """Raise if a process is left, which would also keep a netns, or a file or a mount."""
        eventually(lambda: not marked(self.mark), within=30, describe=lambda: f"the end of {marked(self.mark)}")
        eventually(lambda: not list(self.temp.iterdir()), within=30, describe="the removal of files")
        assert Path("/proc/self/mountinfo").read_text(encoding="utf-8") == self.mounts

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
