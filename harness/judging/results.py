"""The results of requirements. The verdict on a requirement is the worst verdict of its cases (parametrized tests)."""

import dataclasses
import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.judging.differences import FailurePattern
from harness.judging.exit_codes import ExitConditions
from harness.judging.verdict import SkipReason, Verdict
from harness.model.requirements import Level, Requirement


class Outcome(enum.StrEnum):
    """The effect of a verdict on the run: a MUST that is not met is a failure, a SHOULD a warning, and a MAY a note."""

    MET = "met"
    FAILURE = "failure"  # a MUST is not met
    INCONCLUSIVE = "inconclusive"  # a MUST is inconclusive, or the run ended before a requirement of any level began
    WARNING = "warning"  # a SHOULD is not met or inconclusive
    NOTE = "note"  # a MAY is not met or inconclusive
    NOT_RUN = "not run"


DECISIVE = frozenset({Outcome.FAILURE, Outcome.INCONCLUSIVE})  # outcomes that prevent a run from passing


def outcome(verdict: str, level: str, *, never_began: bool = False) -> Outcome:
    """Return the outcome for a verdict. A requirement that never began is inconclusive at any level."""
    match Verdict(verdict), Level(level):
        case Verdict.PASSED, _:
            return Outcome.MET
        case Verdict.SKIPPED, _:
            return Outcome.NOT_RUN
        case Verdict.INCONCLUSIVE, each if never_began or each is Level.MUST:
            return Outcome.INCONCLUSIVE
        case _, Level.MUST:
            return Outcome.FAILURE
        case _, each:
            return Outcome.WARNING if each is Level.SHOULD else Outcome.NOTE


_SEVERITY = [Verdict.PASSED, Verdict.SKIPPED, Verdict.INCONCLUSIVE, Verdict.FAILED]

CONVERGENCE = "convergence"  # key of `CaseResult.observed`: a scenario's longest wait for an expected state

UNPROVEN = frozenset({SkipReason.INELIGIBLE, SkipReason.UNAVAILABLE})
"""Reasons for a skip that leave a claimed feature unproven, which makes the run partial."""


@dataclass(frozen=True, slots=True)
class Case:
    """One planned test. `reason` is the reason to skip the test ("" if it runs), and `thing` gives details."""

    nodeid: str
    requirement: str
    parameters: str = ""
    reason: str = ""
    thing: str = ""

    @property
    def to_run(self) -> bool:
        return not self.reason

    @property
    def begins(self) -> bool:
        """True if pytest starts the test, even if only to skip it."""
        return self.reason != SkipReason.DESELECTED


@dataclass(slots=True)
class CaseResult:
    """The result of one case. `message` is a single line, and `explanation` is the complete message. `never_began` is
    true if the case was planned but had not started when the run ended. If the case did not pass, `rerun` is the
    command that runs it again, and the explanation ends with this command.
    """

    nodeid: str
    requirement: str
    parameters: str = ""
    verdict: str = Verdict.PASSED
    message: str = ""
    never_began: bool = False
    start: float = 0.0  # seconds since 1970; 0 for a case that never began
    duration: float = 0.0
    worker: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)  # steps and attachments have Allure's format
    attachments: list[dict[str, Any]] = field(default_factory=list)
    fails_with: str = ""  # the fewest random values with which the case still fails, or "" if unknown
    differences: tuple[FailurePattern, ...] = ()  # how a failed case differs from its expectation; empty if unknown
    # The record of a verdict contains these fields under the same names, without empty fields.
    reason: str = ""
    explanation: str = ""
    rerun: str = ""
    check: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    needs: dict[str, Any] = field(default_factory=dict)
    draw: str = ""  # the random values, as `parse_draw` reads them

    def recorded(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in ("parameters", *_RECORDED)}
        return {name: value for name, value in values.items() if value}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **others: Any) -> "CaseResult":
        """Read the result in a verdict record. Raises `KeyError`, `TypeError` or `ValueError` for an invalid record."""
        made = cls("", record["test"], record.get("parameters", ""), Verdict(record["verdict"]), record["message"])
        for name in _RECORDED:
            empty = getattr(made, name)
            setattr(made, name, type(empty)(record.get(name, empty)))
        made.evidence = [str(path) for path in made.evidence]
        if CONVERGENCE in made.observed:
            float(made.observed[CONVERGENCE]["slowestSeconds"])
        return dataclasses.replace(made, **others)

    @property
    def left_out(self) -> bool:
        """True if options excluded this case. Reports count such cases, but do not list them."""
        return self.reason == SkipReason.DESELECTED and not self.never_began

    def worsen(self, other: "CaseResult") -> None:
        """Merge a later phase or a repetition of the same case. The worse verdict wins."""
        if severity(other.verdict) > severity(self.verdict):
            self.verdict, self.reason, self.message = other.verdict, other.reason, other.message
            self.explanation, self.rerun = other.explanation, other.rerun
        self.start = self.start or other.start
        self.duration += other.duration
        self.check = other.check or self.check
        self.observed = other.observed or self.observed
        self.needs = other.needs or self.needs
        self.evidence = sorted({*self.evidence, *other.evidence})
        self.steps = other.steps or self.steps
        self.attachments = other.attachments or self.attachments


