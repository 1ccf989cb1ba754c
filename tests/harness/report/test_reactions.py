"""Tests how Allure and the comparison show measurements of changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.model.topology import THREE_ZONES
from harness.report.allure import _table
from harness.report.comparison import as_markdown
from harness.report.reactions import as_csv, by_kind
from harness.run.folder import OutputFolder


def client(*reactions: tuple[str, float | None], lost: int = 0) -> dict[str, Any]:
    times = [
        {"change": kind, **({} if ms is None else {"firstRightMs": 1.0, "allRightMs": ms})} for kind, ms in reactions
    ]
    gap = {"longestGapMs": 4.0 * lost, "longestPauseMs": 4.0, "lost": {"refused": lost} if lost else {}}
    return {"client": THREE_ZONES.nodes[0].name, "asked": 9, **gap, "wrongSet": 1, "removedEndpoints": 2,
            "reactions": times}  # fmt: skip


def report(*clients: dict[str, Any]) -> dict[str, Any]:
    found = [{"test": "K/a", "traffic": "TCP", "clients": list(clients)}] if clients else []
    return {"implementation": {"project": "p"}, "mode": "m", "tests": [], "transitions": found}


def test_a_kind_of_change_has_a_median_and_a_worst() -> None:
    clients = client(("write slice", 10.0), ("restart", 7.0)), client(("write slice", 40.0), ("write slice", 20.0))
    assert by_kind(report(*clients)) == {"restart": (7.0, 7.0), "write slice": (20.0, 40.0)}


def test_a_change_that_was_never_taken_up_is_in_no_median() -> None:
    assert by_kind(report(client(("write slice", None)))) == {}


def test_comparisons_have_two_columns_for_each_report() -> None:
    page = as_markdown([report(client(("write slice", 10.0))), report()])
    assert "| change | p m: p50, ms | p m: worst, ms | p m: p50, ms | p m: worst, ms |" in page
    assert "| write slice | 10 | 10 | - | - |" in page
    assert "Reactions" not in as_markdown([report()])


def test_allure_has_a_table_with_a_line_for_each_client_and_change(tmp_path: Path) -> None:
    found = report(client(("write slice", 10.0), ("restart", None), lost=3))["transitions"]
    head, *lines = as_csv(found).splitlines()
    assert head.startswith("traffic,client,asked,")
    assert lines == ["TCP,a1,9,12.0,4.0,0,3,0,1,2,write slice,1.0,10.0", "TCP,a1,9,12.0,4.0,0,3,0,1,2,restart,,"]
    (attached,) = _table(OutputFolder(tmp_path), found)
    assert attached["type"] == "text/csv"
    assert (tmp_path / "allure-results" / attached["source"]).read_text() == as_csv(found)
