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


def count(results: Sequence[Result]) -> dict[Verdict, int]:
    """Return the number of requirements with each verdict; all four are present."""
    return {verdict: sum(result.verdict == verdict for result in results) for verdict in Verdict}


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
    """Read a requirement that `requirement_to_json` wrote."""
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
