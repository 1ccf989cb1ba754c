"""Forged reports: each is made from a real one, and refused for its own reason."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

from harness.commands.main import main
from harness.judging.history import sealed
from harness.model.requirements import Requirement
from harness.plugin import pytest_plugin
from harness.plugin.suite import catalogue
from harness.report import environment
from harness.report.verified import CHECKS, verify

pytest_plugins = ["pytester"]

JUDGED = """
from harness.judging.conclusion import raise_for
from harness.model.outcomes import TIMED_OUT, Reached
from harness.judging.statistics import Rates
from harness.judging.verdict import Verdict
from harness.scenario.findings import Findings

class Watch:
    def __init__(self, history):
        self._history = history
        self._findings = Findings()

    def judgement(self):
        return self._findings.as_json()

    def window(self, *seen):
        made = self._history.window("", {"a1": {"a1"}}, Rates(0.5, 0.1))
        self._findings.opened("TCP", made)
        self._findings.measured("gap", {"seconds": 0.25})
        self._findings.took(1.5)
        made.observe("a1", list(seen))
        judgement = made.judge()
        if judgement.verdict is not Verdict.PASSED:
            raise_for(judgement, judgement.message)

@pytest.fixture
def watch(history):
    return Watch(history)

@must("KEP-2/holds")
def test_holds(watch):
    watch.window(*[Reached("a1")] * 8)
    watch.window(*[Reached("a1")] * 9)

@must("KEP-2/leaks")
def test_leaks(watch):
    watch.window(*[Reached("a1")] * 7, TIMED_OUT)

@must("KEP-2/breaks-off")
def test_breaks_off(watch, request):
    request.addfinalizer(lambda: watch.window(*[Reached("a1")] * 7, TIMED_OUT))
    watch.window(*[Reached("a1")] * 8)

@must("KEP-2/not-claimed", Feature("Other", Profile.SERVICE_PROXY, False, "Other."))
def test_not_claimed():
    pass

@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@must("KEP-2/each-family", EXTENDED)
def test_each_family(watch, family):
    watch.window(*[Reached("a1")] * 8)
"""
OPTIONS = ("organization=o", "project=p", "version=1.0", "supported-features=PreferSameNode")


@dataclass
class Forged:
    """A run of which anything may be changed, before it is written anew."""

    folder: Path
    report: Any
    lines: list[bytes]
    requirements: Sequence[Requirement]
    history: bytes = b""

    @property
    def tests(self) -> dict[str, Any]:
        return {each["id"].partition("/")[2]: each for each in self.report["tests"]}

    @property
    def profile(self) -> Any:
        return self.report["profiles"][0]

    def records(self, kind: str) -> list[Any]:
        return [each for each in map(orjson.loads, self.lines) if each["kind"] == kind]

    def rewrite(self, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change records (None removes one, a list puts several there), with new digests everywhere."""
        digest, lines = b"", []
        for line in self.lines:
            record = orjson.loads(line)
            del record["digest"]
            changed = change(record)
            if changed is not None:
                for each in changed if isinstance(changed, list) else [changed]:
                    written, digest = sealed(each, digest)
                    lines.append(written)
        self.history = b"".join(lines)
        for each in self.report["artifacts"]:
            if each["path"] == "run.jsonl":
                each["sha256"] = hashlib.sha256(self.history).hexdigest()

    def checks(self) -> list[str]:
        """Write the run as it is now, and return the names of the checks that refuse it."""
        (self.folder / "run.jsonl").write_bytes(self.history or b"".join(self.lines))
        (self.folder / "report.yaml").write_text(yaml.safe_dump(self.report, sort_keys=False), encoding="utf-8")
        return [each.check for each in verify(self.folder, self.requirements)]


@dataclass
class Kept:
    """The run that all tests of this module change copies of."""

    folder: Path | None = None
    requirements: Sequence[Requirement] = field(default_factory=list)


@pytest.fixture(scope="module")
def kept() -> Kept:
    return Kept()


