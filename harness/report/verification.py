"""Verify that everything in a report follows from the history of the run and the catalogue.

The checks cannot detect a report and a history that were rewritten together with all digests.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.judging import history_format
from harness.judging.case_events import ComparedValues, WindowRecord
from harness.judging.conclusion import VerdictCause
from harness.judging.history import RecordedHistory
from harness.judging.judge import JudgedRun, Key
from harness.judging.results import Result, left_out
from harness.judging.statistics import DEFAULT_RATES, LAXEST, Rates
from harness.judging.verdict import AnyOf, Expectation, Expected, SkipReason, Verdict, plans
from harness.model.files import files_in, links_in, sha256_of, sha256_of_folder
from harness.model.garbage_collection import gc_paused
from harness.model.requirements import Requirement
from harness.report import attestation, causes, conformance, junit, published_report
from harness.report.environment import catalogue_digest, suite_version
from harness.report.page import page, rewrite
from harness.report.reactions import by_case, listed
from harness.report.rejudging import HISTORIES, derive, differences, history_in
from harness.report.rerun import value_of
from harness.run.folder import MARK, PAGE
from harness.run.plan import Plan
from harness.run.sharding import other_shard
from harness.scenario.measuring import PROMISED
from harness.scenario.rehearsal import ExpectedByCase, ExpectedRecords, RunFacts, fits

NAMES = ("organization", "project", "version")
CLOCK_SECONDS = 600.0
"""The tolerance in seconds between times in report and history. On a busy machine, a run takes minutes to begin."""

RELEASE = "release"
"""The name of the check that the suite is released. A valid report of an unreleased version fails only this check."""

DERIVED = "derived"
"""The name of the check of junit.xml and the page. It runs only if all checks but `release` and `suite` passed."""

_RELEASED = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why a report is refused: the name of the check and a sentence."""

    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.text}"


@dataclass(frozen=True, slots=True)
class CheckedReport:
    folder: Path
    report: Mapping[str, Any]
    recorded: RecordedHistory
    judged: JudgedRun
    catalogue: Mapping[str, Requirement]
    results: Sequence[Result]
    """The results derived from the history, for the requirements of the catalogue."""
    causes: Sequence[causes.CommonCause]
    foreseen: Mapping[Key, ExpectedRecords]


def attested(folder: Path, repository: str = "") -> tuple[list[Refusal], str]:
    """Return why the attestation of a report is refused, and a sentence about it or "". Raises `UsageError`."""
    repository = repository or attestation.repository_of(conformance.read_report(str(folder)))
    held, text = attestation.check(folder, repository)
    return [Refusal("attestation", text)] if held is False else [], text


def verify(folder: Path, catalogue: Sequence[Requirement], foreseen: ExpectedByCase = lambda _: {}) -> list[Refusal]:
    """Return why a report is refused, or []. `foreseen` returns the known expectations of the suite's cases."""
    try:
        report = conformance.read_report(str(folder / "report.yaml"))
    except UsageError as error:
        return [Refusal("schema", str(error))]
    return refusals(folder, report, catalogue, foreseen)


@gc_paused()
def refusals(
    folder: Path, report: Mapping[str, Any], catalogue: Sequence[Requirement], foreseen: ExpectedByCase = lambda _: {}
) -> list[Refusal]:
    """Return the reasons why a report is refused. `report` was read from `folder`, and matches its schema."""
    try:
        evidence = checked(folder, report, catalogue, foreseen)
    except UsageError as error:
        return [Refusal("history", str(error))]
    found = [Refusal(name, text) for name, check in CHECKS.items() for text in check(evidence)]
    if any(each.check not in (RELEASE, "suite") for each in found):
        return found
    return found + [Refusal(DERIVED, text) for text in _derived(evidence)]


