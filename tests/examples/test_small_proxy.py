"""The proxies of the tutorial pass their claimed requirements, and the tutorial shows the same recipe."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(("program", "said"), [("nft", "error: nft is missing"), ("", "error: kubeconfig is missing")])
def test_missing_program_or_file_is_named(program: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.syspath_prepend(RECIPE.parent)
    small_proxy = importlib.import_module("small_proxy")

    class ProxyWithoutApiServer(small_proxy.Proxy):  # type: ignore[misc, name-defined]
        """A proxy without an API server. Its `work` needs the program or the kubeconfig."""

        paths, synced = (), True

        def __init__(self, _: str, kubeconfig: str, __: str) -> None:
            self.kubeconfig = kubeconfig

        def work(self) -> None:
            small_proxy.run(program) if program else Path(self.kubeconfig).read_bytes()

    with pytest.raises(SystemExit, match=said):
        small_proxy.main("a1", "kubeconfig", "", "0", kind=ProxyWithoutApiServer)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(
    any(shutil.which(each, path=search_path()) is None for each in NEEDS), reason=f"unavailable: {' or '.join(NEEDS)}"
)
def test_small_proxy_is_certified(tmp_path: Path) -> None:
    """The proxy passes all claimed requirements.

    The run gives no certificate, only because the checkout is not a release.
    """
    ended, report = _run(RECIPE, tmp_path)
    reasons = report["run"].get("certifiableReasons", [])
    assert (ended.returncode, [each for each in reasons if "checkout" not in each]) == (0, []), ended.stdout[-3000:]
    assert "not met" not in ended.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_proxy_in_user_space_meets_each_must(tmp_path: Path) -> None:
    """No requirement demands address translation. implementation-differences.md lists what is optional and unmet."""
    ended, report = _run(RECIPE.with_name("user-space.yaml"), tmp_path)
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert {each["id"] for each in report["tests"] if each["verdict"] == "failed"} <= {
        "CHANGES/flows-outlive-a-restart",
        "KEP-2086/local-without-endpoints-drops",
        "SERVICE/external-local-without-endpoints-drops",
        "SERVICE/open-connections-outlive-their-service",
    }


def _run(recipe: Path, folder: Path) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Judge the proxy of a recipe. Return the finished run, and its report."""
    command = [Path(sys.executable).with_name("trafficdist"), "run", "--proxy", str(recipe), "-n", "3"]
    ended = subprocess.run(
        [*command, "--output-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | WHOSE,
    )
    return ended, yaml.safe_load((folder / "report.yaml").read_text(encoding="utf-8"))
