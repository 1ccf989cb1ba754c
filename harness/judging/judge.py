"""Derives the verdict and message of each requirement from the history, during the run or at any later time. Verdicts
that do not follow from observations (after a skip, an exception, or a failure of a scenario's own code) are read from
the history together with their cause.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.judging import comparison, verdict
from harness.judging import history_format as as_json
from harness.judging.case_events import SETTLED, CaseEvents, ComparedValues, WindowRecord
from harness.judging.conclusion import VerdictCause, cause, conclude
from harness.judging.differences import FailurePattern, differences
from harness.judging.results import CaseResult, Result, severity
from harness.judging.timeline import Change, Timed, gaps, longest_gap
from harness.judging.verdict import Judgement, Tally, Verdict
from harness.model.privacy import private
from harness.model.requirements import Feature, Level, Profile, Requirement
from harness.variation.axes import parse_draw

Key = tuple[str, str]  # identifies a case by the id of the requirement and the parameters of the case

_Tests = dict[str, dict[str, list[str]]]
"""Maps a document to slugs, and a slug to the parameters of its cases. A test without parameters has an empty list."""


@dataclass(slots=True)
class RejudgedCase:
    """A case with its recorded result, the result derived from the history, and the cause of the recorded verdict."""

    stated: CaseResult
    derived: CaseResult
    cause: VerdictCause
    number: int  # position among the planned cases of the requirement

    def take_in(self, other: "RejudgedCase") -> None:
        """Merge a later phase or a repetition of the case. The worse verdict wins, as during the run."""
        if severity(other.stated.verdict) > severity(self.stated.verdict):
            self.cause = other.cause
        self.stated.worsen(other.stated)
        self.derived.worsen(other.derived)


@dataclass(slots=True)
class JudgedRun:
    cases: dict[Key, RejudgedCase] = field(default_factory=dict)
    requirements: dict[str, Requirement] = field(default_factory=dict)
    distrust: tuple[str, ...] = ()
    interrupted: bool = False
    report: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the whole run for the report. Empty if an older version of trafficdist wrote the history."""
    seconds: dict[Key, float] = field(default_factory=dict)  # the duration of each case that has ended
    starts: dict[Key, float] = field(default_factory=dict)  # the start time of each case (Unix time)
    fails_with: dict[Key, str] = field(default_factory=dict)  # the fewest random values with which a case still fails
    allure: dict[Key, tuple[list[Any], list[Any]]] = field(default_factory=dict)
    """Steps and attachments of each case, in Allure's form."""
    stories: dict[Key, CaseEvents] = field(default_factory=dict)  # the events of each case that has ended
    differences: dict[Key, tuple[FailurePattern, ...]] = field(default_factory=dict)  # of failed cases
    contradictions: list[str] = field(default_factory=list)
    """Contradictions between valid records. The history of a run has none unless somebody has changed it."""

    def stated(self) -> list[Result]:
        return self._results({key: each.stated for key, each in self.cases.items()})

    def derived(self) -> list[Result]:
        return self._results({key: each.derived for key, each in self.cases.items()})

    def causes(self) -> dict[str, VerdictCause]:
        """Return the cause of the verdict on each requirement. It is OBSERVED only if all cases have this cause."""
        found: dict[str, VerdictCause] = {}
        for (requirement, _), each in self.cases.items():
            if found.get(requirement, VerdictCause.OBSERVED) is VerdictCause.OBSERVED:
                found[requirement] = each.cause
        return found

    def case(self, key: Key) -> CaseResult:
        return self.completed(key, self.cases[key].derived)

    def _results(self, cases: Mapping[Key, CaseResult]) -> list[Result]:
        of: dict[str, list[CaseResult]] = {}
        for key in sorted(cases, key=lambda key: self.cases[key].number):
            of.setdefault(key[0], []).append(self.completed(key, cases[key]))
        return [Result(self.requirements[each], tuple(of[each])) for each in sorted(of)]

    def completed(self, key: Key, case: CaseResult) -> CaseResult:
        steps, attachments = self.allure.get(key, ([], []))
        return replace(
            case,
            start=self.starts.get(key, 0.0),
            duration=self.seconds.get(key, 0.0),
            steps=steps,
            attachments=attachments,
            fails_with=self.fails_with.get(key, ""),
            differences=self.differences.get(key, ()),
        )


