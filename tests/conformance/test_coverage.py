"""`coverage.yaml` is complete. Every section has statements or a reason, and every requirement tests a statement."""

from __future__ import annotations

import re

import pytest

from conformance.coverage import (
    Coverage,
    CoveredStatus,
    ExcludedStatus,
    ExclusionReason,
    OpenStatus,
    load,
    parse,
    problems,
    summary,
)
from harness.errors import UsageError
from harness.plugin.suite import catalogue

SMALL = """
documents:
- document: KEP-1
  title: A document
  sections:
  - heading: Summary
    nothing: Says nothing.
  - heading: Design
    statements:
    - {key: tested, says: It works., requirements: [KEP-1/works]}
    - {key: untested, says: It lasts., requirements: [], status: open, because: Needs time.}
    - {key: praise, says: It is good., requirements: [], status: not-testable, because: Praise.}
"""
RELATED = "requirements: [KEP-1/works], related: [KEP-1/old]"


def changed(old: str, new: str) -> str:
    """Return the small file after one replacement."""
    assert old in SMALL
    return SMALL.replace(old, new)


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    """The coverage data of the suite."""
    return load()


def test_every_id_exists_and_every_document_requirement_is_mapped(coverage: Coverage) -> None:
    assert problems(coverage, {each.id for each in catalogue()}) == []


def test_no_statement_is_open(coverage: Coverage) -> None:
    assert [each.id for each in coverage.statements if isinstance(each.outcome, OpenStatus)] == []


def test_no_statement_lists_a_requirement_and_its_replacement(coverage: Coverage) -> None:
    instead = {each.id: each.instead_of for each in catalogue() if each.instead_of}
    outcomes = {each.id: each.outcome for each in coverage.statements}
    tested = {name: set(each.requirements) for name, each in outcomes.items() if isinstance(each, CoveredStatus)}
    both = [(name, each) for name, ids in tested.items() for each in ids & instead.keys() if instead[each] in ids]
    assert both == []


def test_each_covered_statement_has_a_requirement_in_the_reading_of_the_kep(coverage: Coverage) -> None:
    of_releases = {each.id for each in catalogue() if each.as_ == "released"}
    outcomes = {each.id: each.outcome for each in coverage.statements}
    tested = {name: set(each.requirements) for name, each in outcomes.items() if isinstance(each, CoveredStatus)}
    assert [name for name, ids in tested.items() if ids <= of_releases] == []


def test_all_documents_are_there(coverage: Coverage) -> None:
    assert [each.name for each in coverage.documents] == [
        "KEP-4444",
        "KEP-3015",
        "KEP-3015-2022",
        "KEP-2433",
        "KEP-536",
        "KEP-2086",
        "KEP-1669",
        "SERVICE",
        "AFFINITY",
        "SLICE",
        "HEALTH",
        "METRICS",
        "DNS",
    ]


def test_document_without_a_seed_states_the_location_of_its_text(coverage: Coverage) -> None:
    seeds = {"KEP-4444", "KEP-3015", "KEP-3015-2022", "KEP-2433", "KEP-536"}
    assert {each.name for each in coverage.documents if not each.text} == seeds


def test_statements_are_single_sentences(coverage: Coverage) -> None:
    texts = [each.says for each in coverage.statements]
    assert [text for text in texts if not re.fullmatch(r"(?:[^.]|\.(?! ))+\.", text)] == []


def test_a_small_file_is_read() -> None:
    tested, untested, praise = parse(SMALL).statements

    assert (tested.id, tested.heading, tested.line) == ("KEP-1#tested", "Design", 10)
    assert tested.outcome == CoveredStatus(("KEP-1/works",))
    assert untested.outcome == OpenStatus("Needs time.")
    assert praise.outcome == ExcludedStatus(ExclusionReason.NOT_TESTABLE, "Praise.")


def test_a_complete_file_has_no_problems() -> None:
    assert problems(parse(SMALL), {"KEP-1/works", "KEP-2/other"}) == []


def test_a_related_requirement_is_mapped_and_does_not_test_it() -> None:
    coverage = parse(changed("requirements: [KEP-1/works]", RELATED))

    assert coverage.statements[0].outcome == CoveredStatus(("KEP-1/works",))
    assert coverage.statements[0].related == ("KEP-1/old",)
    assert problems(coverage, {"KEP-1/works", "KEP-1/old"}) == []
    assert "the suite has no requirement KEP-1/old" in problems(coverage, {"KEP-1/works"})[0]


def test_a_document_may_say_where_its_text_is() -> None:
    (seed,) = parse(SMALL).documents
    (public,) = parse(changed("  title: A document\n", "  title: A document\n  text: example.org\n")).documents

    assert (seed.text, public.text) == ("", "example.org")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("key: untested", "key: tested", r":11: key of KEP-1 'tested' is already listed on line 10"),
        ("key: tested", "key: Not a slug", r":10: key 'Not a slug': expected lower-case"),
        ("heading: Design", "heading: Summary", r":8: heading of KEP-1 'Summary' is already listed on line 6"),
        ("nothing: Says nothing.", "statements: []", r":6: section 'Summary' has no statement"),
        ("    nothing: Says nothing.\n", "", r":6: expected either statements, or `nothing`"),
        ("status: not-testable", "status: boring", r":12: 'boring' is not one of open, not-testable"),
        ("status: not-testable, ", "", r":12: a statement without requirements needs `status` and `because`"),
        (", because: Praise.", "", r":12: a statement without requirements needs `status` and `because`"),
        ("[KEP-1/works]}", "[KEP-1/works], status: open}", r":10: a statement with requirements must have no status"),
        ("says: It works., ", "", r":10: says is missing"),
        ("says: It works.", "says: ''", r":10: expected a string"),
        ("says: It works.", "says: It works., note: x", r":10: unknown note; allowed: because, key"),
        ("says: It works.", "says: It works., key: again", r":10: key is listed twice"),
        ("requirements: [KEP-1/works]", "requirements: KEP-1/works", r":10: expected a list"),
        ("documents:", "documents: [", r"coverage.yaml: "),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(old: str, new: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse(changed(old, new))


@pytest.mark.parametrize(
    ("suite", "complaint"),
    [
        (set(), "coverage.yaml:10: KEP-1#tested: the suite has no requirement KEP-1/works"),
        ({"KEP-1/works", "KEP-1/new"}, "coverage.yaml: no statement is mapped to requirement KEP-1/new"),
    ],
)
def test_a_file_that_does_not_fit_the_suite_is_a_problem(suite: set[str], complaint: str) -> None:
    assert complaint in problems(parse(SMALL), suite)


def test_the_summary_counts_outcomes_and_lists_what_is_not_tested() -> None:
    counts = "3 statements: 1 covered, 1 open, 1 not-testable"
    assert summary(parse(SMALL)).splitlines() == [
        counts,
        f"KEP-1: {counts}",
        "KEP-1#untested: It lasts. Open: Needs time.",
    ]
    left = parse(changed("not-testable, because: Praise.", "not-tested, because: Costs much."))
    assert summary(left).splitlines()[-1] == "KEP-1#praise: It is good. Not tested: Costs much."
