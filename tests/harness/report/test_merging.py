"""Tests that the reports of all shards become one report, and that parts of different runs are refused."""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

from harness.commands.main import main
from harness.judging.exit_codes import ExitCode
from harness.judging.history import read, sealed
from harness.judging.statistics import Rates
from harness.plugin import pytest_plugin
from harness.plugin.suite import catalogue
from harness.report import environment, merging, verification
from harness.report.verification import verify
from tests.harness.conftest import Certify
from tests.harness.report.conftest import JUDGED, OPTIONS

pytest_plugins = ["pytester"]

COUNT = 3
BODIES = ("unavailable", "ineligible")
ATTACHES = """
@must("KEP-3/attaches")
def test_attaches(watch):
    import allure
    with allure.step("a step"):
        allure.attach("some text", name="an attachment")
    watch.window(*[Reached("a1")] * 8)
"""


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sample suite look like a released suite, whose windows need few probes."""
    monkeypatch.setattr(verification, "LAXEST", Rates(0.5, 0.1))
    monkeypatch.setattr(environment, "suite_revision", lambda: "")
    monkeypatch.setattr(merging, "suite_revision", lambda: "")
    monkeypatch.setattr(environment, "_version_of", lambda _: "1.0")
    monkeypatch.setattr(pytest_plugin, "_is_whole_suite", lambda _: True)


Run = Callable[..., Path]


@pytest.fixture
def run(certify: Certify, released: None, tmp_path: Path) -> Run:
    """Return a function that runs the sample suite, and returns a copy of the run's folder."""
    number = itertools.count(1)

    def run(*options: str, bodies: tuple[str, ...] = BODIES, extra: str = JUDGED + ATTACHES) -> Path:
        given = tuple(f"--td-{each}" for each in (*OPTIONS, *options))
        ended = certify(*bodies, extra=extra, options=given)
        assert (ended.folder / "report.yaml").exists(), ended.text
        return Path(shutil.copytree(ended.folder, tmp_path / f"run-{next(number)}"))

    return run


class Parts:
    """The folders of three shards and of a run of all requirements. Tests run them once, and change copies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.suite = folder / "test_sample.py"
        self.shards = [folder / f"shard-{number}" for number in range(1, COUNT + 1)]
        self.whole = folder / "whole"
        self.out = folder / "merged"

    def merge(self, *folders: Path) -> tuple[int, str]:
        arguments = [*map(str, folders or self.shards), "--output-dir", str(self.out), "--suite", str(self.suite)]
        ended = CliRunner().invoke(main, ["merge", *arguments])
        return ended.exit_code, ended.output

    def report(self, folder: Path | None = None) -> Any:
        return yaml.safe_load(((folder or self.out) / "report.yaml").read_text(encoding="utf-8"))


_KEPT: dict[str, Path] = {}


@pytest.fixture
def parts(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    released: None,
    pytester: pytest.Pytester,  # which removes the imported suite from `sys.modules` after each test
) -> Parts:
    if "parts" not in _KEPT:
        run, kept = request.getfixturevalue("run"), tmp_path_factory.mktemp("parts")
        for number in range(1, COUNT + 1):
            shutil.copytree(run(f"shard={number}/{COUNT}"), kept / f"shard-{number}")
        shutil.copytree(run(), kept / "whole")
        shutil.copy(pytester.path / "test_sample.py", kept)
        _KEPT["parts"] = kept
    return Parts(Path(shutil.copytree(_KEPT["parts"], tmp_path / "parts")))


def verdicts(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the verdict, reason, message and random values of each requirement."""
    return {
        test["id"]: [test.get(key, "") for key in ("verdict", "reason", "message", "draw")] for test in report["tests"]
    }


def test_each_requirement_runs_in_exactly_one_shard(parts: Parts) -> None:
    whole = {each["id"] for each in parts.report(parts.whole)["tests"]}
    ids = [
        each["id"] for shard in parts.shards for each in parts.report(shard)["tests"] if each["reason"] != "unsupported"
    ]
    assert len(ids) == len(set(ids))
    assert {*ids, "KEP-2/not-claimed"} == whole


