"""Tests that a command prints one line if it is interrupted, or lacks memory, while it is still loading."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def interrupted(tmp_path: Path, module: str, send: str) -> subprocess.CompletedProcess[str]:
    """Run a command in which the first import of a module runs a statement, which sends an interrupt."""
    hook = f"""
import os, signal, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(Finder)
            {send}
sys.meta_path.insert(0, Finder)
"""
    (tmp_path / "sitecustomize.py").write_text(hook)
    command = [sys.executable, "-m", "trafficdist", "run", "KEP-3015/*", "-n2", f"--output-dir={tmp_path / 'out'}"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, start_new_session=True
    )


@pytest.mark.parametrize("module", ["pathlib", "click", "yaml", "_pytest.capture", "xdist"])
def test_interrupt_while_loading_prints_one_line(module: str, tmp_path: Path) -> None:
    """Importing the module interrupts the process, at different moments of the start."""
    ran = interrupted(tmp_path, module, "os.kill(os.getpid(), signal.SIGINT)")
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if line]
    assert (ran.returncode, len(said)) == (2, 1), said
    assert said[0].startswith("interrupted")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("module", ["execnet.multi", "harness.plugin.pytest_plugin"])
def test_interrupt_while_workers_load_is_acknowledged_first(module: str, tmp_path: Path) -> None:
    """Importing the module in a worker interrupts the whole process group, as Ctrl-C does."""
    ran = interrupted(tmp_path, module, "'readline' in sys.orig_argv[-1] and os.killpg(0, signal.SIGINT)")
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if line and "starting workers" not in line]
    assert ran.returncode == 2, said
    assert not [line for line in said if "Traceback" in line or "KeyboardInterrupt" in line]
    assert next(line for line in ran.stderr.splitlines() if line).startswith("interrupted: the run is ending")


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
