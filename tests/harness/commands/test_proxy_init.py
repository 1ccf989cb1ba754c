"""Tests that `trafficdist proxy init` writes a valid recipe, in which each key has a comment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from harness.commands.main import main
from harness.model import strict_yaml
from harness.netns.isolation import OWN
from harness.recipes.readiness import HttpCheck
from harness.recipes.recipe import OF_PROXY, parse_recipe, read_recipe


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _init(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["proxy", "init", *arguments])


def _written() -> str:
    done = _init("mine.yaml", "--force")
    assert done.exit_code == 0, done.output
    return Path("mine.yaml").read_text(encoding="utf-8")


def test_recipe_is_valid() -> None:
    done = _init("own.yml")
    assert "Next: edit it, then run `trafficdist proxy check own.yml`" in done.output
    recipe = read_recipe("own.yml", OF_PROXY)
    assert (recipe.name, recipe.modes, recipe.exempt_features) == ("own", ("nftables",), ())
    assert recipe.programs[0].ready == (HttpCheck(10256, "/healthz"),)
    assert recipe.quiet_seconds == 0.5, "the wait is longer for a proxy without a synced check"


@pytest.mark.parametrize("key", OF_PROXY.keys)
def test_each_key_of_a_recipe_is_there_or_in_a_comment(key: str) -> None:
    assert re.search(rf"^(# )?{key}:", _written(), re.MULTILINE)


def test_each_placeholder_and_each_part_of_isolation_is_in_a_comment() -> None:
    text = _written()
    for name, what in OF_PROXY.placeholders.items():
        if name != "address":
            assert re.search(rf"^#   {{{name}}} +{re.escape(what)}$", text, re.MULTILINE), name
    assert "{address}" in text
    assert f"its network: {', '.join(OWN)}." in text


def test_commented_keys_are_valid_when_uncommented(tmp_path: Path) -> None:
    """The key `programs` is left out, because it excludes the keys from `command` to `synced`."""
    text = _written()
    examples = re.findall(r"^# ([a-z_]+:(?: .*)?\n(?:#   .*\n)*)", text, re.MULTILINE)
    said = "".join(each.replace("\n# ", "\n") for each in examples if not each.startswith("programs"))
    (tmp_path / "definitions.yaml").write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}})
    )
    (tmp_path / "daemonset.yaml").write_text(
        yaml.safe_dump({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}})
    )
    recipe = parse_recipe(strict_yaml.parse(text, "recipe") | strict_yaml.parse(said, "comments"), OF_PROXY, tmp_path)
    assert recipe.converges_within == 5
    assert recipe.installation is not None
    assert (len(recipe.objects), len(recipe.cluster_programs), len(recipe.programs[0].files)) == (2, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{a}.yaml",), "unknown placeholder {a}"),
        (("mine.txt",), "expected a name that ends in .yaml"),
        (("no/mine.yaml",), "the folder no does not exist"),
        (("mi\nne.yaml",), "expected a name of printable characters"),
    ],
)
def test_usage_error_exits_with_4_and_writes_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = _init(*arguments)
    assert done.exit_code == 4
    assert said in done.output
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_replaced_only_with_force() -> None:
    Path("mine.yaml").write_text("name: other\n", encoding="utf-8")
    refused = _init()
    assert (refused.exit_code, "already exists; --force overwrites it" in refused.output) == (4, True)
    assert Path("mine.yaml").read_text(encoding="utf-8") == "name: other\n"
    assert _init("--force").exit_code == 0
    assert read_recipe("mine.yaml", OF_PROXY).name == "mine"