def test_report_of_one_shard_says_that_it_is_one_part(parts: Parts) -> None:
    said = parts.report(parts.shards[1])["run"]
    assert (said["shard"], said["certifiable"]) == ("2/3", False)
    assert "this is only shard 2/3: `trafficdist merge` makes one report of all" in said["certifiableReasons"]
    assert {"in shard 1/3", "in shard 3/3"} <= said["deselected"].keys()
    refused = [str(each) for each in verify(parts.shards[1], catalogue(str(parts.suite)))]
    assert any("requirements are in shard 1/3, which the report lacks" in each for each in refused)
    assert any("the run cannot be certified: this is only shard 2/3" in each for each in refused)


def test_merged_report_equals_the_report_of_one_machine(parts: Parts) -> None:
    code, said = parts.merge()
    merged, whole = parts.report(), parts.report(parts.whole)
    assert code == ExitCode.FAILED, said
    assert verdicts(merged) == verdicts(whole)
    for key in ("profiles", "features", "suite", "implementation", "causes", "mode", "kubernetesVersion"):
        assert merged.get(key) == whole.get(key), key
    assert [each["test"] for each in merged["transitions"]] == [each["test"] for each in whole["transitions"]]
    same = ("seed", "timeScale", "retries", "certifiable", "deselected", "slowestConvergence", "convergesWithin")
    assert {key: merged["run"].get(key) for key in same} == {key: whole["run"].get(key) for key in same}
    assert merged["run"]["certifiable"] is True
    assert merged["run"]["shards"].keys() == {"1/3", "2/3", "3/3"}
    assert merged["environment"] == whole["environment"]


def test_verify_accepts_the_merged_report(parts: Parts) -> None:
    parts.merge()
    assert [str(each) for each in verify(parts.out, catalogue(str(parts.suite)))] == []


def test_judge_derives_the_same_verdicts_from_the_merged_history(parts: Parts) -> None:
    parts.merge()
    ended = CliRunner().invoke(main, ["judge", str(parts.out)])
    assert "Each verdict and each message is the same in the history and report.yaml" in ended.output
    assert ended.exit_code == ExitCode.FAILED


@pytest.mark.parametrize("order", list(itertools.permutations(range(COUNT)))[1:])
def test_order_of_the_parts_changes_nothing(parts: Parts, order: tuple[int, ...]) -> None:
    parts.merge()
    first, history = parts.report(), (parts.out / "run.jsonl").read_bytes()
    parts.merge(*(parts.shards[each] for each in order))
    assert parts.report() == first | {"artifacts": parts.report()["artifacts"]}  # Allure's file names are random
    assert (parts.out / "run.jsonl").read_bytes() == history


def test_records_of_each_shard_keep_their_order_and_their_clock(parts: Parts) -> None:
    """The clocks of the machines differ by years, so that only records of the same machine are comparable."""
    for number, folder in enumerate(parts.shards):
        rewrite(folder, lambda each, by=number * 1e9: each | {"mono": each["mono"] + by})
    code, said = parts.merge()
    assert code == ExitCode.FAILED, said
    merged = read(parts.out / "run.jsonl").records
    assert [str(each) for each in verify(parts.out, catalogue(str(parts.suite)))] == []
    for folder in parts.shards:
        name = parts.report(folder)["run"]["shard"]
        own = [each for each in read(folder / "run.jsonl").records if each.get("worker") == "main"]
        kept = [each["mono"] for each in merged if each.get("worker") == f"{name}-main"]
        assert kept
        assert [each["mono"] for each in own if each["mono"] in set(kept)] == kept


def test_evidence_and_steps_come_from_the_shards(parts: Parts) -> None:
    parts.merge()
    whole = {each["path"] for each in parts.report(parts.whole)["artifacts"] if each["path"].startswith("evidence/")}
    assert whole
    assert {each["path"] for each in parts.report()["artifacts"] if each["path"].startswith("evidence/")} == whole
    [result] = [
        found
        for path in (parts.out / "allure-results").glob("*-result.json")
        if (found := orjson.loads(path.read_bytes()))["fullName"] == "KEP-3/attaches"
    ]
    [step] = [each for each in result["steps"] if each["name"] == "a step"]
    attached = parts.out / "allure-results" / step["attachments"][0]["source"]
    assert attached.read_text(encoding="utf-8") == "some text"


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change records of a history and compute all digests again, as a careful forger would."""
    digest, lines = b"", []
    for line in (folder / "run.jsonl").read_bytes().splitlines():
        record = orjson.loads(line)
        del record["digest"]
        if (changed := change(record)) is not None:
            line, digest = sealed(changed, digest)  # noqa: PLW2901
            lines.append(line)
    (folder / "run.jsonl").write_bytes(b"".join(lines))
    seal(folder)


def seal(folder: Path, **changes: Any) -> None:
    """Write the digests of all files, and changes, into the report."""
    path = folder / "report.yaml"
    report = yaml.safe_load(path.read_text(encoding="utf-8"))
    for each in report["artifacts"]:
        if not each["path"].endswith("/"):
            each["sha256"] = hashlib.sha256((folder / each["path"]).read_bytes()).hexdigest()
    path.write_text(yaml.safe_dump(report | changes, sort_keys=False), encoding="utf-8")


def in_facts(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the facts about a run in its history and in its report, so that they agree."""

    def changed(record: dict[str, Any]) -> dict[str, Any]:
        if record["kind"] == "run":
            change(record["facts"])
            seal(folder, **record["facts"]["report"])
        return record

    rewrite(folder, changed)


