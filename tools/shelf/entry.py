"""The index entry of one report: implementation, requirements met by feature, unmet requirements, and state."""

import contextlib
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from harness.errors import UsageError
from harness.judging import history
from harness.judging.results import CaseResult, Outcome, Result, outcome
from harness.judging.verdict import Verdict
from harness.model import verdict_basis
from harness.model.requirements import Level, Requirement
from harness.report import published_report
from harness.report.causes import counted as number_of
from harness.report.causes import grouped
from harness.report.comparison import MARKS, by_feature, counted, judged_by, mode_of
from harness.report.conformance import read_report
from harness.report.rejudging import derive, history_in
from harness.report.verification import is_released, refusals

NO_HISTORY, UNRELEASED = "no history", "made by an unreleased version"
LASTING_REFUSALS = (NO_HISTORY, UNRELEASED)
"""Values of `ShelfEntry.refused` that can change only if the report's files change."""

HOLDS = datetime.timedelta(days=365)
"""The period for which a report is valid. A version does not change, but kernels, clusters and requirements do."""

_LONGEST = 400  # maximum length of a message


@dataclass(frozen=True, slots=True)
class UnmetRequirement:
    """A requirement that is not met or whose verdict is inconclusive.

    `evidence` is a link to its excerpts, such as "evidence.txt#L12", or "". `sentence` is "" if there is no history.
    """

    id: str
    level: str
    mark: str
    message: str
    evidence: str
    profile: str
    features: Sequence[str]
    sentence: str


@dataclass(frozen=True, slots=True)
class CommonCause:
    """A common cause of several unmet requirements (see `harness.report.causes`). `requirements` are their ids."""

    headline: str
    level: str
    requirements: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShelfEntry:
    """A report on the shelf. `place` is its folder relative to the shelf. `digest` is computed from all its files.

    `refused` is the first reason why the report is not verified, or "" if it is verified. `uncertifiable` contains the
    report's reasons why the run is not certifiable. The cells in `features` and `met` are like those of `trafficdist
    compare`: "✓ 12", "✗ 11/12". `unclaimed` are the features that the implementation does not claim.
    """

    place: str
    digest: str
    organization: str
    project: str
    version: str
    mode: str
    url: str
    kubernetes: str
    date: str
    suite: str
    catalogue: str
    refused: str
    uncertifiable: str
    met: str
    features: Mapping[str, Mapping[str, str]]
    unmet: Sequence[UnmetRequirement]
    unclaimed: Sequence[str]
    causes: Sequence[CommonCause]
    judges: str

    @property
    def title(self) -> str:
        """Return the implementation: project, version, mode, and "(decisions)" if only decisions were judged."""
        by = verdict_basis.mark(self.judges)
        return " ".join(filter(None, (self.project or self.organization, self.version, self.mode, by)))

    @property
    def day(self) -> datetime.date:
        return datetime.datetime.fromisoformat(self.date).date()

    @property
    def holds_until(self) -> datetime.date:
        return self.day + HOLDS

    def causes_in(self, profile: str = "") -> list[tuple[int, CommonCause]]:
        ids = {each.id for each in self.unmet if profile in ("", each.profile)}
        return [(number, each) for number, each in enumerate(self.causes, 1) if ids & set(each.requirements)]

    def counts(self, profile: str = "") -> str:
        """Return "5 causes, 9 requirements", or "" if all requirements of a profile are met or inconclusive."""
        ids = {each.id for each in self.unmet if profile in ("", each.profile)}
        found = self.causes_in(profile)
        failed = ids & {name for _, each in found for name in each.requirements}
        level = "" if any(each.level == Level.MUST for _, each in found) else "SHOULD "
        return f"{number_of(len(found), 'cause')}, {number_of(len(failed), f'{level}requirement')}" if found else ""

    @property
    def by_cause(self) -> list[tuple[CommonCause, list[UnmetRequirement]]]:
        unmet = {each.id: each for each in self.unmet}
        return [(each, [unmet[name] for name in each.requirements if name in unmet]) for each in self.causes]

    @property
    def without_cause(self) -> list[UnmetRequirement]:
        """The requirements whose verdict is inconclusive."""
        known = {name for each in self.causes for name in each.requirements}
        return [each for each in self.unmet if each.id not in known]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return an entry from the decoded JSON. Raises `TypeError` or `KeyError` for invalid values."""
        causes = [CommonCause(**each) for each in value["causes"]]
        return cls(**{**value, "unmet": [UnmetRequirement(**each) for each in value["unmet"]], "causes": causes})


def entry_of(
    folder: Path, place: str, digest: str, catalogue: Callable[[], Sequence[Requirement]], *, refused: str | None = None
) -> ShelfEntry:
    """Return the entry of the report in a folder, verified unless `refused` is given. Raises `UsageError`."""
    report = read_report(str(folder))
    if refused is None:
        refused = _verified(folder, report, catalogue)
    return replace(described(report, folder), place=place, digest=digest, refused=refused)


def _verified(folder: Path, report: Mapping[str, Any], catalogue: Callable[[], Sequence[Requirement]]) -> str:
    if history_in(folder) is None:
        return NO_HISTORY
    if not is_released(report):
        return UNRELEASED
    return next(map(str, refusals(folder, report, catalogue())), "")


def described(report: Mapping[str, Any], folder: Path) -> ShelfEntry:
    """Return an entry without `place`, `digest` and `refused`. The folder has the report's history and evidence."""
    implementation = report["implementation"]
    return ShelfEntry(
        place="",
        digest="",
        organization=implementation["organization"],
        project=implementation["project"],
        version=implementation["version"],
        mode=mode_of(report),
        url=implementation["url"],
        kubernetes=report["kubernetesVersion"],
        date=report["date"],
        suite=f"{report['suite']['name']} {report['suite']['version']}",
        catalogue=report["suite"]["catalogueDigest"],
        refused="not verified yet",
        uncertifiable="; ".join(report["run"].get("certifiableReasons", ())),
        met=counted(report["tests"]),
        features=by_feature(report),
        unmet=_unmet(report, folder),
        unclaimed=[each["name"] for each in report["features"] if not each["declared"]],
        causes=[
            CommonCause(each["headline"], each["level"], each["requirements"])
            for each in (report["causes"] if "causes" in report else derived_causes(report, folder))
        ],
        judges=judged_by(report),
    )