def judge(records: Sequence[Mapping[str, Any]], where: Path) -> JudgedRun:
    """Judge the records of a history. Raises `UsageError` with the line number of the first invalid record."""
    judge = Judge()
    for number, record in enumerate(records, start=1):
        judge.read(record, f"{where}, line {number}")
    return judge.judged


_LONGEST = 1e6  # the maximum valid duration of a test in seconds

_STRINGS = {
    "cause", "client", "explanation", "message", "parameters", "phase", "reason", "relation", "rerun", "sentence",
    "source", "test", "unknown", "verdict", "what", "worker",
}  # fmt: skip


@dataclass(slots=True)
class _Worker:
    windows: dict[int, WindowRecord] = field(default_factory=dict)  # by number
    judgements: list[Judgement] = field(default_factory=list)  # since the last verdict
    story: CaseEvents = field(default_factory=CaseEvents)  # of the current test


class Judge:
    """Judges a history record by record. `judged` contains the results of all records that were read so far."""

    def __init__(self) -> None:
        self.judged = JudgedRun()
        self._workers: dict[str, _Worker] = {}

    def read(self, record: Mapping[str, Any], where: str) -> None:
        """Process the next record, of any worker. Raises `UsageError` with `where` for an invalid record."""
        try:
            self._read(record)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(f"{where}: not a record that a run writes ({error!r})") from error

    def _read(self, record: Mapping[str, Any]) -> None:
        for name, value in record.items():
            if not isinstance(value, str) and name in _STRINGS:
                raise TypeError(f"{name} is not a string")
        worker = self._workers.setdefault(record.get("worker", ""), _Worker())
        match record["kind"]:
            case "verdict":
                self._add_verdict(record, worker)
                worker.judgements.clear()
            case "took":
                key, seconds = (record["test"], record["parameters"]), float(record["seconds"])
                if not 0 <= seconds < _LONGEST:
                    raise ValueError(f"invalid duration: {seconds} s")
                self.judged.seconds[key] = self.judged.seconds.get(key, 0.0) + seconds
                self.judged.starts.setdefault(key, float(record.get("start", 0.0)))
                if key in self.judged.cases:
                    worker.story.give_titles(self.judged.cases[key].stated.observed)
                    self.judged.stories[key] = worker.story
                worker.story = CaseEvents()
            case "shrunk":
                self.judged.fails_with[record["test"], record["parameters"]] = str(parse_draw(record["draw"]))
            case "steps":
                self.judged.allure[record["test"], record["parameters"]] = record["steps"], record["attachments"]
            case "not-run":
                for key, result in _never_began(record):
                    self._note(key[0], record)
                    number = len(self.judged.cases)  # the cases of a requirement are listed in the order of the plan
                    why = VerdictCause(record["cause"])
                    self.judged.cases[key] = RejudgedCase(result, replace(result), why, number)
            case "run":
                self.judged.distrust = tuple(map(str, record["facts"].get("distrust", ())))
                self.judged.interrupted = bool(record["facts"].get("interrupted"))
                self.judged.report = dict(record["facts"].get("report", {}))
            case _:
                self._add_event(record, worker)

    def _add_event(self, record: Mapping[str, Any], worker: _Worker) -> None:
        match record["kind"]:
            case "window":
                window = _window(record)
                worker.windows[record["window"]] = window
                worker.story.windows.append(window)
            case "observed":
                self._observed(record, worker.windows[record["window"]])
            case "judged":
                window = worker.windows[record["window"]]
                window.judgement = verdict.judge(window.expectation, window.tallies, window.plans)
                worker.judgements.append(window.judgement)
            case "comparison":
                how = {name: record[name] for name in ("relation", "unknown") if name in record}
                values = record["expected"], record["observed"]
                judgement = comparison.judge(record["what"], *values, **how)
                worker.judgements.append(judgement)
                worker.story.compared.append(ComparedValues(record["what"], judgement.verdict, *values))
            case "change":
                worker.story.changes.append(Change(record["mono"], str(record["what"]), dict(record["facts"])))
            case "scenario":
                worker.story.begun = float(record["begun"])
            case "convergence" if record["what"] == SETTLED:
                worker.story.took_up.append(record["mono"])

    def _observed(self, record: Mapping[str, Any], window: WindowRecord) -> None:
        """Add a client's counts. Record a contradiction if these differ from the requests of its steady traffic."""
        counted = as_json.read_tally(record["tally"])
        window.tallies.setdefault(record["client"], Tally()).add(counted)
        if "flow" in record:
            samples = as_json.read_flow(record["flow"])
            window.flows[record["client"]] = samples
            asked = Tally.of(each for _, each in samples)
            asked.gap_ms = counted.gap_ms
            if asked != counted or not _has_gap(samples, counted.gap_ms):
                of = f"{record['client']} in window {record['window']}"
                self.judged.contradictions.append(f"the counts of {of} differ from those of its requests")

    def _add_verdict(self, record: Mapping[str, Any], worker: _Worker) -> None:
        why = VerdictCause(record["cause"])
        not_run = why is VerdictCause.NOT_RUN
        stated = CaseResult.from_record(record, never_began=not_run, worker=record.get("worker", ""))
        derived = replace(stated)
        self._doubt(record, why, worker)
        if why is VerdictCause.OBSERVED:
            concluded = _concluded(stated, worker.judgements, record["phase"])
            derived.verdict, derived.message = concluded.verdict, concluded.message
            if (derived.verdict, derived.message) != (stated.verdict, stated.message):
                derived.explanation = f"{concluded.message}\n\n{concluded.grid}".strip()
        self._note(record["test"], record)
        key, new = (record["test"], stated.parameters), RejudgedCase(stated, derived, why, int(record["number"]))
        if record["phase"] and derived.verdict == Verdict.FAILED:
            worker.story.give_titles(stated.observed)
            self.judged.differences[key] = tuple(differences(worker.story))
        if record["phase"] and key in self.judged.cases:
            self.judged.cases[key].take_in(new)
        else:  # the first phase, or the final verdict of the run
            self.judged.cases[key] = new

    def _doubt(self, record: Mapping[str, Any], why: VerdictCause, worker: _Worker) -> None:
        """Record all contradictions between this verdict record (its cause, counts and verdict) and earlier records."""
        name = f"{record['test']}[{record['parameters']}]" if record.get("parameters") else record["test"]
        found, verdict, judgements = self.judged.contradictions, Verdict(record["verdict"]), worker.judgements
        tallies = [window.tallies for window in worker.story.windows]
        left = [{client: as_json.counts(tally) for client, tally in each.items()} for each in tallies]
        for title, counts in record.get("observed", {}).items():
            if counts in left:
                left.remove(counts)
            elif record["phase"] and re.match(r"\d+\. ", title):
                found.append(f"{name} is recorded with other counts than its windows have: {title}")
        if not record["phase"]:
            before = self.judged.cases.get((record["test"], record.get("parameters", "")))
            if before is not None and severity(verdict) < severity(before.derived.verdict):
                found.append(f"{name} is {verdict} at the end of the run, but was {before.derived.verdict} before")
        elif verdict is Verdict.SKIPPED and any(each.verdict is not Verdict.PASSED for each in judgements):
            found.append(f"{name} is recorded as skipped, but a judgement before had not passed")
        elif verdict in (Verdict.PASSED, Verdict.SKIPPED) and why is not (implied := cause(judgements, verdict, None)):
            found.append(f"{name} is recorded as {why}, but its judgements imply: {implied}")

    def _note(self, requirement_id: str, record: Mapping[str, Any]) -> None:
        feature = Feature("", Profile(record["profile"]), bool(record["core"]), "")
        sentence, source = record.get("sentence", ""), record.get("source", "")
        if sentence or requirement_id not in self.judged.requirements:
            noted = Requirement(requirement_id, sentence, Level(record["level"]), (feature,), source)
            self.judged.requirements[requirement_id] = noted


