"""Draw values for all requirements of a run. Every pair of values occurs, and the seed determines the result.

The draws of a profile form a covering array over its requirements. Each value of each axis occurs with each feature,
and each pair of values of two axes occurs in some requirement, unless the requirements fix these axes. The algorithm is
greedy, like AETG (Cohen et al., 1997): each requirement gets the values that cover the most missing combinations.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.variation.axes import AXES, Axis, Draw, draw_of

Value = tuple[str, str]
"""An axis and one of its values."""

_RARE = 100
"""The weight of a feature of one requirement, compared with a pair of values. Few requirements meet such a feature."""

Combination = frozenset[Value] | tuple[str, Value]
"""Two values, or a feature and a value."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The data about a requirement that the algorithm uses.

    `fixed` are the axes that its sentence or test fixes, and single values that it excludes ("client=endpoint").
    """

    id: str
    profile: str
    features: AbstractSet[str]
    fixed: AbstractSet[str]


def draws(subjects: Iterable[Subject], seed: int, unavailable: AbstractSet[Value] = frozenset()) -> dict[str, Draw]:
    """Return the draw of each requirement by id. `unavailable` are values that cannot occur in this run."""
    axes = [
        Axis(axis.name, {v: m for v, m in axis.values.items() if (axis.name, v) not in unavailable}) for axis in AXES
    ]
    by_profile: dict[str, list[Subject]] = {}
    for each in sorted(subjects, key=lambda each: (len(each.fixed), _shuffled(seed, each.id))):
        by_profile.setdefault(each.profile, []).append(each)
    return {
        subject: drawn
        for profile in by_profile.values()
        for subject, drawn in _draws_of_profile(profile, axes, seed).items()
    }


def _draws_of_profile(subjects: Sequence[Subject], axes: Sequence[Axis], seed: int) -> dict[str, Draw]:
    covered: set[Combination] = set()
    used: Counter[Value] = Counter()
    common = Counter(feature for subject in subjects for feature in subject.features)
    rare = {feature: max(1, _RARE // number) for feature, number in common.items()}
    found: dict[str, Draw] = {}
    for subject in subjects:
        chosen: dict[str, str] = {}
        free = [axis for axis in axes if axis.name not in subject.fixed]
        for axis in sorted(free, key=lambda axis: _shuffled(seed, subject.id, axis.name)):
            chosen[axis.name] = max(
                (value for value in axis.values if f"{axis.name}={value}" not in subject.fixed),
                key=lambda value: (
                    _gain((axis.name, value), chosen, subject, covered, rare),
                    -used[axis.name, value],
                    _shuffled(seed, subject.id, axis.name, value),
                ),
            )
        used.update(chosen.items())
        covered.update(combinations(chosen, subject.features))
        found[subject.id] = draw_of(chosen)
    return found


def _gain(
    value: Value,
    chosen: Mapping[str, str],
    subject: Subject,
    covered: AbstractSet[Combination],
    weights: Mapping[str, int],
) -> int:
    pairs = sum(frozenset((value, other)) not in covered for other in chosen.items())
    return pairs + sum(weights[feature] for feature in subject.features if (feature, value) not in covered)


def combinations(chosen: Mapping[str, str], features: Iterable[str]) -> Iterable[Combination]:
    """Yield the pairs that a draw covers: pairs of values, and pairs of a feature and a value."""
    yield from (frozenset(pair) for pair in itertools.combinations(chosen.items(), 2))
    yield from itertools.product(features, chosen.items())


def _shuffled(seed: int, *parts: str) -> bytes:
    """Return a sort key that depends on the seed, and is the same on all machines."""
    return hashlib.sha256("\0".join((str(seed), *parts)).encode()).digest()