def _unmet(report: Mapping[str, Any], folder: Path) -> list[UnmetRequirement]:
    order, sentences = list(MARKS), _sentences(folder)
    lines = published_report.first_lines(folder, [each["id"] for each in report["tests"]])
    found = [(outcome(each["verdict"], each["level"]), each) for each in report["tests"]]
    bad = [pair for pair in found if pair[0] not in (Outcome.MET, Outcome.NOT_RUN)]
    return [
        UnmetRequirement(
            each["id"],
            each["level"],
            MARKS[of],
            each["message"][:_LONGEST],
            f"{published_report.EVIDENCE}#L{lines[each['id']]}" if each["id"] in lines else "",
            each["profile"],
            each["features"],
            sentences.get(each["id"], ""),
        )
        for of, each in sorted(bad, key=lambda pair: (order.index(pair[0]), pair[1]["id"]))
    ]


def derived_causes(report: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Derive the causes of a report that lists none, from its history or (without a valid history) its messages."""
    failed = [each for each in report["tests"] if each["verdict"] == Verdict.FAILED]
    place = history_in(folder)
    known: Mapping[str, tuple[CaseResult, ...]] = {}
    if failed and place:
        with contextlib.suppress(UsageError):
            known = {each.requirement.id: each.cases for each in derive(place)[1].derived()}
    results = [
        Result(
            Requirement(each["id"], "", Level(each["level"]), (), ""),
            known.get(each["id"]) or (CaseResult("", each["id"], verdict=each["verdict"], message=each["message"]),),
        )
        for each in failed
    ]
    return [each.to_json() for each in grouped(results)]


def _sentences(folder: Path) -> dict[str, str]:
    place = history_in(folder)
    try:
        records = history.read(place).records if place else ()
    except UsageError:
        return {}
    return {str(each["test"]): str(each["sentence"]) for each in records if each.get("sentence")}


@dataclass(frozen=True, slots=True)
class ReportState:
    """A report's state. `holds`: the report is verified, certifiable, not expired, and of the newest catalogue."""

    holds: bool
    texts: Sequence[str]


def states(entries: Sequence[ShelfEntry], today: datetime.date) -> dict[str, ReportState]:
    """Return the state of each report, by `place`. The catalogue of the latest verified report is the current one."""
    trusted = [each for each in entries if not each.refused] or entries
    newest = max(trusted, key=lambda each: each.date).catalogue if trusted else ""
    found = {}
    for each in entries:
        older, expired = each.catalogue != newest, today > each.holds_until
        texts = [f"not verified: {each.refused}" if each.refused else "verified"]
        texts += [f"not certifiable: {each.uncertifiable}"] if each.uncertifiable else []
        texts += ["older catalogue"] if older else []
        texts += [f"expired {each.holds_until}"] if expired else []
        texts += [f"valid until {each.holds_until}"] if not (expired or each.refused) else []
        found[each.place] = ReportState(not (each.refused or each.uncertifiable or older or expired), texts)
    return found
