"""Each remedy, applied as printed, is accepted by the API, removes its cause, and harms nobody."""

from __future__ import annotations

import pytest

from explain.cluster import Cluster
from reference.client import ApiError
from tests.explain.applying import Applied, alternatives, harm, now
from tests.explain.generated_clusters import corpus
from tests.explain.rows import NOTES, ROWS

REFUSED = {
    "an address that is none": "the API refuses the slice",
    "a value that is none": "the API refuses the value",
    "an annotation behind the deprecated one": "the API refuses annotations that differ",
    "two annotations": "the API refuses annotations that differ",
}
"""Clusters that no API server holds."""

CLUSTERS = {name: row.seen for name, row in ROWS.items()} | {name: note.seen for name, note in NOTES.items()}


@pytest.mark.parametrize("name", [each for each in CLUSTERS if each not in REFUSED])
def test_remedies_of_a_cause_are_accepted_and_harm_nobody(name: str) -> None:
    assert harm(CLUSTERS[name]) == []


@pytest.mark.parametrize("name", REFUSED)
def test_cluster_that_the_api_refuses_is_named(name: str) -> None:
    with pytest.raises(ApiError):
        Applied(CLUSTERS[name])


def test_remedies_of_generated_clusters_are_accepted_and_harm_nobody() -> None:
    wrong = {number: found for number, each in enumerate(corpus(5)) if number % 3 == 0 and (found := harm(each))}
    assert wrong == {}


@pytest.mark.parametrize("name", CLUSTERS)
def test_remedy_that_deletes_replaces_or_restarts_says_what_else_it_does(name: str) -> None:
    for each in now(Cluster(CLUSTERS[name], "released")).findings:
        words = ("delete", "replace --force", "restart")
        acts = (
            any(word in command for one in alternatives(each.remedy) for command in one for word in words)
            or "restart" in each.remedy
        )
        assert each.also or not acts, each.remedy
