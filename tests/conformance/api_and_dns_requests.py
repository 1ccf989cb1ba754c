"""Requests to API servers and DNS servers, and helpers that find incorrect responses.

Each request has tags that describe it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from mutants import Mutant

REFERENCE = Mutant("reference", "It is the reference.")
KEYS = {"ServiceTopology": True}
"""The feature gate for topology keys in API servers."""

Tags = AbstractSet[str]
Where = Callable[[Tags], bool]
Answers = Mapping[tuple[str, frozenset[str]], object]
"""Maps the name and the tags of a request to the response."""


def has(*every: str) -> Where:
    """Return the requests that have all of these tags."""
    return lambda tags: tags.issuperset(every)


def either(*some: Where) -> Where:
    """Return the requests that at least one of these selectors matches."""
    return lambda tags: any(each(tags) for each in some)


def wrong_at(right: Answers, answers: Answers) -> list[tuple[str, frozenset[str]]]:
    """Return the requests whose responses differ from those of the reference."""
    return [each for each in right if right[each] != answers[each]]


def judge(where: Where, right: Answers, answers: Answers) -> None:
    """Fail unless at least one request has an incorrect response, and all such requests are among the expected ones."""
    wrong = wrong_at(right, answers)
    assert wrong, "every response is correct"
    misplaced = [each for each in wrong if not where(each[1])]
    assert misplaced == [], misplaced