def checked(
    folder: Path, report: Mapping[str, Any], catalogue: Sequence[Requirement], foreseen: ExpectedByCase = lambda _: {}
) -> CheckedReport:
    """Derive the results of a run from its history again, for the checks. Raises `UsageError` if this is impossible."""
    history = history_in(folder)
    if history is None:
        raise UsageError(f"{folder} has no {HISTORIES[0]}, so the results cannot be derived")
    recorded, judged = derive(history)
    known = conformance.with_levels(catalogue, report)
    derived = [each for each in judged.derived() if each.requirement.id in known]
    results = [Result(known[each.requirement.id], each.cases) for each in derived]
    undeclared = frozenset(each["name"] for each in report["features"] if not each["declared"])
    facts = RunFacts(undeclared, tuple(report["environment"].get("ipFamilies", ())))
    return CheckedReport(folder, report, recorded, judged, known, results, causes.of(results), foreseen(facts))


def _derived(run: CheckedReport) -> Iterator[str]:
    read = rewrite.evidence_in(run.folder)
    made: Mapping[str, Callable[[], bytes]] = {
        "junit.xml": lambda: junit.as_xml(run.results, run.report["run"], run.causes),
        PAGE: lambda: page.as_html(
            run.report, run.results, run.judged, by_case(run.judged), found=run.causes, read=read
        ).encode(),
    }
    for path, make in made.items():
        if (run.folder / path).exists() and (run.folder / path).read_bytes() != make():
            yield f"{path} differs from the one that follows from the history"


def _history(run: CheckedReport) -> Iterator[str]:
    if not run.recorded.complete:
        yield "the history of a worker is incomplete"
    begun = [each["worker"] for each in run.recorded.records if each["kind"] == "begin" and each.get("worker")]
    named = run.recorded.records[0].get("merged", [])
    if sorted(begun) != sorted(named):
        yield f"it names workers {', '.join(named)}, but has records of {', '.join(begun)}"
    yield from run.judged.contradictions
    if not run.judged.report:
        yield "it lacks the facts about the run, because an older release wrote it"


def _artifacts(run: CheckedReport) -> Iterator[str]:
    """Yield the differences between the folder and the report's list of files. A symbolic link is never followed."""
    listed = {each["path"]: each["sha256"] for each in run.report["artifacts"]}
    if run.report.get("seals") != conformance.SEALS:
        yield "it does not list all files of its folder, because an older release wrote it: verify it with that release"
        return
    if listed.pop(HISTORIES[0], None) != run.recorded.sha256:
        yield f"{HISTORIES[0]} is not listed, or was changed after the run: its SHA-256 is {run.recorded.sha256}"
    root = run.folder.resolve()
    for link in links_in(root):
        yield f"{link.relative_to(root)} is a symbolic link: a run leaves none"
    for path, digest in listed.items():
        is_folder = path.endswith("/")
        place, seal = root / path, sha256_of_folder if is_folder else sha256_of
        if not (place.is_dir() if is_folder else place.is_file()) or place.resolve() != place:
            yield f"{path} is missing"
        elif seal(place) != digest:
            yield f"{path} was changed after the run"
    folders, history = tuple(path for path in listed if path.endswith("/")), history_in(root)
    for path in sorted({each.relative_to(root).as_posix() for each in files_in(root)} - listed.keys() - _NOT_LISTED):
        if not path.startswith(folders) and root / path != history:
            yield f"{path} is not a file of the run: remove it"


_NOT_LISTED = {"report.yaml", MARK, attestation.FILE}


def _suite(run: CheckedReport) -> Iterator[str]:
    suite = run.report["suite"]
    version = suite["harness"] if "harness" in suite else suite["version"]
    if version != suite_version():
        yield f"trafficdist {version} made it, but this is version {suite_version()}: verify it with {version}"
    if suite.get("revision", "").endswith("-dirty"):
        yield "the suite was a checkout with uncommitted changes"
    if suite["catalogueDigest"] != catalogue_digest(run.catalogue.values()):
        yield "its catalogue is not that of the installed suite: install the release that made the run"


def is_released(report: Mapping[str, Any]) -> bool:
    return bool(_RELEASED.fullmatch(report["suite"]["version"]))


def _release(run: CheckedReport) -> Iterator[str]:
    if not is_released(run.report):
        yield f"{run.report['suite']['version']} is not a released version of a suite"


