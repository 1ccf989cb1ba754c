"""Requests to API and DNS servers, and the wrong answers to them; tags describe each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from mutants import Mutant

REFERENCE = Mutant("reference", "It is the reference.")
KEYS = {"ServiceTopology": True}
"""The gate of topology keys in servers."""

Tags = AbstractSet[str]
Where = Callable[[Tags], bool]
Answers = Mapping[tuple[str, frozenset[str]], object]
"""The answers, by the name and the tags of a request."""


def has(*every: str) -> Where:
    """The requests that have all of these tags."""
    return lambda tags: tags.issuperset(every)


def either(*some: Where) -> Where:
    """The requests that any of these selects."""
    return lambda tags: any(each(tags) for each in some)


def wrong_at(right: Answers, answers: Answers) -> list[tuple[str, frozenset[str]]]:
    """The requests with wrong answers."""
    return [each for each in right if right[each] != answers[each]]


def judge(where: Where, right: Answers, answers: Answers) -> None:
    """Fail unless some of the expected requests get wrong answers, and no others do."""
    wrong = wrong_at(right, answers)
    assert wrong, "it is right everywhere"
    misplaced = [each for each in wrong if not where(each[1])]
    assert misplaced == [], misplaced