@pytest.fixture
def forged(
    kept: Kept, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Forged:
    """A copy of the run, which is as good as that of a released suite."""
    if kept.folder is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(environment, "suite_revision", lambda: "")
            patch.setattr(environment, "_version_of", lambda _: "1.0")
            patch.setattr(pytest_plugin, "_is_whole_suite", lambda _: True)
            run = request.getfixturevalue("certify")(
                "unavailable", extra=JUDGED, options=tuple(f"--td-{each}" for each in OPTIONS)
            )
        kept.folder = Path(shutil.copytree(run.folder, tmp_path_factory.mktemp("kept") / "run"))
        kept.requirements = catalogue(str(run.folder.parent / "test_sample.py"))
    folder = Path(shutil.copytree(kept.folder, tmp_path / "run"))
    report = yaml.safe_load((folder / "report.yaml").read_text(encoding="utf-8"))
    return Forged(folder, report, (folder / "run.jsonl").read_bytes().splitlines(keepends=True), kept.requirements)


def test_a_report_as_it_was_made_is_accepted(forged: Forged) -> None:
    assert [str(each) for each in verify(forged.folder, forged.requirements)] == []
    assert forged.checks() == []


def passes(test: Any) -> None:
    test.update(verdict="passed", reason="", message="")


def move_to_passed(forged: Forged) -> None:
    """As whoever is careful would: with the profile's numbers."""
    passes(forged.tests["leaks"])
    level = forged.profile["core"]
    level["statistics"].update(Passed=level["statistics"]["Passed"] + 1, Failed=0)
    del level["failedTests"]
    level["result"] = "partial"


def drop(forged: Forged, slug: str) -> None:
    forged.report["tests"] = [each for each in forged.report["tests"] if not each["id"].endswith(f"/{slug}")]


def declare(forged: Forged, name: str, *, as_: bool) -> None:
    for each in forged.report["features"]:
        if each["name"] == name:
            each["declared"] = as_


def artifact(forged: Forged, **changed: str) -> None:
    forged.report["artifacts"].append({**forged.report["artifacts"][0], **changed})


REPORTS: dict[str, tuple[str, Callable[[Forged], Any]]] = {
    "failed is passed": ("verdicts", lambda f: passes(f.tests["leaks"])),
    "failed is passed, with its numbers": ("verdicts", move_to_passed),
    "failed is inconclusive": ("verdicts", lambda f: f.tests["leaks"].update(verdict="inconclusive")),
    "skipped is passed": ("verdicts", lambda f: passes(f.tests["unavailable"])),
    "not claimed is passed": ("verdicts", lambda f: passes(f.tests["not-claimed"])),
    "unavailable is not claimed": ("verdicts", lambda f: f.tests["unavailable"].update(reason="unsupported")),
    "a message is milder": ("verdicts", lambda f: f.tests["leaks"].update(message="a little late")),
    "a case failed": ("verdicts", lambda f: f.tests["each-family"]["cases"][0].update(verdict="failed")),
    "a case is gone": ("verdicts", lambda f: f.tests["each-family"]["cases"].pop()),
    "the failed test is gone": ("catalogue", lambda f: drop(f, "leaks")),
    "a passed test is gone": ("catalogue", lambda f: drop(f, "holds")),
    "a test is there twice": ("catalogue", lambda f: f.report["tests"].append(dict(f.tests["holds"]))),
    "a test is made up": ("catalogue", lambda f: f.report["tests"].append({**f.tests["holds"], "id": "KEP-2/x"})),
    "a test is renamed": ("catalogue", lambda f: f.tests["leaks"].update(id="KEP-2/seeps")),
    "MUST is SHOULD": ("catalogue", lambda f: f.tests["leaks"].update(level="SHOULD")),
    "another profile": ("catalogue", lambda f: f.tests["leaks"].update(profile="CLUSTER")),
    "a feature is gone": ("catalogue", lambda f: f.tests["each-family"].update(features=["Routing"])),
    "the reading is another": ("catalogue", lambda f: f.tests["holds"].update({"as": "released"})),
    "more have passed": ("statistics", lambda f: f.profile["core"]["statistics"].update(Passed=99)),
    "none failed": ("statistics", lambda f: f.profile["core"]["statistics"].update(Failed=0)),
    "the level succeeded": ("statistics", lambda f: f.profile["core"].update(result="success")),
    "the list of failed tests is empty": ("schema", lambda f: f.profile["core"].update(failedTests=[])),
    "the summary says otherwise": ("statistics", lambda f: f.profile.update(summary="All tests succeeded.")),
    "it rests on more": ("statistics", lambda f: f.profile["core"].update(restsOn="MUST: 9 of 9 met")),
    "a profile is gone": ("statistics", lambda f: f.report["profiles"].clear()),
    "a profile is added": ("statistics", lambda f: f.report["profiles"].append({**f.profile, "name": "DNS"})),
    "a feature more is supported": ("statistics", lambda f: f.profile["extended"]["supportedFeatures"].append("Other")),
    "a feature is declared": ("identity", lambda f: declare(f, "Other", as_=True)),
    "a feature that was tried is not declared": ("features", lambda f: declare(f, "PreferSameNode", as_=False)),
    "a core feature is not declared": ("features", lambda f: declare(f, "Routing", as_=False)),
    "a feature is made up": ("features", lambda f: f.report["features"].append({"name": "Z", "declared": True})),
    "another version of the implementation": ("identity", lambda f: f.report["implementation"].update(version="2.0")),
    "another implementation": ("identity", lambda f: f.report["implementation"].update(project="q")),
    "no organization": ("identity", lambda f: f.report["implementation"].update(organization="")),
    "another mode": ("identity", lambda f: f.report.update(mode="iptables")),
    "another Kubernetes": ("identity", lambda f: f.report.update(kubernetesVersion="v1.38")),
    "another kernel": ("identity", lambda f: f.report["environment"].update(kernel="7.0")),
    "another seed": ("identity", lambda f: f.report["run"].update(seed=1)),
    "other arguments": ("identity", lambda f: f.report["run"].update(arguments=["trafficdist", "run"])),
    "another suite": ("suite", lambda f: f.report["suite"].update(version="1.0.dev1")),
    "a suite of another release": ("suite", lambda f: f.report["suite"].update(harness="9.9.9")),
    "a changed checkout": ("suite", lambda f: f.report["suite"].update(revision=f"{'a' * 40}-dirty")),
    "another catalogue": ("suite", lambda f: f.report["suite"].update(catalogueDigest=f"sha256:{'0' * 64}")),
    "repeated tests": ("run", lambda f: f.report["run"].update(retries=1)),
    "requirements were left out": ("run", lambda f: f.report["run"].update(deselected={"named by --skip-tests": 1})),
    "not certifiable": ("run", lambda f: f.report["run"].update(certifiable=False, certifiableReasons=["a mutant"])),
    "certifiable, and why not": ("schema", lambda f: f.report["run"].update(certifiableReasons=["a mutant"])),
    "interrupted": ("run", lambda f: f.report["run"].update(interrupted=True)),
    "longer times": ("run", lambda f: f.report["run"].update(timeScale=9.0)),
    "made today": ("times", lambda f: f.report.update(date="2031-01-01T00:00:00Z")),
    "begun later": ("times", lambda f: f.report["run"].update(startTime="2031-01-01T00:00:00Z")),
    "quicker": ("times", lambda f: f.report["run"].update(durationSeconds=900.0)),
    "no history listed": ("artifacts", lambda f: f.report["artifacts"].clear()),
    "a file that is not there": ("artifacts", lambda f: artifact(f, path="evidence/none.txt")),
    "a file listed twice": ("artifacts", artifact),
    "a file outside": ("artifacts", lambda f: artifact(f, path="../../etc/passwd")),
    "an absolute path": ("artifacts", lambda f: artifact(f, path="/etc/passwd")),
    "another digest of the history": ("artifacts", lambda f: f.report["artifacts"][-1].update(sha256="0" * 64)),
    "a field that no report has": ("schema", lambda f: f.report.update(certified=True)),
    "no tests": ("schema", lambda f: f.report.pop("tests")),
    "an unknown verdict": ("schema", lambda f: f.tests["leaks"].update(verdict="waived")),
    "a quicker test": ("tests", lambda f: f.tests["holds"].update(durationSeconds=0.001)),
    "a slower case": ("tests", lambda f: f.tests["each-family"]["cases"][1].update(durationSeconds=60.0)),
    "other counts": ("tests", lambda f: f.tests["leaks"]["observed"]["1. TCP"]["a1"].update(a1=8)),
    "other counts of a case": (
        "tests",
        lambda f: f.tests["each-family"]["cases"][0]["observed"]["1. TCP"]["a1"].update(a1=1),
    ),
    "no counts": ("tests", lambda f: f.tests["leaks"].pop("observed")),
    "a window more": ("tests", lambda f: f.tests["holds"]["observed"].update({"3. TCP": {"a1": {"a1": 99}}})),
    "another measurement": ("tests", lambda f: f.tests["holds"]["observed"]["measured 1. gap"].update(seconds=0.0)),
    "taken up at once": ("tests", lambda f: f.tests["holds"]["observed"]["convergence"].update(slowestSeconds=0.1)),
    "a stricter plan": ("tests", lambda f: f.tests["holds"]["check"].update(samples=100_000)),
    "no plan": ("tests", lambda f: f.tests["holds"].pop("check")),
    "another command": ("tests", lambda f: f.tests["leaks"].update(rerun="true")),
    "no evidence": ("tests", lambda f: f.tests["leaks"]["evidence"].clear()),
    "evidence of a test that is not listed": (
        "tests",
        lambda f: f.report["artifacts"].remove(next(each for each in f.report["artifacts"] if "leaks" in each["path"])),
    ),
    "a mutant in the arguments": ("run", lambda f: f.report["run"]["arguments"].append("--mutant=drops-all")),
    "a choice in the arguments": ("run", lambda f: f.report["run"]["arguments"].extend(["--td-run-test", "KEP-2/*"])),
    "another name in the arguments": ("identity", lambda f: f.report["run"]["arguments"].append("--td-project=q")),
    "no day": ("schema", lambda f: f.report.update(date="2026-99-99T00:00:00Z")),
    "an endless duration": ("schema", lambda f: f.tests["leaks"].update(durationSeconds=float("inf"))),
}


@pytest.mark.parametrize(("check", "forge"), REPORTS.values(), ids=list(REPORTS))
def test_a_changed_report_is_refused(forged: Forged, check: str, forge: Callable[[Forged], Any]) -> None:
    forge(forged)
    assert check in forged.checks()


def changed(kind: str, **values: Any) -> Callable[[Forged], None]:
    return lambda f: f.rewrite(lambda record: {**record, **values} if record["kind"] == kind else record)


def without(kind: str) -> Callable[[Forged], None]:
    return lambda f: f.rewrite(lambda record: None if record["kind"] == kind else record)


def cleaned(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "observed" and record["tally"].get("timedOut"):
        return {**record, "tally": {"pods": {"a1": 8}}, "offending": []}
    return record


def told(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
        return {**record, "verdict": "passed", "message": ""}
    return record


def renamed(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "run":
        record["facts"]["report"]["implementation"]["version"] = "2.0"
    return record


def edit(old: bytes, new: bytes) -> Callable[[Forged], None]:
    return lambda f: setattr(f, "history", b"".join(f.lines).replace(old, new, 1))


def cut(number: int) -> Callable[[Forged], None]:
    return lambda f: setattr(f, "history", b"".join(f.lines[:number]))


def leaks(**values: Any) -> Callable[[Forged], None]:
    """The verdict on the failed test is changed, with new digests."""
    return lambda f: f.rewrite(
        lambda each: {**each, **values} if each["kind"] == "verdict" and each["test"] == "KEP-2/leaks" else each
    )


def passed_at_the_end(record: dict[str, Any]) -> Any:
    if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
        last = {**record, "phase": "", "verdict": "passed", "message": "", "cause": "passed, and nothing was judged"}
        return [record, last]
    return record


def other_counts(record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] == "verdict" and record["test"] == "KEP-2/holds":
        record["observed"]["1. TCP"]["a1"]["a1"] = 99
    return record


def unseen(f: Forged) -> None:
    """As whoever is careful would: nothing of the failed test is left but that it has passed, also in the report."""

    def change(record: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal mine
        if record["kind"] == "window":
            mine = failing == (record.get("worker"), record["window"])
        if mine and record["kind"] in ("window", "observed", "judged"):
            return None
        if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
            cause = "passed, and nothing was judged"
            return {**record, "verdict": "passed", "message": "", "cause": cause, "observed": {}, "check": {}}
        return record

    mine = False
    wrong = next(each for each in f.records("observed") if each["tally"].get("timedOut"))
    failing = (wrong.get("worker"), wrong["window"])
    f.rewrite(change)
    move_to_passed(f)
    for key in ("observed", "check"):
        del f.tests["leaks"][key]


def not_claimed(f: Forged) -> None:
    """The failed test is one that is not claimed, in the history and in the report."""

    def change(record: dict[str, Any]) -> dict[str, Any] | None:
        if record["kind"] == "verdict" and record["test"] == "KEP-2/leaks":
            return None
        if record["kind"] == "not-run" and record["reason"] == "unsupported":
            record["tests"]["KEP-2"]["leaks"] = []
        return record

    f.rewrite(change)
    f.tests["leaks"].update(verdict="skipped", reason="unsupported", message="Other")


HISTORIES: dict[str, tuple[str, Callable[[Forged], Any]]] = {
    "a line is changed": ("history", edit(b'"timedOut":1', b'"timedOut":0')),
    "the end is cut off": ("history", cut(-1)),
    "nothing is left": ("history", cut(0)),
    "it is no history": ("history", lambda f: setattr(f, "history", b"{}\n")),
    "another format": ("history", changed("begin", version=99)),
    "what was seen is changed, with new digests": ("verdicts", lambda f: f.rewrite(cleaned)),
    "the verdict is changed, with new digests": ("verdicts", lambda f: f.rewrite(told)),
    "the verdicts are gone": ("catalogue", without("verdict")),
    "what was not run is gone": ("catalogue", without("not-run")),
    "a worker's beginning is gone": (
        "history",
        lambda f: f.rewrite(lambda record: None if record["kind"] == "begin" and record.get("worker") else record),
    ),
    "the run is another's": ("identity", lambda f: f.rewrite(renamed)),
    "it says nothing of the run": ("history", changed("run", facts={"interrupted": False, "distrust": []})),
    "it was interrupted": ("run", changed("run", facts={"interrupted": True, "distrust": []})),
    "it did not trust itself": ("run", changed("run", facts={"interrupted": False, "distrust": ["the clock"]})),
    "failed is passed, and nothing was judged": (
        "history",
        leaks(verdict="passed", message="", cause="passed, and nothing was judged"),
    ),
    "failed is passed in spite of it": (
        "verdicts",
        leaks(verdict="passed", message="", cause="passed, though a judgement had not"),
    ),
    "failed is skipped": (
        "history",
        leaks(verdict="skipped", reason="unavailable", message="no tool", cause="not tried: skipped"),
    ),
    "failed is passed at the end": ("history", lambda f: f.rewrite(passed_at_the_end)),
    "what was seen of the failed test is gone": ("verdicts", unseen),
    "the failed test was not claimed": ("features", not_claimed),
    "other counts than those of the windows": ("history", lambda f: f.rewrite(other_counts)),
    "other times, with new digests": ("tests", changed("took", seconds=0.5)),
    "no times": ("tests", without("took")),
    "times before the beginning": ("history", changed("took", seconds=-1.0)),
    "workers that are numbers": ("history", changed("begin", merged=[1, 2])),
    "times of another day": ("times", changed("end", wall=1.0)),
}


@pytest.mark.parametrize(("check", "forge"), HISTORIES.values(), ids=list(HISTORIES))
def test_a_changed_history_is_refused(forged: Forged, check: str, forge: Callable[[Forged], Any]) -> None:
    forge(forged)
    if not forged.history:
        (forged.folder / "run.jsonl").write_bytes(b"")
        forged.lines = []
    assert check in forged.checks()


def test_other_evidence_is_refused(forged: Forged) -> None:
    evidence = next(path for path in (forged.folder / "evidence").rglob("*") if path.is_file())
    evidence.write_text("nothing to see here")
    assert forged.checks() == ["artifacts"]


def test_a_link_instead_of_a_file_is_refused(forged: Forged) -> None:
    junit = forged.folder / "junit.xml"
    junit.rename(forged.folder / "elsewhere.xml")
    junit.symlink_to("elsewhere.xml")
    assert forged.checks() == ["artifacts"]


def test_a_key_that_is_there_twice_is_refused(forged: Forged) -> None:
    path = forged.folder / "report.yaml"
    path.write_text(path.read_text() + "mode: ipvs\n")
    (refused,) = verify(forged.folder, forged.requirements)
    assert refused.check == "schema"
    assert "key 'mode' stands there twice" in refused.text


def test_every_check_has_its_forgery() -> None:
    assert {check for check, _ in (*REPORTS.values(), *HISTORIES.values())} == {"schema", *CHECKS}
    assert len(REPORTS) + len(HISTORIES) >= 40


def test_the_command_shows_each_reason_and_ends_with_13(forged: Forged) -> None:
    forged.report["run"]["retries"] = 1
    forged.checks()
    result = CliRunner().invoke(main, ["verify", str(forged.folder)])
    assert result.exit_code == 13
    assert "run: 1 tests were repeated" in result.output
    assert "suite: its catalogue is not that of the installed suite" in result.output


def test_the_command_refuses_what_is_no_folder_of_a_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert result.exit_code == 4
    assert "there is no run.jsonl in it" in result.output


ODD: tuple[Any, ...] = (
    None, True, -1, 10**30, 1e308, 0.5, "", "\0", "../x", "\x1b[31m", "x" * 10_000, [], {}, ["x"], {"x": 1}, [[[]]],
    [None],
)  # fmt: skip


def places(value: Any, *before: Any) -> Iterator[tuple[Any, ...]]:
    """Every place in a value, of lists the first and the last."""
    yield before
    lists = dict(enumerate(value)) if isinstance(value, list) else {}
    inside = (value if isinstance(value, dict) else lists).items()
    for number, (key, each) in enumerate(inside):
        if isinstance(value, dict) or number in (0, len(inside) - 1):
            yield from places(each, *before, key)


def put(value: Any, place: Sequence[Any], odd: Any) -> Any:
    for key in place[:-1]:
        value = value[key]
    before, value[place[-1]] = value[place[-1]], odd
    return before


def crashes(*command: str) -> bool:
    """Whether a command ends as only a defect of ours does."""
    return CliRunner().invoke(main, command).exit_code not in (0, 1, 4, 5, 10, 11, 12, 13)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_value_of_a_report_that_is_another_is_refused(forged: Forged) -> None:
    """And none breaks a command."""
    path, faults = str(forged.folder / "report.yaml"), []
    for place in [each for each in places(forged.report) if each]:
        for odd in ODD:
            before = put(forged.report, place, odd)
            try:
                if repr(before) != repr(odd) and not forged.checks():
                    faults.append(f"accepted: {place} is {str(odd)[:50]!r}")
            except Exception as error:  # noqa: BLE001  that is what is looked for
                faults.append(f"{error!r}: {place} is {str(odd)[:50]!r}")
            if crashes("changes", path, path) or crashes("judge", str(forged.folder)):
                faults.append(f"a command broke: {place} is {str(odd)[:50]!r}")
            put(forged.report, place, before)
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_value_of_a_history_breaks_a_command(forged: Forged) -> None:
    """Each kind of record with each odd value in each place, and right digests."""
    lines, faults = list(forged.lines), []
    seen: set[tuple[str, tuple[Any, ...]]] = set()
    for number, record in enumerate(map(orjson.loads, lines)):
        for place in [each for each in places(record) if each and each != ("digest",)]:
            if (record["kind"], place) in seen:
                continue
            seen.add((record["kind"], place))
            for odd in (None, -1, 2**63, 1e308, 1e-300, "", [], {"x": 1}):
                changed = orjson.loads(lines[number])
                put(changed, place, odd)
                forged.lines = [*lines[:number], orjson.dumps(changed) + b"\n", *lines[number + 1 :]]
                begun = time.process_time()
                try:
                    forged.rewrite(lambda each: each)
                    forged.checks()
                except Exception as error:  # noqa: BLE001  that is what is looked for
                    faults.append(f"{error!r}: {record['kind']} {place} is {str(odd)[:50]!r}")
                if crashes("judge", str(forged.folder / "run.jsonl")):
                    faults.append(f"judge broke: {record['kind']} {place} is {str(odd)[:50]!r}")
                if time.process_time() - begun > 2:
                    faults.append(f"slow: {record['kind']} {place} is {str(odd)[:50]!r}")
    assert not faults, "\n".join(faults)