def set_option(folder: Path, name: str, value: Any) -> None:
    in_facts(folder, lambda facts: facts["shard"]["settings"].update({name: value}))


def set_fact(folder: Path, group: str, name: str, value: Any) -> None:
    in_facts(folder, lambda facts: facts["report"][group].update({name: value}))


def drop_kind(folder: Path, kind: str) -> None:
    rewrite(folder, lambda record: None if record["kind"] == kind else record)


def another_place(folder: Path) -> None:
    """Say that a requirement of another shard is in this one's neighbour."""

    def changed(record: dict[str, Any]) -> dict[str, Any]:
        if record["kind"] == "not-run" and record["message"] == "in shard 1/3":
            record["message"] = "in shard 3/3"
        return record

    rewrite(folder, changed)


CHANGES: Mapping[str, tuple[Callable[[Path], Any], str]] = {
    "another seed": (lambda part: set_option(part, "seed", 7), "parts: --seed is 1 in "),
    "another selection": (lambda part: set_option(part, "skip_tests", ["KEP-2/leaks"]), "parts: --skip-tests is []"),
    "another profile": (lambda part: set_option(part, "profile", ["dns"]), "parts: --profile is []"),
    "another claim": (lambda part: set_option(part, "exempt_features", ["X"]), "parts: --exempt-features is "),
    "another implementation": (lambda part: set_option(part, "version", "2.0"), 'parts: --version is "1.0" in '),
    "another proxy": (lambda part: set_option(part, "proxy", "kube-proxy:1.37"), 'parts: --proxy is "reference"'),
    "another time scale": (lambda part: set_option(part, "time_scale", 2.0), "parts: --time-scale is 1.0 in "),
    "another suite": (lambda part: set_fact(part, "suite", "version", "2"), 'parts: suite.version is "1.0" in '),
    "another catalogue": (
        lambda part: set_fact(part, "suite", "catalogueDigest", f"sha256:{'0' * 64}"),
        "its suite is not the installed one",
    ),
    "another revision": (
        lambda part: set_fact(part, "suite", "revision", "0123456789" * 4),
        "its suite is not the installed one",
    ),
    "another cluster": (
        lambda part: set_fact(part, "environment", "ipFamilies", ["IPv4"]),
        'parts: environment.ipFamilies is ["IPv4", "IPv6"] in ',
    ),
    "another server": (
        lambda part: set_fact(part, "environment", "servers", {"apiserver": "v1.30"}),
        "parts: environment.servers is {} in ",
    ),
    "another division": (another_place, "selection: KEP-"),
    "another number of parts": (lambda part: set_option(part, "shard", "2/4"), 'the number of parts is "3" in '),
    "a forged name": (lambda part: set_option(part, "shard", "1/3"), "are both shard 1/3: give each part once"),
    "no settings": (
        lambda part: in_facts(part, lambda facts: facts.pop("shard")),
        "it is not a part of a run: expected a run with --shard NUMBER/COUNT",
    ),
    "broken settings": (lambda part: set_option(part, "topology", 7), "history: "),
    "no facts": (lambda part: drop_kind(part, "run"), "history: "),
    "a removed line": (
        lambda part: (part / "run.jsonl").write_bytes(b"".join((part / "run.jsonl").read_bytes().splitlines(True)[1:])),
        "history: ",
    ),
    "a changed report": (lambda part: seal(part, mode="other"), "identity: "),
    "changed evidence": (
        lambda part: next((part / "allure-results").iterdir()).write_text("x"),
        "artifacts: ",
    ),
    "a broken report": (lambda part: (part / "report.yaml").write_text("kind: X\n"), "history: "),
    "another time": (lambda part: seal(part, date="2020-01-01T00:00:00Z"), "times: "),
}


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=list(CHANGES))
def test_part_of_another_run_is_refused(parts: Parts, change: Callable[[Path], Any], said: str) -> None:
    change(parts.shards[1])
    code, output = parts.merge()
    assert (code, said in output) == (ExitCode.UNVERIFIED, True), output
    assert str(parts.shards[1]) in output
    assert not parts.out.exists()


