"""The example script attaches pods to a bridge. Their Service is reachable, and hints take effect."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.netns.process import search_path

ROOT = Path(__file__).resolve().parents[2]
NEEDS = ("nft", "conntrack", "ip", "nsenter")


@pytest.mark.slow
@pytest.mark.skipif(
    any(shutil.which(each, path=search_path()) is None for each in NEEDS), reason=f"unavailable: {' or '.join(NEEDS)}"
)
def test_services_are_reached_by_interfaces_that_the_example_makes(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("trafficdist"), "run", "--proxy", "examples/own-interfaces/bridge.yaml"]
    ids = ["SERVICE/pod-reaches-itself", "KEP-4444/zone-hints-keep-traffic-in-the-zone"]
    ended = subprocess.run(
        [*command, "--output-dir", str(tmp_path), *ids], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