def _catalogue(run: CheckedReport) -> Iterator[str]:
    tested = {test["id"] for test in run.report["tests"]}
    for name in sorted(tested - run.catalogue.keys()):
        yield f"the suite has no requirement {name}"
    asked = {each.requirement.id for each in run.results if not each.left_out}
    for name in sorted(asked - tested):
        yield f"{name} is in the history, but not in the report"
    for name in sorted(run.catalogue.keys() - {each.requirement.id for each in run.results}):
        yield f"{name} is a requirement of the suite, but not in the history"
    for test in run.report["tests"]:
        if test["id"] in run.catalogue:
            yield from _described(test, run.catalogue[test["id"]])


def _described(test: Mapping[str, Any], requirement: Requirement) -> Iterator[str]:
    true = {
        "as": requirement.as_,
        "level": str(requirement.level),
        "profile": requirement.profile.upper(),
        "features": sorted(each.name for each in requirement.features),
    }
    for key, value in true.items():
        if test.get(key, "") != value:
            yield f"{test['id']} has {key} {test.get(key, '')}, but the catalogue has {value}"


def _verdicts(run: CheckedReport) -> Iterator[str]:
    yield from differences(run.judged, run.report)
    for name, why in run.judged.causes().items():
        if why in _NOT_DERIVED:
            yield f"{name} has {why}: no observation proves this"


_NOT_DERIVED = (VerdictCause.NOTHING_JUDGED, VerdictCause.OVERRULED)
"""Causes of passed verdicts without observations that prove them."""


def _limits(run: CheckedReport) -> Iterator[str]:
    """Yield windows with laxer error rates than their test uses, and time limits that the report does not declare."""
    declared, rates = run.report["run"].get("convergesWithin", 0), defaultdict[str, set[Rates]](set)
    for (requirement, _), each in run.foreseen.items():
        rates[requirement] |= each.rates | {DEFAULT_RATES}
    for number, record in enumerate(run.recorded.records, start=1):
        if record["kind"] == "window":
            stated = history_format.read_rates(record["rates"])
            if all(stated.laxer(each) for each in rates.get(record["test"], {LAXEST})):
                yield f"line {number} has laxer error rates than any window of {record['test']}"
        if record["kind"] == "comparison":
            for limit in set(_PROMISE.findall(record["what"])) - {f"{declared:g}"}:
                yield f"line {number} has a declared limit of {limit} s, but the report has {declared:g} s"


_PROMISE = re.compile(r"\bthe declared (\S+) s\b")


def _expectations(run: CheckedReport) -> Iterator[str]:
    """Yield passed cases whose records lack known expectations of the test, or have them in another order."""
    for record in run.recorded.records if run.foreseen else ():
        for text, value in _ALWAYS.items() if record["kind"] == "comparison" else ():
            if re.match(text, record["what"]) and record["expected"] != value:
                yield f"{record['test']}: {value!r} is not expected of {record['what']}"
    promises = bool(run.report["run"].get("convergesWithin"))
    for key, foreseen in run.foreseen.items() if not any(_suite(run)) else ():
        case, story = run.judged.cases.get(key), run.judged.stories.get(key)
        if case is None or story is None or case.derived.verdict != Verdict.PASSED:
            continue
        name = f"{key[0]}[{key[1]}]" if key[1] else key[0]
        compared = [each for each in foreseen.compared if promises or PROMISED not in each[0]]
        checked: Sequence[tuple[str, Sequence[Any], Sequence[Any], Callable[[Any, Any], bool]]] = (
            ("window", foreseen.windows, story.windows, _is_window),
            ("comparison", compared, story.compared, _is_comparison),
        )
        for kind, expected, recorded, same in checked:
            left = iter(recorded)
            lost = (number for number, each in enumerate(expected, 1) if not any(same(each, found) for found in left))
            if number := next(lost, 0):
                yield f"{name}: the history lacks {kind} {number} of its test, or it expects something else"
        for what, values in foreseen.left.items() if foreseen.complete else ():
            if any(fits(what, each.what) and each.expected not in values for each in story.compared):
                yield f"{name}: another value than the test expects is expected of{what}"


