"""One command writes the entries of a requirement, and another command lists all missing entries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.needs import Needs
from harness.model.requirements import MUST, Feature, Profile, Requirement
from tests.conformance.suite_files import CheckoutFiles, add, by_hand, missing

ROUTING = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")
KILLS = ("ignores-zone-hints",)
OLD = Requirement("KEP-1/old", "It works.", MUST, (ROUTING,), "KEP-1, Design", kills=KILLS)
NEW = Requirement("KEP-1/new", "It: lasts.", MUST, (ROUTING,), "KEP-1, Design", kills=KILLS)
NEEDED = Needs(nodes=frozenset({"b1", "a1"}))

FILES = {
    "needs.yaml": "# A comment.\nKEP-1/old:\n  nodes: [a1]\n",
    "coverage.yaml": """# A comment.
documents:

- document: KEP-1
  title: A document
  sections:

  - heading: Summary
    nothing: Says nothing.

  - heading: Design
    statements:
    - key: works
      says: It works.
      requirements:
      - KEP-1/old

  - heading: Later
    statements:
    - {key: later, says: It ends., requirements: [], status: future, because: Nobody has built it.}
""",
}


@pytest.fixture
def records(tmp_path: Path) -> CheckoutFiles:
    """A checkout with files that contain only the requirement `old`."""
    (tmp_path / "conformance").mkdir()
    for name, text in FILES.items():
        (tmp_path / "conformance" / name).write_text(text, encoding="utf-8")
    return CheckoutFiles(tmp_path)


def test_requirement_listed_in_all_files_is_complete(records: CheckoutFiles) -> None:
    assert missing(records, [OLD]) == []


def test_all_missing_lines_are_reported_together(records: CheckoutFiles) -> None:
    said = missing(records, [OLD, replace(NEW, kills=())])
    assert [each.partition(";")[0] for each in said] == [
        "needs.yaml: no line for KEP-1/new",
        "coverage.yaml: no statement is mapped to requirement KEP-1/new",
        "KEP-1/new: detects no mutant",
    ]
    assert "section 'Design', with works\n" in said[1]


def test_lines_of_removed_requirements_are_reported(records: CheckoutFiles) -> None:
    said = missing(records, [])
    assert [each.partition(":")[0] for each in said] == ["needs.yaml", "coverage.yaml"]
    assert all("the suite has no requirement KEP-1/old" in each for each in said)


def test_unknown_mutant_is_reported(records: CheckoutFiles) -> None:
    assert "there is no mutant no-such" in missing(records, [replace(OLD, kills=("no-such",))])[0]


def _map(records: CheckoutFiles) -> None:
    text = records.text("coverage.yaml").replace("- KEP-1/old\n", "- KEP-1/old\n      - KEP-1/new\n")
    records.write("coverage.yaml", text)


def test_add_completes_every_file_except_the_coverage_map(records: CheckoutFiles) -> None:
    changed = add(records, NEW, NEEDED)
    assert changed == ["conformance/needs.yaml"]
    assert by_hand(records, NEW).startswith("its source names section 'Design', with works\n")
    _map(records)
    assert by_hand(records, NEW) == ""
    assert missing(records, [OLD, NEW]) == []


def test_added_lines_are_in_order_and_other_lines_are_unchanged(records: CheckoutFiles) -> None:
    add(records, NEW, NEEDED)
    assert records.text("needs.yaml") == "# A comment.\nKEP-1/new:\n  nodes: [a1, b1]\nKEP-1/old:\n  nodes: [a1]\n"
    assert records.text("coverage.yaml") == FILES["coverage.yaml"]


def test_adding_a_requirement_again_changes_nothing(records: CheckoutFiles) -> None:
    add(records, NEW, NEEDED)
    assert add(records, NEW, NEEDED) == []


@pytest.mark.parametrize("section", ["Nowhere", "Summary"])
def test_source_without_a_section_is_reported(records: CheckoutFiles, section: str) -> None:
    left = by_hand(records, replace(NEW, source=f"KEP-1, {section}"))
    assert left.startswith(f"its source names section {section!r}, with no statement\n")


def test_requirement_of_a_document_without_map_needs_no_statement(records: CheckoutFiles) -> None:
    other = replace(NEW, id="DNS/new", source="Kubernetes, DNS")
    add(records, other, NEEDED)
    assert by_hand(records, other) == ""
    assert missing(records, [OLD, other]) == []
