"""The proxy of the tutorial passes its claimed requirements, and the tutorial shows the same recipe."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.netns.process import search_path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "examples/small-proxy/small-proxy.yaml"
WHOSE = {"TRAFFICDIST_ORGANIZATION": "trafficdist", "TRAFFICDIST_PROJECT": "small-proxy", "TRAFFICDIST_VERSION": "1"}
NEEDS = ("nft", "conntrack")


def test_tutorial_shows_the_recipe() -> None:
    text = (ROOT / "docs/first-proxy.md").read_text(encoding="utf-8")
    assert f"```yaml\n{RECIPE.read_text(encoding='utf-8')}```\n" in text


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(
    any(shutil.which(each, path=search_path()) is None for each in NEEDS), reason=f"unavailable: {' or '.join(NEEDS)}"
)
def test_small_proxy_is_certified(tmp_path: Path) -> None:
    """The proxy passes all claimed requirements.

    The run gives no certificate, only because the checkout is not a release.
    """
    command = [Path(sys.executable).with_name("trafficdist"), "run", "--proxy", str(RECIPE), "-n", "3"]
    ended = subprocess.run(
        [*command, "--output-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | WHOSE,
    )
    report = yaml.safe_load((tmp_path / "report.yaml").read_text(encoding="utf-8"))
    reasons = report["run"].get("certifiableReasons", [])
    assert (ended.returncode, [each for each in reasons if "checkout" not in each]) == (0, []), ended.stdout[-3000:]
    assert "not met" not in ended.stdout