_ALWAYS: Mapping[str, Any] = {
    f".*{PROMISED}": True,
    "wrong (answer by|first answer)": "none",
    "connection of ": "Reached",
    "outcomes that are wrong before, during and after a change": {},
}
"""Patterns for subjects of comparisons, and the expected values that the harness itself sets for these subjects."""


def _is_window(foreseen: tuple[Expectation, Rates], recorded: WindowRecord) -> bool:
    expected, rates = foreseen
    planned = plans(recorded.expectation, rates)
    return (
        {who: each.detects() for who, each in recorded.plans.items()}
        == {who: each.detects() for who, each in planned.items()}
        and expected.keys() == recorded.expectation.keys()
        and all(_is_expected(each, recorded.expectation[client]) for client, each in expected.items())
    )


def _is_expected(foreseen: Expected, recorded: Expected) -> bool:
    """Return whether the recorded expectation is the foreseen one. For `AnyOf`, a subset of its pods is accepted."""
    if isinstance(foreseen, AnyOf) and isinstance(recorded, AbstractSet):
        return bool(recorded) and recorded <= foreseen.pods
    return recorded == foreseen


def _is_comparison(foreseen: tuple[str, Any], recorded: ComparedValues) -> bool:
    text, value = foreseen
    right = recorded.expected in value if isinstance(value, frozenset) else recorded.expected == value
    return right and fits(text, recorded.what)


def _tests(run: CheckedReport) -> Iterator[str]:
    """Yield differences between the tests in the report and in the history. A published report may omit values."""
    made = {each.requirement.id: conformance.test_values(each) for each in run.results if not each.left_out}
    for test in run.report["tests"]:
        known = made.get(test["id"], test)
        shorter = published_report.test_values(known)
        for key in sorted((test.keys() | known.keys()) - _COMPARED_ELSEWHERE):
            if test.get(key) not in (known.get(key), shorter.get(key)):
                yield f"{test['id']}: {key}: {_first_difference(test.get(key), known.get(key))}"
    listed = {each["path"] for each in run.report["artifacts"]}
    for test in run.report["tests"]:
        for path in sorted(set(test["evidence"]) - listed):
            yield f"{test['id']} has evidence {path}, which is not an artifact"


_COMPARED_ELSEWHERE = {"id", "as", "level", "profile", "features", "verdict", "reason", "message"}
"""Keys that the checks `catalogue` and `verdicts` compare."""


def _causes(run: CheckedReport) -> Iterator[str]:
    yield from _difference("causes", run.report.get("causes", []), [each.to_json() for each in run.causes])
    yield from (f"{each} is a value of older releases" for each in ("likelyCauses", "controls") if each in run.report)


def _difference(what: str, stated: Any, derived: Any) -> Iterator[str]:
    if stated != derived:
        yield f"{what}: {_first_difference(stated, derived)}"


def _first_difference(stated: Any, derived: Any) -> str:
    if isinstance(stated, dict) and isinstance(derived, dict):
        key = next(each for each in sorted(stated.keys() | derived.keys()) if stated.get(each) != derived.get(each))
        return f"{key}: {_first_difference(stated.get(key), derived.get(key))}"
    if isinstance(stated, list) and isinstance(derived, list) and len(stated) == len(derived):
        return _first_difference(*next(pair for pair in zip(stated, derived, strict=True) if pair[0] != pair[1]))
    return f"the report has {stated!r}, but {derived!r} follows from the history"


