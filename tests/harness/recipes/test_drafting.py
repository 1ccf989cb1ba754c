"""A recipe made from answers says what was answered, whatever letters are in it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.model import strict_yaml
from harness.recipes.drafting import Draft, read_answer
from harness.recipes.readiness import HttpCheck, LogCheck, MetricsCheck
from harness.recipes.recipe import OF_PROXY, Recipe, parse_recipe

ANSWERS = {
    "name": "mine",
    "version": "1.10",
    "command": "mine --node={node}",
    "mode": "ebpf",
    "ready": "http 10256 /healthz",
    "synced": "metrics 10249 pending waiting",
    "features": "NodeHints, IPv6",
    "zone_hints": "yes",
}
PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=30)


def text(**changes: str) -> str:
    return Draft(**{key: read_answer(key, each) for key, each in {**ANSWERS, **changes}.items()}).as_text("mine.yaml")


def drafted(**changes: str) -> Recipe:
    return parse_recipe(strict_yaml.parse(text(**changes), "draft"), OF_PROXY)


def test_recipe_says_what_was_answered() -> None:
    recipe = drafted()
    assert (recipe.name, recipe.version, recipe.modes) == ("mine", "1.10", ("ebpf",))
    assert recipe.programs[0].command == ("mine", "--node={node}")
    assert recipe.programs[0].ready == (HttpCheck(10256, "/healthz"),)
    assert recipe.programs[0].synced == (MetricsCheck(10249, zero=("pending", "waiting")),)
    assert (recipe.supported_features, recipe.exempt_features) == (("NodeHints", "IPv6"), ())


def test_proxy_that_tells_nothing_is_waited_for_longer() -> None:
    assert drafted(synced="").programs[0].synced == ()
    assert drafted(synced="").quiet_seconds > drafted().quiet_seconds


def test_proxy_without_hints_does_not_claim_them() -> None:
    assert drafted(zone_hints="no").exempt_features == ("ZoneHints",)


@pytest.mark.parametrize("key", OF_PROXY.keys)
def test_each_key_of_a_recipe_is_there_or_in_a_comment(key: str) -> None:
    assert re.search(rf"^(# )?{key}:", text(), re.MULTILINE)


def test_keys_in_comments_are_right_once_they_are_none(tmp_path: Path) -> None:
    """But `programs`, which excludes the keys that are answered."""
    examples = re.findall(r"^# ([a-z_]+:(?: .*)?\n(?:#   .*\n)*)", text(), re.MULTILINE)
    said = "".join(each.replace("\n# ", "\n") for each in examples if not each.startswith("programs"))
    (tmp_path / "definitions.yaml").write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}})
    )
    (tmp_path / "daemonset.yaml").write_text(
        yaml.safe_dump({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x"}})
    )
    given = strict_yaml.parse(text(), "draft") | strict_yaml.parse(said, "comments")
    recipe = parse_recipe(given, OF_PROXY, tmp_path)
    assert recipe.converges_within == 5
    assert recipe.installation is not None
    assert (len(recipe.objects), len(recipe.cluster_programs), len(recipe.programs[0].files)) == (2, 1, 1)


@given(PRINTABLE, PRINTABLE)
def test_letters_of_all_kinds_stay_as_they_are(word: str, version: str) -> None:
    escaped = word.replace("{", "{{").replace("}", "}}")
    recipe = drafted(command=shlex.join(["mine", escaped]), version=version, mode=word)
    assert (recipe.programs[0].command[1], recipe.version, recipe.modes) == (escaped, version, (word,))


def test_pattern_with_spaces_and_signs_stays_as_it_is() -> None:
    assert drafted(ready=r'log ^"ready": \d+ # {x}').programs[0].ready == (LogCheck(r'^"ready": \d+ # {x}'),)


@pytest.mark.parametrize(
    ("key", "answer", "said"),
    [
        ("name", "", "key name"),
        ("name", "a/b", "want a name without /"),
        ("name", "a\nb", "letters that can be printed"),
        ("command", "", "want a program and its arguments"),
        ("command", "mine 'x", "no closing quotation"),
        ("command", "mine {nope}", "unknown placeholder {nope}"),
        ("mode", "", "want a word"),
        ("ready", "", "is no check: want http PORT"),
        ("ready", "tcp 80", "is no check"),
        ("ready", "http", "is no check"),
        ("ready", "http 0", "'0' is no port"),
        ("ready", "http ٣", "is no port"),
        ("ready", "http 80 healthz", "path: want a URL path: /"),
        ("ready", "metrics 80", "is no check"),
        ("ready", "log (", "is not a regular expression"),
        ("synced", "soon", "is no check"),
        ("zone_hints", "maybe", "want yes or no"),
    ],
)
def test_bad_answer_is_told_with_what_is_allowed(key: str, answer: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_answer(key, answer)
    assert said in str(raised.value)
