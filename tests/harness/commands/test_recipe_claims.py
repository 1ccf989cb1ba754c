"""Tests that every command that reads a recipe refuses the claim of an unknown feature before anything boots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = "name: mine\ncommand: [mine]\nready: [{log: up}]\n"


@pytest.mark.parametrize("key", ["supported_features", "exempt_features"])
@pytest.mark.parametrize("command", [["proxy", "check"], ["run", "--proxy"], ["doctor", "--proxy"]])
def test_misspelt_feature_is_refused_by_its_name(command: list[str], key: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"{RECIPE}{key}: [ClientAdress]\n", encoding="utf-8")
    ended = _run([*command, "mine.yaml"], tmp_path)
    expected = f"mine.yaml: {key.replace('_', '-')}: unknown feature 'ClientAdress'; did you mean ClientAddress?"
    assert (ended.returncode, expected in ended.stderr) == (4, True), ended.stderr
    assert "ok" not in ended.stdout.split()
    assert [each.name for each in tmp_path.iterdir()] == ["mine.yaml"]


def test_misspelt_feature_of_a_controller_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"{RECIPE}supported_features: [SyncEvent]\n", encoding="utf-8")
    ended = _run(["run", "--controller", "mine.yaml"], tmp_path)
    assert (ended.returncode, "did you mean SyncEvents" in ended.stderr) == (4, True), ended.stderr


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trafficdist", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)
