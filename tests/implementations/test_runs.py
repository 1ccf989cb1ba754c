"""Runs use the recipes of third-party programs that are compiled on this machine. Missing programs are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAFFICDIST = Path(sys.executable).with_name("trafficdist")
UNAVAILABLE = 12


def _run(command: Sequence[str | Path], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode == UNAVAILABLE:
        pytest.skip(f"unavailable: {done.stderr.strip()}")
    return done


@pytest.mark.slow
@pytest.mark.timeout(1000)  # clang compiles the BPF programs of Cilium's agent on each of five nodes
@pytest.mark.parametrize("recipe", ["cilium/cilium.yaml", "cilium/agent.yaml", "kpng/kpng.yaml"])
def test_compiled_program_follows_hints_for_zones(recipe: str, tmp_path: Path) -> None:
    name = Path(recipe).parent.name
    folder = _run([ROOT / "implementations/build", "--cached", name], os.environ).stdout.strip()
    wanted = ["--run-test", "KEP-2433/hints-filter-endpoints", "--output-dir", str(tmp_path / "run")]
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = _run([TRAFFICDIST, "run", "--proxy", f"implementations/{recipe}", *wanted], environment)
    assert done.returncode == 0, done.stdout + done.stderr
