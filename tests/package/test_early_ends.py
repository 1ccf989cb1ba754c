"""Tests that a command prints one line if it is interrupted, or lacks memory, while it is still loading."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["click", "yaml", "_pytest/capture", "xdist"])
def test_interrupt_while_loading_prints_one_line(module: str, tmp_path: Path) -> None:
    """Importing the module interrupts the process, at different moments of the start."""
    path = tmp_path / f"{module}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    name = module.replace("/", ".")
    hook = f"""
import sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(Finder)
            import os, signal
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""
    (tmp_path / "sitecustomize.py").write_text(hook)
    command = [sys.executable, "-m", "trafficdist", "run", "KEP-3015/*", "-n2", f"--output-dir={tmp_path / 'out'}"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if line]
    assert (ran.returncode, len(said)) == (2, 1), said
    assert said[0].startswith("interrupted")


LIMITED = "import os, resource, sys; most = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_AS, (most, most)); "
LIMITED += "os.execv(sys.argv[2], sys.argv[2:])"


@pytest.mark.parametrize("megabytes", [40, 60, 80, 100, 200, 1000])
def test_lack_of_address_space_is_one_line(megabytes: int, tmp_path: Path) -> None:
    limited = [sys.executable, "-c", LIMITED, str(megabytes * 1_000_000)]
    command = [sys.executable, "-m", "trafficdist", "run", "KEP-3015/*", f"--output-dir={tmp_path / 'out'}"]
    ran = subprocess.run([*limited, *command], capture_output=True, text=True, check=False)
    assert ran.returncode == 12, ran.stderr
    assert len((ran.stdout + ran.stderr).splitlines()) == 1
    assert ran.stderr.startswith("error: ")
    assert "ulimit -v" in ran.stderr or "out of memory" in ran.stderr
