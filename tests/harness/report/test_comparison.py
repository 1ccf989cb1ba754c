"""Tests the comparison of several reports in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.commands.main import main
from harness.model import verdict_basis
from harness.model.verdict_basis import DECISIONS
from harness.report.comparison import as_markdown, title_of


def report(project: str, *tests: tuple[str, str, str], level: str = "MUST") -> dict[str, Any]:
    """Return a report with one test for each (id, feature, verdict), all at this level."""
    return {
        "implementation": {"project": project, "version": "1.0"},
        "mode": "nftables",
        "tests": [
            {"id": name, "features": [feature], "level": level, "verdict": verdict} for name, feature, verdict in tests
        ],
    }


def rows(*reports: dict[str, Any]) -> list[str]:
    return [line for line in as_markdown(reports).splitlines() if line.startswith("|") and "---" not in line]


def test_columns_name_the_judged_implementation() -> None:
    assert title_of(report("kube-proxy")) == "kube-proxy 1.0 nftables"


def test_columns_name_no_mode_where_no_proxy_was_judged() -> None:
    dns = {**report("CoreDNS", ("K/a", "DNS", "passed")), "profiles": [{"name": "DNS"}]}
    assert title_of(dns) == "CoreDNS 1.0"
    assert "nftables" not in as_markdown([dns])
    assert title_of({**dns, "profiles": [{"name": "CLUSTER"}, {"name": "DNS"}]}) == "CoreDNS 1.0 nftables"


def test_report_of_decisions_is_never_shown_as_one_of_packets() -> None:
    plain, decided = (
        report("a", ("K/a", "UDP", "passed")),
        {**report("b", ("K/a", "UDP", "failed")), "judges": DECISIONS},
    )
    page = as_markdown([plain, decided])
    tables = [line for line in page.splitlines() if line.startswith("|") and "b 1.0" in line]
    assert len(tables) == 3
    assert all("(decisions)" in line for line in tables)
    assert verdict_basis.KEY in page
    assert "decisions" not in as_markdown([plain])


def test_a_report_that_is_not_verified_is_marked() -> None:
    page = as_markdown([report("a"), report("b")], ["", "verdicts: K/x: failed is derived"])
    assert "- Not verified: b 1.0 nftables (verdicts: K/x: failed is derived)." in page
    assert "Not verified: a" not in page


def test_feature_is_counted_over_the_requirements_that_need_it() -> None:
    met = report("met", ("K/a", "UDP", "passed"), ("K/b", "UDP", "passed"), ("K/c", "UDP", "skipped"))
    half = report("half", ("K/a", "UDP", "passed"), ("K/b", "UDP", "failed"))
    unclear = report("unclear", ("K/a", "UDP", "passed"), ("K/b", "UDP", "inconclusive"))
    none = report("none", ("K/a", "UDP", "skipped"))
    assert "| UDP | ✓ 2 | ✗ 1/2 | ? 1/2 | - |" in rows(met, half, unclear, none)


def test_nondeciding_requirement_has_its_own_mark() -> None:
    should, may = (report("x", ("K/a", "UDP", "failed"), level=level) for level in ("SHOULD", "MAY"))
    assert "| UDP | ! 0/1 | i 0/1 |" in rows(should, may)
    assert "| `K/a` | ! |" in rows(should)


def test_feature_without_results_has_no_row() -> None:
    assert not any("UDP" in row for row in rows(report("a", ("K/a", "UDP", "skipped"))))


def test_versions_are_rows_and_modes_columns() -> None:
    reports = [
        {**report("kube-proxy", ("K/a", "UDP", verdict)), "kubernetesVersion": version, "mode": mode}
        for version, mode, verdict in (
            ("v1.37.0", "nftables", "failed"),
            ("v1.9.1", "iptables", "passed"),
            ("v1.9.1", "nftables", "passed"),
        )
    ]
    assert rows(*reports)[:3] == [
        "|  | iptables | nftables |",
        "| Kubernetes v1.9.1 kube-proxy 1.0 | ✓ 1 | ✓ 1 |",
        "| Kubernetes v1.37.0 kube-proxy 1.0 | - | ✗ 0/1 |",
    ]
    assert "| feature | v1.37.0 kube-proxy 1.0 nftables | kube-proxy 1.0 iptables | v1.9.1" in as_markdown(reports)


def test_single_report_lists_unmet_requirements() -> None:
    text = as_markdown([report("one", ("K/a", "UDP", "passed"), ("K/b", "UDP", "failed"))])
    assert text.endswith("## Requirements not met\n\n| requirement | one 1.0 nftables |\n| --- | --- |\n| `K/b` | ✗ |")


def test_only_requirements_that_differ_are_listed() -> None:
    left = report("left", ("K/a", "UDP", "passed"), ("K/b", "UDP", "passed"), ("K/only-left", "UDP", "passed"))
    right = report("right", ("K/a", "UDP", "passed"), ("K/b", "UDP", "failed"))
    listed = [row for row in rows(left, right) if "K/" in row]
    assert listed == ["| `K/b` | ✓ | ✗ |", "| `K/only-left` | ✓ | - |"]


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read"), ("{", "is not YAML"), ("kind: Pod\n", "does not match its schema")],
)
def test_invalid_report_is_named_and_refused(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "report.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["compare", str(path)])
    assert result.exit_code == 4
    assert str(path) in result.output
    assert said in result.output