def _features(run: CheckedReport) -> Iterator[str]:
    names = [each["name"] for each in run.report["features"]]
    known = {each.name: each for each in Plan(dict(run.catalogue)).features()}
    if names != list(known):
        yield f"features differ from the suite: {', '.join(sorted(set(names) ^ set(known)) or ['their order'])}"
    undeclared = {each["name"] for each in run.report["features"] if not each["declared"]}
    for result in run.results:
        lacking = sorted(undeclared & {each.name for each in result.requirement.features})
        if lacking and not result.left_out and result.reason != SkipReason.UNSUPPORTED:
            yield f"{result.requirement.id} ran, but its feature {', '.join(lacking)} is not claimed"
        exempt = result.requirement.as_ or result.requirement.unless or result.requirement.since
        if result.reason == SkipReason.UNSUPPORTED and not (lacking or exempt):
            yield f"{result.requirement.id} is unsupported, but all its features are claimed"
    core = sorted(each for each in undeclared & known.keys() if known[each].core)
    if core:
        yield f"core features are not claimed: {', '.join(core)}"


def _run(run: CheckedReport) -> Iterator[str]:
    said = run.report["run"]
    if said["retries"]:
        yield f"{said['retries']} tests were repeated"
    yield from _difference("deselected", said.get("deselected", {}), left_out(run.results))
    for message, number in left_out(run.results).items():
        if other_shard(message):
            yield f"{number} requirements are {message}, which the report lacks"
    if any(run.judged.distrust):
        yield f"the suite did not trust itself: {'; '.join(run.judged.distrust)}"
    if run.judged.interrupted or said.get("interrupted"):
        yield "the run was interrupted"
    if not said["certifiable"]:
        yield f"the run cannot be certified: {'; '.join(said['certifiableReasons'])}"
    else:
        given = {name: value_of(name, said["arguments"]) for name in _NEVER_CERTIFIABLE}
        narrowed = [f"--{name} {value}" for name, value in given.items() if value]
        if "quick" in said or {"--quick", "--td-quick"} & set(said["arguments"]):
            narrowed.append("--quick")
        yield from (f"it was run with {each}, but is marked as certifiable" for each in narrowed)
    if said["timeScale"] != 1:
        yield f"its times were scaled by {said['timeScale']}"


_NEVER_CERTIFIABLE = ("mutant", "run-test", "skip-tests")


def _times(run: CheckedReport) -> Iterator[str]:
    first, last = run.recorded.records[0], run.recorded.records[-1]
    begun = datetime.fromisoformat(run.report["run"]["startTime"]).timestamp()
    ended = datetime.fromisoformat(run.report["date"]).timestamp()
    seconds = run.report["run"]["durationSeconds"]
    if abs(begun - first["wall"]) > CLOCK_SECONDS:
        yield "its start time differs from the history"
    if abs(ended - last["wall"]) > CLOCK_SECONDS:
        yield "its date differs from the end of the history"
    if abs(seconds - (last["mono"] - first["mono"])) > CLOCK_SECONDS:
        yield f"it took {seconds} s, but the history covers {last['mono'] - first['mono']:.0f} s"


def _identity(run: CheckedReport) -> Iterator[str]:
    for name in NAMES:
        if not run.report["implementation"][name]:
            yield f"the implementation has no {name}"
    for name in (*NAMES, "url"):
        given = value_of(name, run.report["run"]["arguments"])
        if given and run.report["implementation"][name] != given:
            yield f"the implementation has {name} {run.report['implementation'][name]}, but the option was {given}"
    for name, value in run.judged.report.items():
        yield from _difference(name, run.report.get(name), value)


CHECKS: Mapping[str, Callable[[CheckedReport], Iterator[str]]] = {
    "history": _history,
    "artifacts": _artifacts,
    "suite": _suite,
    RELEASE: _release,
    "catalogue": _catalogue,
    "limits": _limits,
    "expectations": _expectations,
    "verdicts": _verdicts,
    "tests": _tests,
    "transitions": lambda run: _difference(
        "steady traffic", run.report.get("transitions", []), listed(by_case(run.judged))
    ),
    "statistics": lambda run: _difference(
        "profiles", run.report["profiles"], conformance.profiles(run.results, run.report["features"])
    ),
    "causes": _causes,
    "features": _features,
    "run": _run,
    "times": _times,
    "identity": _identity,
}
"""The checks by name, in the order in which refusals are shown. The check `schema` runs before all of them."""
