"""Sentences of `explain` count: "1 node has", "2 nodes have", and one name has a verb in the singular."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from explain.causes import many
from explain.cluster import Cluster
from explain.diagnosis import diagnose
from explain.objects import Objects
from explain.overview import FORMATS, overview
from explain.service import show
from explain.text import parts
from tests.explain.generated_clusters import corpus, fresh
from tests.explain.recorded_cases import NOTES, ROWS

_THING = "(?:endpoint|eviction|node|pair|pod|port|slice|zone|connection|client|Service|EndpointSlice|object|name)"
_PLURAL, _SINGULAR = "(?:have|are|were|do|run|use|match|fail|request|differ)", "(?:has|is|was|does|runs|uses|differs)"
_NAME = r"(?:[abcd]\d|web-\S+)"
WRONG = (
    rf"(?<![\d.,])1 (?:\w+ )?{_THING}s\b",  # 1 ready endpoints
    rf"(?<![\d.])(?:0|[2-9]|\d\d+) (?:ready )?{_THING}\b(?! of\b)",  # 2 endpoint
    rf"(?<!of )(?<![\d.])1 (?:\w+ )?{_THING} {_PLURAL}\b",  # 1 node have
    rf"\b1 of \d+ (?:\w+ )?{_THING}s? (?:that \w+ \w+ )?{_PLURAL}\b",  # 1 of 3 Services do
    rf"(?:^|[:;,] ){_NAME} {_PLURAL}\b",  # c1 have
    rf"\b{_NAME} {_NAME} {_SINGULAR}\b",  # a1 b1 has
)


def sentences(seen: Objects) -> Iterator[str]:
    """Yield the lines of the answer and of the overview."""
    cluster = Cluster(seen, "released")
    written = io.StringIO()
    found = diagnose(seen.services[0], cluster)
    show(parts(found, cluster), Console(file=written, width=2_000, highlight=False, markup=False))
    yield from written.getvalue().splitlines()
    yield from FORMATS["md"](overview(cluster)).splitlines()


def wrong(seen: Objects) -> list[str]:
    said = [line.partition("  also ")[0].strip() for line in sentences(seen)]
    return [f"{found[0]!r} in {line!r}" for line in said for each in WRONG if (found := re.search(each, line))]


@pytest.mark.parametrize(
    "said",
    [
        "1 nodes run a proxy", "1 of 3 ready endpoints are hinted", "; c1 have no endpoint", "2 endpoint in 1 slice",
        "1 of 1 Service that request topology do not get it", "in 1 slices", "1 endpoint have hints", "a1 b1 has none",
    ],
)  # fmt: skip
def test_wrong_sentence_is_noticed(said: str) -> None:
    assert any(re.search(each, said) for each in WRONG)


def test_subjects_are_counted_or_named() -> None:
    verbs = "has/have"
    assert [many(1, "node", verbs), many(2, "node", verbs)] == ["1 node has", "2 nodes have"]
    assert [many(["a"], "zone", verbs), many(["a", "b"], "zone", verbs)] == ["zone a has", "zones a b have"]
    assert [many(["a1"], verbs=verbs), many(["a1", "b1"])] == ["a1 has", "a1 b1"]


@pytest.mark.parametrize("name", [*ROWS, *NOTES])
def test_sentences_about_each_cause_count_rightly(name: str) -> None:
    row = ROWS.get(name) or NOTES[name]
    assert wrong(row.seen) == []


def test_sentences_about_generated_clusters_count_rightly() -> None:
    found = {line for each in (*corpus(6), *fresh(of_seed=4041)) for line in wrong(each)}
    assert found == set()
