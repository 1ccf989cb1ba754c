"""The results of requirements: plain values that go from workers to the controller and into every report.

A requirement may have several cases (a parametrized test), and has one verdict: the worst of its cases. It has passed
only when every case has.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.judging.exit_codes import Situation
from harness.judging.outcome import Outcome, outcome
from harness.judging.verdict import SkipReason, Verdict
from harness.model.requirements import Feature, Level, Profile, Requirement

_SEVERITY = [Verdict.PASSED, Verdict.SKIPPED, Verdict.INCONCLUSIVE, Verdict.FAILED]

# The title of the longest wait of a scenario until something was as expected.
CONVERGENCE = "convergence"

# Reasons that leave a claim unproven: the run is partial.
UNPROVEN = frozenset({SkipReason.INELIGIBLE, SkipReason.UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a requirement, as planned: pytest's node id, and its parameters ("" for a plain test)."""

    nodeid: str
    requirement: str
    parameters: str = ""
    reason: str = ""
    thing: str = ""

    @property
    def to_run(self) -> bool:
        """True if it is planned to run."""
        return not self.reason

    @property
    def begins(self) -> bool:
        """True if pytest begins it, to run or to skip it."""
        return self.reason != SkipReason.DESELECTED


@dataclass(slots=True)
class CaseResult:
    """The result of one case. `message` is one line, `explanation` the whole text.

    `never_began` is true of what was planned to run and did not, since the run ended before it.
    `rerun` is the command that runs it again, if it did not pass; the explanation ends with it.
    """

    nodeid: str
    requirement: str
    parameters: str = ""
    verdict: str = Verdict.PASSED
    reason: str = ""
    message: str = ""
    explanation: str = ""
    rerun: str = ""
    never_began: bool = False
    start: float = 0.0  # seconds since 1970; 0 for a case that never began
    duration: float = 0.0
    worker: str = ""
    check: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    needs: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)  # in Allure's form, as are attachments
    attachments: list[dict[str, Any]] = field(default_factory=list)

    @property
    def left_out(self) -> bool:
        """True if the options of the run left it out, so that it never began."""
        return self.reason == SkipReason.DESELECTED and not self.never_began

    def worsen(self, other: CaseResult) -> None:
        """Add a later phase, or a repetition, of the same case: the worse verdict stays, the first of equals."""
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


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one requirement."""

    requirement: Requirement
    cases: tuple[CaseResult, ...]

    @property
    def worst(self) -> CaseResult:
        """The case that decides: the first of those with the worst verdict."""
        return max(self.cases, key=lambda case: severity(case.verdict))

    @property
    def verdict(self) -> Verdict:
        """The verdict of the requirement."""
        return Verdict(self.worst.verdict)

    @property
    def outcome(self) -> Outcome:
        """What its verdict means for the run."""
        return self.outcome_of(self.worst)

    def outcome_of(self, case: CaseResult) -> Outcome:
        """Return what the verdict of one of its cases means."""
        return outcome(case.verdict, self.requirement.level, never_began=case.never_began)

    def message_of(self, case: CaseResult) -> str:
        """Return the message of one of its cases, after what keeps it from being a pass or a failure, if anything."""
        match self.outcome_of(case):
            case Outcome.NOT_RUN:
                return f"{case.reason}: {case.message}"
            case Outcome.WARNING | Outcome.NOTE as kind:
                return f"{kind}, {self.requirement.level} {case.verdict}: {case.message}"
        return case.message

    @property
    def reason(self) -> str:
        """The reason why it did not run, or ""."""
        return self.worst.reason

    @property
    def duration(self) -> float:
        """The seconds of all cases together."""
        return sum(case.duration for case in self.cases)

    @property
    def parametrized(self) -> bool:
        """True if any of its cases has parameters."""
        return any(case.parameters for case in self.cases)

    @property
    def left_out(self) -> bool:
        """True if the options of the run left out all of it: such requirements are counted, not listed."""
        return all(case.left_out for case in self.cases)

    @property
    def selected(self) -> bool:
        """True if it was claimed and selected, so that it counts."""
        return self.reason not in (SkipReason.UNSUPPORTED, SkipReason.DESELECTED)


def severity(verdict: str) -> int:
    """Return the rank of a verdict, the higher the worse: passed, skipped, inconclusive, failed."""
    return _SEVERITY.index(Verdict(verdict))


def count(results: Sequence[Result]) -> dict[Outcome, int]:
    """Return the number of requirements with each outcome; all are present."""
    return {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}


def situation(results: Sequence[Result], *, strict: bool) -> Situation:
    """Return what results alone say for the exit code. With `strict`, a SHOULD decides as a MUST does."""
    levels = {Level.MUST, Level.SHOULD} if strict else {Level.MUST}
    deciding = [each for each in results if each.requirement.level in levels or each.worst.never_began]
    verdicts = {each.verdict for each in deciding}
    return Situation(
        failed=Verdict.FAILED in verdicts,
        inconclusive=Verdict.INCONCLUSIVE in verdicts,
        not_run=any(each.verdict == Verdict.SKIPPED and each.reason in UNPROVEN for each in deciding),
        selected=any(each.selected for each in results),
    )


_WORDS = {Verdict.FAILED: "not met", Verdict.INCONCLUSIVE: "could not be told", Verdict.SKIPPED: "not run"}


def rests_on(results: Sequence[Result]) -> str:
    """Return the number of claimed requirements that are met, by level: "MUST: 4 of 4 met; SHOULD: 2 of 3 met, …"."""
    parts = []
    for level in Level:
        numbers = Counter(
            each.verdict
            for each in results
            if each.requirement.level == level and each.reason != SkipReason.UNSUPPORTED
        )
        others = [f"{numbers[verdict]} {words}" for verdict, words in _WORDS.items() if numbers[verdict]]
        if numbers:
            parts.append(", ".join([f"{level}: {numbers[Verdict.PASSED]} of {numbers.total()} met", *others]))
    return "; ".join(parts)


def left_out(results: Sequence[Result]) -> dict[str, int]:
    """Return the number of requirements that options left out, by the message that names the option."""
    return dict(Counter(result.worst.message for result in results if result.left_out))


def requirement_to_json(requirement: Requirement) -> dict[str, Any]:
    """Return a requirement as plain values, in the catalogue's own shape."""
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
    }


def requirement_from_json(values: Mapping[str, Any]) -> Requirement:
    """Read a requirement that `requirement_to_json` wrote; it kills nobody unless `kills` was added."""
    features = tuple(
        Feature(each["name"], Profile(each["profile"]), each["core"], each["description"])
        for each in values["features"]
    )
    return Requirement(
        values["id"],
        values["sentence"],
        Level(values["level"]),
        features,
        values["source"],
        values["as"],
        values["insteadOf"],
        tuple(values.get("kills", ())),
        unless=values["unless"],
        since=values.get("since", ""),
    )


def slowest_convergence(results: Sequence[Result]) -> tuple[float, str] | None:
    """How many seconds a scenario waited at most until something was as expected, and which; `None` if none did."""
    waited = [
        (float(case.observed[CONVERGENCE]["slowestSeconds"]), result.requirement.id)
        for result in results
        for case in result.cases
        if CONVERGENCE in case.observed
    ]
    return max(waited, default=None)