_ROUNDED_MS = 2.0  # the tolerance in ms for the length of a gap, because the times of requests are rounded


def _has_gap(samples: Sequence[Timed], recorded: float) -> bool:
    """Return whether the longest gap took `recorded` ms (in old histories, even without a lost request)."""
    longest_of_all = max((after - before for before, after in gaps(samples)), default=0.0) * 1000
    return any(abs(each - recorded) <= _ROUNDED_MS for each in (longest_gap(samples), longest_of_all))


def _window(record: Mapping[str, Any]) -> WindowRecord:
    expectation = {client: as_json.read_expected(each) for client, each in record["expectation"].items()}
    service, kind = record.get("of", ("", ""))
    plans = verdict.plans(expectation, as_json.read_rates(record["rates"]))
    return WindowRecord(record["mono"], expectation, plans, (str(service), str(kind)))


def _concluded(stated: CaseResult, judgements: Sequence[Judgement], phase: str) -> Judgement:
    concluded = conclude(judgements, phase)
    if concluded is None:
        raise ValueError("the cause of a verdict is `observed`, but the history has no observation")
    if concluded.verdict is Verdict.PASSED and stated.verdict != Verdict.PASSED:
        why = f"the judgement that ended this scenario passes now, and the rest is unknown: {stated.message}"
        return Judgement(Verdict.INCONCLUSIVE, why)
    grid = next((each.grid for each in judgements if each.verdict is not Verdict.PASSED), "")
    return replace(concluded, grid=grid)


