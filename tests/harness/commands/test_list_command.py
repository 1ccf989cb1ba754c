"""Tests that `trafficdist list` filters by pattern, level, feature and profile, and never truncates names."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from conformance.features import NODE_HINTS, ZONE_HINTS
from harness.commands.main import main
from harness.model.requirements import MAY, MUST, Feature, Level, Profile, Requirement
from harness.plugin import suite
from harness.report import catalogue

LONG = "KEP-3015/" + "-".join(["a-slug-that-is-longer-than-any-terminal-is-wide"] * 4)
API = Feature("Validation", Profile.API_SERVER, True, "Validates.")


def made(name: str, feature: Feature, *, level: Level = MUST, kills: tuple[str, ...] = ()) -> Requirement:
    return Requirement(name, f"What {name} says.", level, (feature,), "KEP-1, Design", kills=kills)


REQUIREMENTS = [
    made("KEP-1/one", ZONE_HINTS, kills=("skips-zone-tier",)),
    made("KEP-1/two", NODE_HINTS, level=MAY),
    made("KEP-2/three", API),
    made(LONG, ZONE_HINTS),
]


@pytest.fixture(autouse=True)
def small_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "catalogue", lambda _: REQUIREMENTS)


def listing(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["list", *arguments])


def ids(*arguments: str) -> list[str]:
    result = listing(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return [row["id"] for row in json.loads(result.output)["requirements"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["KEP-1/*"], ["KEP-1/one", "KEP-1/two"]),
        (["KEP-1/one", "*/thr?e"], ["KEP-1/one", "KEP-2/three"]),
        (["--level", "may"], ["KEP-1/two"]),
        (["--profile", "api-server"], ["KEP-2/three"]),
        (["--feature", "NodeHints", "--feature", "Validation"], ["KEP-1/two", "KEP-2/three"]),
        (["KEP-1/*", "--level", "MUST"], ["KEP-1/one"]),
    ],
)
def test_pattern_level_feature_and_profile_filter_the_list(arguments: list[str], expected: list[str]) -> None:
    assert ids(*arguments) == expected


def test_digest_is_that_of_the_whole_catalogue() -> None:
    digests = {
        json.loads(listing(*each, "--format", "json").output)["suite"]["catalogueDigest"] for each in ((), ("*/one",))
    }
    assert len(digests) == 1


def test_piped_table_has_one_requirement_per_line() -> None:
    lines = listing().output.splitlines()
    assert [line.split()[0] for line in lines] == [each.id for each in REQUIREMENTS]
    assert lines[0].split()[1:] == ["MUST", *REQUIREMENTS[0].sentence.split()]


def test_terminal_shows_the_full_name_on_its_own_line() -> None:
    rows = [(LONG, "MUST", ("A sentence " * 20,)), ("b", "MAY", ("C.",))]
    lines = catalogue.as_lines(rows, width=60).splitlines()
    assert LONG in lines
    assert "b" in lines
    assert max(len(line) for line in lines if line != LONG) <= 60


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["KEP-1/on"], 4, "error: unknown requirement 'KEP-1/on'; did you mean KEP-1/one"),
        (["KEP-1"], 4, "did you mean KEP-1/*?"),
        (["kep-1/"], 4, "did you mean KEP-1/*?"),
        (["KEP-1/*", "KEP-9/*"], 4, "unknown requirement 'KEP-9/*'"),
        (["--feature", "NodeHint"], 4, "unknown feature 'NodeHint'; did you mean NodeHints"),
        (["--level", "PERHAPS"], 4, "error: Invalid value for '--level'"),
        (["KEP-2/*", "--level", "MAY"], 5, "no requirement satisfies all patterns and options"),
        (["--mutants", "skips-zone-teir"], 4, "unknown mutant 'skips-zone-teir'; did you mean skips-zone-tier"),
        (["--mutants", "--feature", "Validation"], 5, "the selected requirements detect none of these mutants"),
    ],
)
def test_unmatched_pattern_is_reported(arguments: list[str], code: int, said: str) -> None:
    result = listing(*arguments)
    assert (result.exit_code, said in result.stderr) == (code, True), result.output
    assert not result.stdout


def test_mutants_have_their_faults_and_their_killers() -> None:
    (found,) = json.loads(listing("--mutants", "skips-zone-t*", "--format", "json").output)["mutants"]
    assert (found["name"], found["benign"], found["killedBy"]) == ("skips-zone-tier", False, ["KEP-1/one"])
    assert found["sentence"]
    (line,) = listing("--mutants", "skips-zone-tier").output.splitlines()
    assert line.startswith("skips-zone-tier  mutant  ")
    assert line.endswith("Killed by: KEP-1/one")


def test_benign_variants_are_listed_as_such() -> None:
    rows = json.loads(listing("--mutants", "--format", "json").output)["mutants"]
    assert sum(row["benign"] for row in rows) >= 10
    assert not any(row["killedBy"] for row in rows if row["benign"])


def test_other_options_choose_mutants_by_their_killers() -> None:
    rows = json.loads(listing("--mutants", "--feature", "ZoneHints", "--format", "json").output)["mutants"]
    assert [row["name"] for row in rows] == ["skips-zone-tier"]
