"""The record of each fault: the Kubernetes specs and the requirements of this project that detect it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.model import strict_yaml
from harness.run.folder import write_whole
from mutants import MUTANTS
from tests.conformance.mutant_trials import SCENARIOS
from tests.conformance.requirement_durations import seconds
from tests.upstream_e2e.specs import PASSED, SpecResult, short

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.yaml")
MATRIX = ROOT / "reports/upstream-e2e/matrix.yaml"

NO_FAULT = "reference"
"""The name of the reference in the matrix. If the reference does not pass, no other result counts."""


@dataclass(frozen=True, slots=True)
class FaultGroup:
    """Faults that break the same function."""

    breaks: str
    mutants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpecTrial:
    """The result of the topology specs on one fault. `noticed` maps each failed spec to the seconds until it failed."""

    mutant: str
    kubernetes: str
    commit: str
    date: str
    seed: int
    specs: int
    noticed: Mapping[str, float] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class FastestRequirement:
    """The fastest requirement that detects a fault, and its seconds on the reference."""

    requirement: str
    seconds: float


def groups(file: Path = FAULTS) -> list[FaultGroup]:
    """Return the groups of faults in order."""
    listed = strict_yaml.read(str(file), what="list of faults")
    return [FaultGroup(each["breaks"], tuple(each["mutants"])) for each in listed]


def trial_of(mutant: str, ends: Sequence[SpecResult], **made: Any) -> SpecTrial:
    """Return the result of one fault. `made` has the time and the versions."""
    wrong = [each for each in ends if each.end != PASSED]
    why = " ".join(wrong[0].why.split()) if wrong else ""
    return SpecTrial(
        mutant, specs=len(ends), noticed={short(each.spec): each.seconds for each in wrong}, why=why, **made
    )


def read(file: Path = MATRIX) -> dict[str, SpecTrial]:
    """Return the recorded trials by mutant."""
    recorded = strict_yaml.read(str(file), what="matrix") if file.exists() else []
    return {each["mutant"]: SpecTrial(**each) for each in recorded}


def write(trials: Mapping[str, SpecTrial], file: Path = MATRIX) -> None:
    """Write all trials in the order of `left`. The write is atomic, because several processes run in parallel."""
    file.parent.mkdir(parents=True, exist_ok=True)
    names = [NO_FAULT, *_faults()]
    sorted_ = sorted(trials.values(), key=lambda each: names.index(each.mutant) if each.mutant in names else len(names))
    plain = [{name: value for name, value in asdict(each).items() if value not in ({}, "")} for each in sorted_]
    write_whole(file, yaml.safe_dump(plain, sort_keys=False, width=120, allow_unicode=True))


def ours() -> dict[str, FastestRequirement]:
    """Return the fastest requirement that detects each fault, by mutant, from the published run of the reference."""
    found: dict[str, FastestRequirement] = {}
    for name, scenario in SCENARIOS.items():
        for mutant in scenario.requirement.kills:
            if mutant not in found or seconds()[name] < found[mutant].seconds:
                found[mutant] = FastestRequirement(name, seconds()[name])
    return found


def left(known: Mapping[str, SpecTrial], kubernetes: str, wanted: Sequence[str] = ()) -> Iterator[str]:
    """Yield the faults without a trial for this version. With `wanted`, yield only those, with or without a trial."""
    for each in _faults():
        tried = each in known and known[each].kubernetes == kubernetes
        if each in wanted or not (wanted or tried):
            yield each


def _faults() -> list[str]:
    return [mutant for group in groups() for mutant in group.mutants]


def in_real_plane(mutant: str) -> bool:
    """Return whether a fault can run with a real control plane, which is true for faults in a proxy or controller."""
    return MUTANTS[mutant].changes <= {"proxy", "controller"}
