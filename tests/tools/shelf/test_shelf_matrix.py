"""A cell of the matrix shows claimed, passed and documented results.

The cell links unmet requirements and shows the first version in which the feature works.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.report.conformance import read_report
from tests.tools.shelf.test_shelf import KUBE_PROXY, ROOT, TODAY, entry, refuse, unmet
from tools.shelf import deviations, index
from tools.shelf.deviations import Deviation
from tools.shelf.entry import CommonCause, derived_causes
from tools.shelf.matrix import cell, since
from tools.shelf.pages import as_html, section


def of_features(**cells: str) -> dict[str, dict[str, str]]:
    return {"DNS": cells}


def test_cell_distinguishes_not_claimed_from_not_run() -> None:
    one = entry(features=of_features(Asked="✗ 0/2"), unclaimed=("Asked", "NotClaimed"))
    cells = {name: str(cell(one, "DNS", name)) for name in ("Asked", "NotClaimed", "NotRun")}
    assert cells == {"Asked": "✗ 0/2, not claimed", "NotClaimed": "·", "NotRun": "-"}


def test_cell_states_how_many_deviations_are_documented() -> None:
    said = [Deviation(KUBE_PROXY["project"], frozenset({"KEP-1/r"}), "so it is", "https://example.org/doc")]
    one = entry("1.37/a-b/1-x", features=of_features(ServiceDNS="✗ 1/2"), unmet=(unmet(),))
    two = replace(one, unmet=(unmet(), unmet("KEP-1/other")))
    assert [str(cell(each, "DNS", "ServiceDNS", said)) for each in (one, two)] == ["✗ 1/2, stated", "✗ 1/2, 1 stated"]
    assert str(cell(replace(one, project="another"), "DNS", "ServiceDNS", said)) == "✗ 1/2"
    for made in (section, as_html):
        shown = made([one], TODAY, said)
        assert "so it is" in shown
        assert "https://example.org/doc" in shown


def test_cells_that_are_not_green_link_their_cause() -> None:
    place = "1.37/a-b/1-x"
    causes = (CommonCause("it is silent", "MUST", ("KEP-1/other",)), CommonCause("it refuses", "MUST", ("KEP-1/r",)))
    others = (unmet("KEP-1/other"), replace(unmet("KEP-1/unclear", mark="?"), features=("Other",)))
    one = entry(
        place,
        features=of_features(ServiceDNS="✗ 1/2", Other="? 0/1"),
        unmet=(unmet(sentence="It answers."), *(replace(each, features=("Other",)) for each in others)),
        causes=causes,
    )
    said, page = section([one], TODAY), as_html([one], TODAY)
    link = f"(<{place}/README.md#not-met-and-why>)"
    assert f"| [2 causes, 2 requirements]{link} |" in said
    assert f"| [1/2, cause 2]{link} |" in said
    assert f'<a href="#{place}">2 causes, 2 requirements</a>' in page
    assert f'<a href="#{place}/cause-2">1/2</a> <small>cause 2</small>' in page
    assert f'<li id="{place}/cause-2"><strong>it refuses</strong>' in page
    assert f'<li id="{place}/KEP-1/r">' in page
    assert "It answers." in page


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        ("✓ 1,✓ 1,✓ 1", "≤ v1.9.0"),
        ("✗ 0/1,✓ 1,✓ 1", "v1.10.0 (✗ 0/1 in v1.9.0)"),
        ("✓ 1,✗ 0/1,! 1/2", "v1.11.0 (✗ 0/1 in v1.10.0; ! 1/2 in v1.11.0)"),
        (",✓ 1,✓ 1", "v1.10.0"),
        ("✓ 1,✓ 1,? 0/1", "? 0/1 in v1.11.0"),
        ("✓ 1,✓ 1,", "·"),
    ],
)
def test_feature_works_since_the_first_of_the_latest_versions_that_do(cells: str, shown: str) -> None:
    reports = [
        entry(f"1.37/k/{number}", version=f"v1.{number}.0", unclaimed=("ServiceDNS",) * (not text),
              features=of_features(Other="✓ 1", **({"ServiceDNS": text} if text else {})))
        for number, text in zip((9, 10, 11), cells.split(","), strict=True)
    ]  # fmt: skip
    by_hand = entry("1.37/k/0", version="v1.12.0", uncertifiable="--run-test chose requirements")
    alone = entry("1.37/l/1", project="another")
    (name,), found = since("DNS", [*reports, by_hand, alone]), since("DNS", reports)
    assert name == "kube-proxy nftables"
    assert found[name]["ServiceDNS"].text == shown
    assert all(shown in html.unescape(made(reports, TODAY)).replace("\\", "") for made in (section, as_html))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("says: no", "expected a list"),
        ("- {project: a, says: b, where: https://c}", "entry 1: expected only the keys"),
        ("- {project: a, requirements: [], says: b, where: https://c}", "requirements: expected a list of ids"),
        ("- {project: a, requirements: [b], says: '', where: https://c}", "says: expected a string"),
        ("- {project: a, requirements: [b], says: c, where: javascript:d}", "expected the address"),
    ],
)
def test_documented_deviations_are_validated(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "stated.yaml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(why)):
        deviations.read(tmp_path)


def test_documented_deviations_equal_unmet_requirements_in_reports() -> None:
    reports = index.entries(ROOT / "reports", refuse)
    unmet = {(each.project, one.id) for each in reports for one in each.unmet}
    listed = {(each.project, name) for each in deviations.read(ROOT / "reports") for name in each.requirements}
    assert listed
    assert listed <= unmet


def test_counts_of_causes_are_those_of_the_profile() -> None:
    causes = (
        CommonCause("it is silent", "SHOULD", ("KEP-1/a", "KEP-1/b")),
        CommonCause("it refuses", "MUST", ("KEP-1/c",)),
    )
    known = (
        unmet("KEP-1/a"),
        replace(unmet("KEP-1/b"), profile="CLUSTER"),
        replace(unmet("KEP-1/c"), profile="CLUSTER"),
    )
    one = entry(unmet=known, causes=causes)
    assert one.counts("DNS") == "1 cause, 1 SHOULD requirement"
    assert one.counts("CLUSTER") == "2 causes, 2 requirements"
    assert (one.counts(), one.counts("API-SERVER")) == ("2 causes, 3 requirements", "")


def test_causes_of_a_report_without_causes_and_history_follow_from_its_messages(tmp_path: Path) -> None:
    tests = [
        {"id": f"KEP-1/{name}", "level": "MUST", "verdict": verdict, "message": message}
        for name, verdict, message in (("a", "failed", "no"), ("b", "failed", "no"), ("c", "passed", ""))
    ]
    assert [each["requirements"] for each in derived_causes({"tests": tests}, tmp_path)] == [["KEP-1/a", "KEP-1/b"]]


def test_each_failure_on_the_shelf_has_one_cause() -> None:
    for one in index.entries(ROOT / "reports", refuse):
        named = sorted(name for each in one.causes for name in each.requirements)
        assert named == sorted(each.id for each in one.unmet if each.mark != "?"), one.place


def test_causes_of_recorded_reports_follow_from_their_histories() -> None:
    place = ROOT / "reports/1.37/coredns-coredns-that-ignores-empty-services/1.15.0"
    (cause,) = derived_causes(read_report(str(place)), place)
    assert cause["headline"] == "the DNS server answers NXDOMAIN instead of NOERROR"
    assert len(cause["requirements"]) == 5