def _never_began(record: Mapping[str, Any]) -> Iterator[tuple[Key, CaseResult]]:
    common: dict[str, Any] = {key: record.get(key, "") for key in ("reason", "message", "explanation")}
    common["never_began"] = record["cause"] == VerdictCause.NOT_RUN
    for document, slugs in record["tests"].items():
        for slug, parameters in slugs.items():
            for each in parameters or [""]:
                key = (f"{document}/{slug}", str(each))
                yield key, CaseResult("", *key, verdict=Verdict(record["verdict"]), **common)


# Records that complete a history


def facts(requirement: Requirement, *, story: bool) -> dict[str, Any]:
    """Return the fields of a verdict record that describe a requirement. With `story`, add its sentence and source."""
    found: dict[str, Any] = {"level": requirement.level, "profile": requirement.profile, "core": requirement.core}
    return {**found, "sentence": requirement.sentence, "source": requirement.source} if story else found


def closing(results: Sequence[Result], judged: JudgedRun, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records about these results that a history lacks, and a last record with facts about the run."""
    groups: dict[tuple[Any, ...], _Tests] = {}
    records: list[dict[str, Any]] = []
    began = {requirement_id for requirement_id, _ in judged.cases}
    for result in results:
        requirement = result.requirement
        for number, case in enumerate(result.cases):
            known = judged.cases.get((requirement.id, case.parameters))
            if requirement.id not in began:
                group = groups.setdefault((*_stated(case), *facts(requirement, story=False).values(), _cause(case)), {})
                parameters = group.setdefault(requirement.document, {}).setdefault(requirement.slug, [])
                parameters += [case.parameters] if result.parametrized else []
            elif known is None or _stated(known.stated) != _stated(case):
                last: dict[str, Any] = {"kind": "verdict", "test": requirement.id, "phase": "", "verdict": case.verdict}
                last |= {"message": case.message, "cause": _cause(case), "number": number}
                records.append(last | described(requirement, case))
    names = ("verdict", "reason", "message", "level", "profile", "core", "cause")
    for key, tests in groups.items():
        records.append({"kind": "not-run", **dict(zip(names, key, strict=True)), "tests": tests})
    return [*records, {"kind": "run", "facts": run}]


def _stated(case: CaseResult) -> tuple[str, str, str]:
    return str(case.verdict), str(case.reason), private(case.message)


def _cause(case: CaseResult) -> VerdictCause:
    return VerdictCause.NOT_RUN if case.never_began else cause((), Verdict(case.verdict), None)


def described(requirement: Requirement, case: CaseResult) -> dict[str, Any]:
    story = case.verdict in (Verdict.FAILED, Verdict.INCONCLUSIVE)
    return {**facts(requirement, story=story), **case.recorded()}
