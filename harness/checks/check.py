"""The types of checks and findings. A run requires only some checks to succeed. `trafficdist doctor` shows them all."""

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from harness.api.client import RefusedError
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.guest import errors
from harness.judging.exit_codes import ExitCode
from harness.model.needs import Needs
from harness.model.requirements import Profile, Requirement

S_contra = TypeVar("S_contra", contravariant=True)  # a Check[object] fits any subject


class CheckState(enum.StrEnum):
    """The state of a checked property. `UNKNOWN` is not a failure: the check was not possible, or not requested."""

    OK = "ok"
    UNKNOWN = "unknown"
    LACKS = "lacks"
    UNUSABLE = "cannot"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's result. `found` is a sentence without a full stop. `features` are features that cannot be tested."""

    state: CheckState
    found: str
    remedy: str = ""
    name: str = ""
    lacks: Needs = field(default_factory=Needs)
    features: frozenset[str] = frozenset()
    costs: str = ""


def unknown(found: str, remedy: str = "") -> Finding:
    return Finding(CheckState.UNKNOWN, found, remedy)


def unusable(found: str, remedy: str = "") -> Finding:
    return Finding(CheckState.UNUSABLE, found, remedy)


@dataclass(frozen=True, slots=True)
class Check(Generic[S_contra]):
    """One check of a machine, a cluster or settings. A string that `ask` returns becomes a finding with state `OK`. An
    `UnavailableError` becomes a finding with state `fault`. An error from an API server becomes one with `UNKNOWN`.
    `remedy` and `costs` are defaults for the findings. If `gates` is set, a failure ends the checks.
    """

    name: str
    ask: Callable[[S_contra], str | Finding | Iterable[str | Finding]]
    remedy: str = ""
    costs: str = ""
    fault: CheckState = CheckState.UNUSABLE
    gates: bool = False

    def findings(self, subject: S_contra) -> list[Finding]:
        try:
            answer = self.ask(subject)
            found = [answer] if isinstance(answer, Finding | str) else list(answer)
        except UnavailableError as error:
            found = [Finding(self.fault, str(error))]
        except (RefusedError, InconclusiveError, DistrustError) as error:
            found = [unknown(f"cannot be checked: {errors.of(error)}")]
        return [self._completed(Finding(CheckState.OK, each) if isinstance(each, str) else each) for each in found]

    def _completed(self, finding: Finding) -> Finding:
        faulty = finding.state in (CheckState.LACKS, CheckState.UNUSABLE)
        counted = finding.features or finding.lacks != Needs()
        return replace(
            finding,
            name=finding.name or self.name,
            remedy=finding.remedy or (self.remedy if faulty else ""),
            costs=finding.costs or (self.costs if faulty and not counted else ""),
        )


def examine(table: Sequence[Check[S_contra]], subject: S_contra) -> list[Finding]:
    """Return the findings of all checks, up to the first failed check with `gates` set."""
    found: list[Finding] = []
    for check in table:
        found += check.findings(subject)
        if check.gates and found[-1].state is CheckState.UNUSABLE:
            break
    return found


def require(table: Sequence[Check[S_contra]], subject: S_contra) -> None:
    """If any findings prevent a run, raise an `UnavailableError` that lists them and their fixes."""
    found = [each for each in examine(table, subject) if each.state is CheckState.UNUSABLE]
    if found:
        raise UnavailableError("; ".join(": ".join(filter(None, (each.found, each.remedy))) for each in found))


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """Return 12 if a run is not possible, else 11 if an ability is missing, else 0."""
    states = {finding.state for finding in findings}
    if CheckState.UNUSABLE in states:
        return ExitCode.DISTRUST
    return ExitCode.PARTIAL if CheckState.LACKS in states else ExitCode.PASSED


@dataclass(frozen=True, slots=True)
class UnjudgedRequirements:
    profile: Profile
    lost: tuple[str, ...]
    of: int

    def sentence(self, *, named: int | None = 3) -> str:
        """Return a sentence about these requirements, with the first `named` ids, or with all if `named` is None."""
        shown = self.lost if named is None else self.lost[:named]
        more = f" and {len(self.lost) - len(shown)} more" if len(shown) < len(self.lost) else ""
        verb = "is" if len(self.lost) == 1 else "are"
        ids = f": {', '.join(shown)}{more}" if shown else ""
        return f"{len(self.lost)} of {self.of} requirements of {self.profile} {verb} not judged{ids}"


def costs(
    findings: Iterable[Finding],
    needs: Mapping[str, Needs],
    requirements: Sequence[Requirement],
    profiles: Collection[Profile],
) -> list[UnjudgedRequirements]:
    """Return the requirements that cannot be judged because of the findings, for each affected profile."""
    lacks = list(findings)
    found = []
    for profile in sorted(profiles):
        mine = sorted((each for each in requirements if each.profile == profile), key=lambda each: each.id)
        lost = tuple(each.id for each in mine if any(_takes(lack, each, needs) for lack in lacks))
        if lost:
            found.append(UnjudgedRequirements(profile, lost, len(mine)))
    return found


def _takes(finding: Finding, requirement: Requirement, needs: Mapping[str, Needs]) -> bool:
    needed = needs.get(requirement.id, Needs())
    return bool(
        needed.abilities & finding.lacks.abilities
        or needed.nodes & finding.lacks.nodes
        or finding.features & {feature.name for feature in requirement.features}
    )
