"""Build a real node image, boot a cluster from it, and run requirements there. The tests need an engine and kind.

The first test is fast and uses an existing image. The second test builds an image.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.backends.containers.engine import ContainerEngine
from harness.errors import UnavailableError
from tools.compiling.go import find_go

KUBERNETES = "1.34"
SMALLEST = ("KEP-4444/zone-hints-keep-traffic-in-the-zone", "KEP-3015/node-then-zone-then-anywhere")


def _trafficdist(*arguments: str | Path, seconds: float = 900) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "trafficdist", *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _judge(image: str, ids: Sequence[str], results: Path, *options: str) -> None:
    folder = ("--output-dir", results)
    done = _trafficdist("run", *ids, "--backend", "kind", "--kind-image", image, "-n", "0", *folder, *options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.timeout(900)
def test_cluster_of_the_existing_image_passes_some_requirements(node_image: str, tmp_path: Path) -> None:
    _judge(node_image, SMALLEST, tmp_path / "results", "--families", "IPv4")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("network")
def test_image_is_built_once_and_leaves_nothing_else(engine: ContainerEngine, tmp_path: Path) -> None:
    try:
        find_go()
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    made = _trafficdist("kind-image", KUBERNETES, seconds=7000)
    assert made.returncode == 0, made.stderr[-3000:]
    began = time.monotonic()
    again = _trafficdist("kind-image", KUBERNETES)
    assert time.monotonic() - began < 30
    assert again.stdout == made.stdout
    _judge(made.stdout.strip(), SMALLEST, tmp_path / "results")
    assert engine.clusters() == []
    assert not engine.ask("image", "ls", "--quiet", "--filter", "dangling=true").split()
