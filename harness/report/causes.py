"""Group the failures of a run by their observations. Each failed requirement belongs to exactly one cause."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from harness.judging import differences as seen
from harness.judging.differences import FailurePattern
from harness.judging.results import Result
from harness.judging.verdict import Verdict
from harness.model.requirements import Level
from harness.variation.axes import AXES, CLIENT, FAMILY, PROTOCOL, DrawnValues, draw_of

_FEWEST_ALIKE = 2  # the minimum number of requirements that a mutant must fail to be named
_OF_KILLERS = 0.8  # of the requirements that kill a mutant, the minimum share that fails in the same way
_OF_CAUSE = 0.5  # the minimum share of a cause's requirements that kill the mutant
_MOST_ALIKE = 3  # the maximum number of mutants that are named for a cause


_rank = list(Level).index  # MUST is first


@dataclass(frozen=True, slots=True)
class CommonCause:
    """Requirements that fail in the same way. `mutants` has the names and faults of mutants that fail similarly."""

    headline: str
    requirements: tuple[str, ...]
    levels: tuple[Level, ...]
    rerun: str = ""
    fails_with: str = ""
    mutants: tuple[tuple[str, str], ...] = ()

    @property
    def level(self) -> Level:
        return min(self.levels, key=_rank)

    @property
    def numbers(self) -> str:
        """The number of requirements by level: "3 requirements (2 MUST, 1 SHOULD)"."""
        numbers = [f"{number} {level}" for level in Level if (number := self.levels.count(level))]
        return f"{counted(len(self.requirements), 'requirement')} ({', '.join(numbers)})"

    @property
    def hint(self) -> str:
        names = " or ".join(f"{name}: {fault.rstrip('.')}" for name, fault in self.mutants)
        return f"The same requirements detect mutant {names}." if names else ""

    def to_json(self) -> dict[str, Any]:
        values = {
            "headline": self.headline,
            "level": str(self.level),
            "requirements": list(self.requirements),
            "failsWith": self.fails_with,
            "rerun": self.rerun,
            "mutants": [{"name": name, "fault": fault} for name, fault in self.mutants],
        }
        return {name: value for name, value in values.items() if value}


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    conditions: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Failure:
    """The observations of a failed requirement. `conditions` maps each difference to its conditions.

    `sure` has the differences for which `FailurePattern.sure` is true. `drawn` has random values of the test, and
    `needs` has the values without which the test passes.
    """

    result: Result
    conditions: Mapping[str, frozenset[str]]
    sure: frozenset[str]
    drawn: frozenset[str]
    needs: frozenset[str]

    def candidates(self) -> Iterator[_Candidate]:
        for text in self.sure:
            yield _Candidate(text, self.needs or self.conditions[text])

    def is_explained_by(self, cause: _Candidate) -> bool:
        shown = self.conditions.get(cause.text)
        if shown is None or not cause.conditions <= shown | self.drawn:
            return False
        return not self.needs or bool(self.needs & cause.conditions)


def of(results: Sequence[Result]) -> list[CommonCause]:
    found = grouped(results)
    if not found:
        return []
    from harness.settings.mutants import mutants  # noqa: PLC0415  mutants import the reference

    return with_mutants(found, results, {name: (each.sentence, each.symptom) for name, each in mutants().items()})


def grouped(results: Sequence[Result]) -> list[CommonCause]:
    failures = {each.requirement.id: _failure(each) for each in results if each.verdict is Verdict.FAILED}
    left = {
        each: {name for name, failure in failures.items() if failure.is_explained_by(each)}
        for each in _candidates(failures.values())
    }
    causes = []
    while left := {each: names for each, names in left.items() if names}:
        best = min(left, key=lambda each: (-len(left[each]), *_order(each)))
        mine = [failures[name] for name in sorted(left[best])]
        shared = frozenset.intersection(*(each.conditions[best.text] for each in mine))
        causes.append(_cause(_Candidate(best.text, best.conditions | shared), [each.result for each in mine]))
        explained = left[best]
        left = {each: names - explained for each, names in left.items()}
    return sorted(causes, key=lambda each: (_rank(each.level), -len(each.requirements), each.requirements))


def headlines(causes: Iterable[CommonCause]) -> dict[str, str]:
    return {name: cause.headline for cause in causes for name in cause.requirements}


def _candidates(failures: Iterable[_Failure]) -> set[_Candidate]:
    """Return possible causes: each difference, with the conditions of one failure or the common conditions of two."""
    found = {candidate for failure in failures for candidate in failure.candidates()}
    pairs = ((one, other) for one, other in combinations(found, 2) if one.text == other.text)
    return found | {_Candidate(one.text, both) for one, other in pairs if (both := one.conditions & other.conditions)}


def _failure(result: Result) -> _Failure:
    failed = [case for case in result.cases if case.verdict == Verdict.FAILED]
    found: dict[str, frozenset[str]] = {}
    sure: set[str] = set()
    for case in failed:
        for each in case.differences or (FailurePattern(case.message or "no message"),):
            conditions = frozenset(each.conditions)
            found[each.text] = found.get(each.text, conditions) & conditions
            sure |= {each.text} if each.sure else set()
    every = frozenset[str]().union(*found.values())
    drawn = frozenset.intersection(*(_conditions(case.fails_with or case.draw, every) for case in failed))
    needs = frozenset.intersection(*(_conditions(case.fails_with, every) for case in failed))
    return _Failure(result, found, frozenset(sure or found), drawn, needs)


def _conditions(draw: str, shown: frozenset[str]) -> frozenset[str]:
    """Return random values as conditions. A value in `_SHOWN` becomes its word if `shown` contains this word."""
    words = {value: word for value, word in _SHOWN.items() if word in shown}
    return frozenset(words.get(each, each) for each in _values(draw))


_SHOWN = {f"{FAMILY}=second": seen.IPV6, f"{PROTOCOL}=udp": seen.UDP}  # random values that windows show in other words


def _values(draw: str) -> list[str]:
    """Return the values of a draw. Another version of trafficdist may have written unknown values."""
    return [each for each in draw.split(",") if "=" in each]


def _order(candidate: _Candidate) -> tuple[int, int, str, list[str]]:
    """Return the sort key of candidates that explain equally many failures: more specific candidates come first."""
    rank = seen.RANKS.index(candidate.text) if candidate.text in seen.RANKS else len(seen.RANKS)
    return -len(candidate.conditions), rank, candidate.text, sorted(candidate.conditions)


def _cause(candidate: _Candidate, results: Sequence[Result]) -> CommonCause:
    smallest = min(results, key=_size)
    values = (each.partition("=")[::2] for each in candidate.conditions)
    drawn = draw_of({axis: value for axis, value in values if value in AXES.get(axis, ())})
    rerun, fails_with = smallest.worst.rerun, smallest.worst.fails_with
    if rerun and fails_with and "draw " not in rerun:
        rerun += f" --{'td-' if rerun.startswith('pytest ') else ''}draw {fails_with}"
    found = sorted((each.requirement.id, each.requirement.level) for each in results)
    return CommonCause(
        _headline(candidate, drawn),
        tuple(name for name, _ in found),
        tuple(level for _, level in found),
        rerun,
        str(drawn) if drawn.values else "",
    )


def _size(result: Result) -> tuple[int, int, int, str]:
    """Return the sort key of a failure: its level, then the effort to understand it."""
    worst = result.worst
    values = len(_values(worst.fails_with or worst.draw))
    return _rank(result.requirement.level), values, len(worst.observed), result.requirement.id


_ASKED = {seen.NODE_CLIENT: "from nodes", seen.EXTERNAL_CLIENT: "from outside the cluster"}
_KINDS = {"node-port": "to node ports", "external-ip": "to external IPs", "load-balancer": "to load balancer IPs"}
_WORDS = {**_ASKED, **_KINDS, seen.UDP: "over UDP", seen.IPV6: "over IPv6"}


def _headline(candidate: _Candidate, drawn: DrawnValues) -> str:
    about = candidate.conditions
    words = [text for condition, text in _WORDS.items() if condition in about]
    if candidate.text in seen.RANKS:
        text = " ".join(["connections", *words, candidate.text])
    else:
        text = " ".join([candidate.text, *words])
    meanings = drawn.without(CLIENT).meanings
    return f"{text}, only when {', and '.join(meanings)}" if meanings else text


def with_mutants(
    causes: Sequence[CommonCause], results: Sequence[Result], faults: Mapping[str, tuple[str, str]]
) -> list[CommonCause]:
    """Add to each cause the mutants that show the same failures. `faults`: each mutant's sentence and symptom."""
    killers: dict[str, list[Result]] = {}
    for each in results:
        for name in each.requirement.kills if each.verdict in (Verdict.PASSED, Verdict.FAILED) else ():
            killers.setdefault(name, []).append(each)
    return [replace(each, mutants=tuple(_alike(each, killers, faults))) for each in causes]


def _alike(
    cause: CommonCause, killers: Mapping[str, Sequence[Result]], faults: Mapping[str, tuple[str, str]]
) -> list[tuple[str, str]]:
    found: dict[str, int] = {}
    for name in faults.keys() & killers.keys():
        _, symptom = faults[name]
        failed = [each for each in killers[name] if each.requirement.id in cause.requirements]
        number = sum(bool(re.search(symptom, each.worst.message)) for each in failed)
        needed = max(_FEWEST_ALIKE, _OF_KILLERS * len(killers[name]), _OF_CAUSE * len(cause.requirements))
        if number >= needed:
            found[name] = number
    most = max(found.values(), default=0)
    best = sorted(name for name, number in found.items() if number == most)
    return [(name, faults[name][0]) for name in best[:_MOST_ALIKE]]