_RECORDED = [each.name for each in dataclasses.fields(CaseResult)]
_RECORDED = _RECORDED[_RECORDED.index("reason") :]


@dataclass(frozen=True, slots=True)
class Result:
    requirement: Requirement
    cases: tuple[CaseResult, ...]

    @property
    def worst(self) -> CaseResult:
        return max(self.cases, key=lambda case: severity(case.verdict))

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.worst.verdict)

    @property
    def outcome(self) -> Outcome:
        return self.outcome_of(self.worst)

    def outcome_of(self, case: CaseResult) -> Outcome:
        return outcome(case.verdict, self.requirement.level, never_began=case.never_began)

    def message_of(self, case: CaseResult) -> str:
        """Return the message of a case. A prefix states why the case did not run, or marks a warning or a note."""
        kind = self.outcome_of(case)
        if kind is Outcome.NOT_RUN:
            return f"{case.reason}: {case.message}"
        if kind is Outcome.MET or kind in DECISIVE:
            return case.message
        return f"{kind}, {self.requirement.level} {case.verdict}: {case.message}"

    @property
    def reason(self) -> str:
        return self.worst.reason

    @property
    def duration(self) -> float:
        return sum(case.duration for case in self.cases)

    @property
    def parametrized(self) -> bool:
        return any(case.parameters for case in self.cases)

    @property
    def left_out(self) -> bool:
        return all(case.left_out for case in self.cases)

    @property
    def selected(self) -> bool:
        return self.reason not in (SkipReason.UNSUPPORTED, SkipReason.DESELECTED)


def severity(verdict: str) -> int:
    """Return the rank of a verdict. From best to worst: passed, skipped, inconclusive, failed."""
    return _SEVERITY.index(Verdict(verdict))


def count(results: Sequence[Result]) -> dict[Outcome, int]:
    return {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}


def situation(results: Sequence[Result], *, strict: bool) -> ExitConditions:
    """Return those inputs to the exit code that follow from the results. If `strict`, SHOULD counts like MUST."""
    levels = {Level.MUST, Level.SHOULD} if strict else {Level.MUST}
    deciding = [each for each in results if each.requirement.level in levels or each.worst.never_began]
    verdicts = {each.verdict for each in deciding}
    return ExitConditions(
        failed=Verdict.FAILED in verdicts,
        inconclusive=Verdict.INCONCLUSIVE in verdicts,
        not_run=any(each.verdict == Verdict.SKIPPED and each.reason in UNPROVEN for each in deciding),
        selected=any(each.selected for each in results),
    )


_WORDS = {Verdict.FAILED: "not met", Verdict.INCONCLUSIVE: "could not be told", Verdict.SKIPPED: "not run"}


def rests_on(results: Sequence[Result]) -> str:
    """Return how many claimed requirements of each level are met: "MUST: 4 of 4 met; SHOULD: 2 of 3 met, …"."""
    parts = []
    for level in Level:
        claimed = (each for each in results if each.reason != SkipReason.UNSUPPORTED)
        numbers = Counter(each.verdict for each in claimed if each.requirement.level == level)
        others = [f"{numbers[verdict]} {words}" for verdict, words in _WORDS.items() if numbers[verdict]]
        if numbers:
            parts.append(", ".join([f"{level}: {numbers[Verdict.PASSED]} of {numbers.total()} met", *others]))
    return "; ".join(parts)


def left_out(results: Sequence[Result]) -> dict[str, int]:
    """Return the number of requirements that options excluded, keyed by the reason (a message)."""
    return dict(Counter(result.worst.message for result in results if result.left_out))


def requirement_to_json(requirement: Requirement) -> dict[str, Any]:
    return {
        "id": requirement.id,
        "sentence": requirement.sentence,
        "level": str(requirement.level),
        "profile": str(requirement.profile),
        "features": [dataclasses.asdict(feature) for feature in requirement.features],
        "source": requirement.source,
        "as": requirement.as_,
        "insteadOf": requirement.instead_of,
        "unless": requirement.unless,
        "since": requirement.since,
        "mustIf": dataclasses.asdict(requirement.must_if) if requirement.must_if else "",
    }


def slowest_convergence(results: Sequence[Result]) -> tuple[float, str] | None:
    """Return the longest wait of all scenarios (seconds) and its requirement's id, or None if no scenario waited."""
    cases = [(each.requirement.id, case.observed) for each in results for case in each.cases]
    waited = ((float(seen[CONVERGENCE]["slowestSeconds"]), name) for name, seen in cases if CONVERGENCE in seen)
    return max(waited, default=None)
