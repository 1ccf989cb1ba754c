"""`trafficdist proxy init`: a person who is asked, and scripts that give all as options."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.commands.main import main
from harness.recipes.recipe import OF_PROXY, read_recipe

NEEDED = ("--name=mine", "--command=mine {node}", "--ready=log ^serving")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _init(*arguments: str, answers: str = "") -> Result:
    return CliRunner().invoke(main, ["proxy", "init", *arguments], input=answers)


def test_answers_of_a_person_become_a_recipe() -> None:
    done = _init(answers="mine\n1.2\nmine {node}\nebpf\nhttp 10256\nlog synced\nNodeHints\nno\n")
    assert done.exit_code == 0, done.output
    assert "Next: trafficdist proxy check mine.yaml" in done.output
    recipe = read_recipe("mine.yaml", OF_PROXY)
    assert (recipe.name, recipe.version, recipe.programs[0].command, recipe.modes) == (
        "mine",
        "1.2",
        ("mine", "{node}"),
        ("ebpf",),
    )
    assert (recipe.supported_features, recipe.exempt_features) == (("NodeHints",), ("ZoneHints",))


def test_bad_answer_is_told_and_asked_again() -> None:
    done = _init(answers="a/b\nmine\n\nmine {node}\n\nhttp 99999\nhttp 10256\n\nNodeHint\n\nperhaps\nyes\n")
    assert done.exit_code == 0, done.output
    for said in ("want a name without /", "'99999' is no port", "did you mean NodeHints", "want yes or no"):
        assert said in done.output
    assert read_recipe("mine.yaml", OF_PROXY).name == "mine"


def test_script_gives_what_is_needed_and_gets_the_usual_for_the_rest() -> None:
    done = _init("own.yml", *NEEDED)
    assert done.exit_code == 0, done.output
    assert read_recipe("own.yml", OF_PROXY).modes == ("nftables",)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mine.yaml", *NEEDED[:2]), "--ready is missing, and nobody answers"),
        (("mine.yaml", *NEEDED, "--ready=soon"), "--ready: 'soon' is no check"),
        (("mine.yaml", *NEEDED, "--features=Roting"), "--features: unknown feature 'Roting'"),
        (("mine.yaml", *NEEDED, "--zone-hints=1"), "--zone-hints: '1': want yes or no"),
        (("mine.txt", *NEEDED), "want a name that ends in .yaml"),
        (("no/mine.yaml", *NEEDED), "there is no folder no"),
        (("mi\nne.yaml", *NEEDED), "letters that can be printed"),
    ],
)
def test_wrong_use_ends_with_4_and_writes_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = _init(*arguments)
    assert done.exit_code == 4
    assert said in done.output
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_there_is_only_replaced_by_force() -> None:
    Path("mine.yaml").write_text("name: other\n", encoding="utf-8")
    refused = _init(*NEEDED)
    assert (refused.exit_code, "is there already; --force replaces it" in refused.output) == (4, True)
    assert Path("mine.yaml").read_text(encoding="utf-8") == "name: other\n"
    assert _init("--force", *NEEDED).exit_code == 0
    assert read_recipe("mine.yaml", OF_PROXY).name == "mine"