def test_missing_part_is_refused(parts: Parts) -> None:
    code, output = parts.merge(*parts.shards[:2])
    assert code == ExitCode.UNVERIFIED
    assert "shards: shard 3/3 is missing: give the folders of all 3 parts" in output
    assert not parts.out.exists()


def test_part_that_is_given_twice_is_refused(parts: Parts) -> None:
    code, output = parts.merge(*parts.shards, parts.shards[0])
    assert code == ExitCode.UNVERIFIED
    assert f"{parts.shards[0]} and {parts.shards[0]} are both shard 1/3: give each part once" in output


def test_whole_run_is_no_part(parts: Parts) -> None:
    code, output = parts.merge(parts.whole)
    assert code == ExitCode.UNVERIFIED
    assert f"{parts.whole}: it is not a part of a run: expected a run with --shard NUMBER/COUNT" in output


@pytest.mark.parametrize("number", range(COUNT))
def test_no_part_is_lost_by_merging_into_its_folder(parts: Parts, number: int) -> None:
    before = (parts.shards[number] / "run.jsonl").read_bytes()
    parts.out = parts.shards[number]
    code, output = parts.merge()
    assert (code, "other than --output-dir" in output) == (ExitCode.USAGE, True)
    assert (parts.shards[number] / "run.jsonl").read_bytes() == before


def test_folder_without_a_report_is_refused(parts: Parts) -> None:
    code, output = parts.merge(parts.folder)
    assert code == ExitCode.USAGE
    assert f"{parts.folder}: expected the folder of a run that has ended" in output


def test_merged_report_without_the_records_of_a_shard_is_refused(parts: Parts) -> None:
    """A careful forger cannot leave out a shard whose requirements are not met."""
    parts.merge()
    rewrite(parts.out, lambda each: None if str(each.get("worker", "")).startswith("2/3") else each)
    assert {each.check for each in verify(parts.out, catalogue(str(parts.suite)))} >= {"catalogue", "history"}


def test_certified_report_must_not_name_requirements_of_other_shards(parts: Parts) -> None:
    def certified(facts: dict[str, Any]) -> None:
        facts["report"]["run"]["certifiable"] = True
        del facts["report"]["run"]["certifiableReasons"]

    in_facts(parts.shards[0], certified)
    refused = [str(each) for each in verify(parts.shards[0], catalogue(str(parts.suite)))]
    assert any("requirements are in shard 2/3, which the report lacks" in each for each in refused)


DIES = """
@must("KEP-3/dies")
def test_dies(history):
    history.change("something")
    os._exit(9)
"""


@pytest.mark.timeout(600)  # three runs with two workers each
@pytest.mark.parametrize("extra", ["", DIES], ids=["", "dies"])
def test_shards_with_workers_are_merged(run: Run, pytester: pytest.Pytester, tmp_path: Path, extra: str) -> None:
    """A worker that dies leaves a history without an end, which `verify` refuses in a merged report too."""
    bodies = ("passes", "fails", "inconclusive")
    folders = [run(f"shard={number}/2", "workers=2", bodies=bodies, extra=extra) for number in (1, 2)]
    whole, out = run("workers=2", bodies=bodies, extra=extra), tmp_path / "merged"
    suite = Path(shutil.copy(pytester.path / "test_sample.py", tmp_path / f"test_workers{len(extra)}.py"))
    arguments = [*map(str, folders), "--output-dir", str(out), "--suite", str(suite)]
    ended = CliRunner().invoke(main, ["merge", *arguments])
    assert ended.exit_code == ExitCode.FAILED, ended.output
    merged, expected = (yaml.safe_load((each / "report.yaml").read_text("utf-8")) for each in (out, whole))
    for each in (*merged["tests"], *expected["tests"]):
        each["message"] = re.sub(r"gw\d+|test_\w+\.py", "…", each["message"])
    assert verdicts(merged) == verdicts(expected)
    refused = {each.check for each in verify(out, catalogue(str(suite)))}
    assert ("history" in refused) is bool(extra)
