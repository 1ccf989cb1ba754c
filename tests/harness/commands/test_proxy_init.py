"""Tests that `trafficdist proxy init` writes a valid recipe, in which each key has a comment."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.commands.main import main
from harness.model import strict_yaml
from harness.netns.isolation import OWN
from harness.recipes.readiness import HttpCheck, LogCheck
from harness.recipes.recipe import OF_PROXY, parse_recipe, read_recipe

PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=30)


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _init(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["proxy", "init", *arguments])


def _written(*arguments: str) -> str:
    done = _init("mine.yaml", "--force", *arguments)
    assert done.exit_code == 0, done.output
    return Path("mine.yaml").read_text(encoding="utf-8")


def test_recipe_has_the_values_of_the_options() -> None:
    done = _init(
        "--name=mine", "--version=1.10", "--command=mine {node}", "--mode=ebpf", r"--ready={log: 'up: \d+ # {x}'}"
    )
    assert "Next: edit it, then run `trafficdist proxy check mine.yaml`" in done.output
    recipe = read_recipe("mine.yaml", OF_PROXY)
    assert (recipe.name, recipe.version, recipe.modes) == ("mine", "1.10", ("ebpf",))
    assert recipe.programs[0].command == ("mine", "{node}")
    assert recipe.programs[0].ready == (LogCheck(r"up: \d+ # {x}"),)


def test_recipe_without_options_is_valid() -> None:
    assert _init("own.yml").exit_code == 0
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


@settings(max_examples=50)
@given(PRINTABLE, PRINTABLE)
def test_letters_of_any_script_are_unchanged(word: str, version: str) -> None:
    escaped = word.replace("{", "{{").replace("}", "}}")
    _written(f"--command={shlex.join(['mine', escaped])}", f"--version={version}", f"--mode={word}")
    recipe = read_recipe("mine.yaml", OF_PROXY)
    assert (recipe.programs[0].command[1], recipe.version, recipe.modes) == (escaped, version, (word,))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mine.yaml", "--name="), "key name is missing"),
        (("mine.yaml", "--name=a/b"), "expected a name without /"),
        (("mine.yaml", "--name=a\nb"), "printable letters"),
        (("mine.yaml", "--command="), "key command is missing"),
        (("mine.yaml", "--command=mine 'x"), "--command: no closing quotation"),
        (("mine.yaml", "--command=mine {nope}"), "unknown placeholder {nope}"),
        (("mine.yaml", "--ready=soon"), "key ready[0]: expected http or metrics or log, not 'soon'"),
        (("mine.yaml", "--ready={tcp: 80}"), "key ready[0]: unknown key 'tcp'"),
        (("mine.yaml", "--ready={http: {port: 99999}}"), "key ready[0].http.port: expected a number from 1 to 65535"),
        (("mine.yaml", "--ready={http: {port: 80, path: healthz}}"), "expected a URL path: / and ASCII characters"),
        (("mine.yaml", "--ready={metrics: {zero: [x]}}"), "key ready[0].metrics.port is missing"),
        (("mine.yaml", "--ready={log: (}"), "is not a regular expression"),
        (("mine.yaml", "--ready=["), "--ready: is not YAML"),
        (("mine.txt",), "expected a name that ends in .yaml"),
        (("no/mine.yaml",), "the folder no does not exist"),
        (("mi\nne.yaml",), "expected a name of printable letters"),
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
    assert (refused.exit_code, "exists already; --force overwrites it" in refused.output) == (4, True)
    assert Path("mine.yaml").read_text(encoding="utf-8") == "name: other\n"
    assert _init("--force").exit_code == 0
    assert read_recipe("mine.yaml", OF_PROXY).name == "mine"
