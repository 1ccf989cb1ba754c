"""Choose values for all requirements of a run, as a covering array for each profile. The seed determines the result.

Each value of each axis occurs with each feature, and each pair of values of two axes occurs in some requirement, unless
the requirements fix these axes or exclude these values. Expensive values occur no more often than this requires.
"""

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.variation.axes import AXES, SHARES, DrawnValues, Value, draw_of

_RARE = 400
"""The weight of a value that is new for a feature which only one requirement has. A new pair of values has weight 1."""

Combination = frozenset[Value] | tuple[str, Value]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VariedRequirement:
    """A requirement for which values are chosen. `fixed` lists excluded axes and values ("client=endpoint")."""

    id: str
    profile: str
    features: AbstractSet[str]
    fixed: AbstractSet[str]


def draws(subjects: Iterable[VariedRequirement], seed: int) -> dict[str, DrawnValues]:
    by_profile: dict[str, list[VariedRequirement]] = {}
    for each in sorted(subjects, key=lambda each: (len(each.fixed), _shuffled(seed, each.id))):
        by_profile.setdefault(each.profile, []).append(each)
    return {
        subject: drawn for profile in by_profile.values() for subject, drawn in _draws_of_profile(profile, seed).items()
    }


def _draws_of_profile(subjects: Sequence[VariedRequirement], seed: int) -> dict[str, DrawnValues]:
    met: defaultdict[Value, set[Value | str]] = defaultdict(set)  # the values and features that occurred with a value
    common = Counter(feature for subject in subjects for feature in subject.features)
    rare = {feature: max(1, _RARE // number) for feature, number in common.items()}
    features: AbstractSet[str] = frozenset()  # features of the requirement whose row is built

    def gain(row: Row, axis: str, value: str) -> int:
        known = met[axis, value]
        pairs = len(row) - sum(map(known.__contains__, row.items()))
        return pairs + sum(rare[feature] for feature in features if feature not in known)

    rows = RowBuilder(gain, SHARES)
    found: dict[str, DrawnValues] = {}
    for subject in subjects:
        features = subject.features
        chosen = rows.build({}, _axes_of(subject, seed), passes=2)
        for value in chosen.items():
            met[value].update(chosen.items(), features)
        found[subject.id] = draw_of(chosen)
    return found


def _axes_of(subject: VariedRequirement, seed: int) -> list[tuple[str, Callable[[Row], Iterable[str]]]]:
    free = [axis for axis in AXES if axis not in subject.fixed]
    free.sort(key=lambda axis: _shuffled(seed, subject.id, axis))
    return [(axis, partial(_regardless, _values(subject, axis, seed))) for axis in free]


def _values(subject: VariedRequirement, axis: str, seed: int) -> list[str]:
    known = [value for value in AXES[axis] if f"{axis}={value}" not in subject.fixed]
    return sorted(known, key=lambda value: _shuffled(seed, subject.id, axis, value), reverse=True)


def _regardless(values: list[str], _row: Row) -> list[str]:
    return values


def combinations(chosen: Mapping[str, str], features: Iterable[str]) -> Iterable[Combination]:
    """Yield the pairs that a draw covers: pairs of values, and pairs of a feature and a value."""
    yield from (frozenset(pair) for pair in itertools.combinations(chosen.items(), 2))
    yield from itertools.product(features, chosen.items())


def _shuffled(seed: int, *parts: str) -> bytes:
    """Return a sort key that depends on the seed, and is the same on all machines."""
    return hashlib.sha256("\0".join((str(seed), *parts)).encode()).digest()


class RowBuilder:
    """Builds the rows of a covering array one by one, greedily, like AETG (Cohen et al., 1997)."""

    def __init__(
        self, gain: Callable[[Row, str, Any], int], shares: Mapping[tuple[str, Any], float] | None = None
    ) -> None:
        """`gain` is the number of combinations that a value would add. `shares` are relative weights, by default 1."""
        self._gain, self._shares = gain, shares or {}
        self._used: Counter[tuple[str, Any]] = Counter()

    def build(
        self, begin: Row, axes: Iterable[tuple[str, Callable[[Row], Iterable[Any]]]], *, passes: int = 1
    ) -> dict[str, Any]:
        """Return a row with the values of `begin`, and a chosen value for each other axis.

        `axes` lists axes, each with a function that returns possible values. Each further pass chooses values again.
        """
        row = dict(begin)
        for name, possible in [each for each in axes if each[0] not in begin] * passes:
            row.pop(name, None)
            row[name] = max(possible(row), key=partial(self._worth, row, name))
        self._used.update(row.items())
        return row

    def _worth(self, row: Row, name: str, value: Any) -> tuple[int, float]:
        return self._gain(row, name, value), -self._used[name, value] / self._shares.get((name, value), 1)
