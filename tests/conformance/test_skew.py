"""A skew matrix must have an outcome for every cell, or collection fails. Its expected routes match the hints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.skew import RequiredOutcome, Skew, SkewMatrix, routes
from harness.commands.main import main
from harness.errors import UsageError
from harness.judging.exit_codes import ExitCode
from harness.model.release import release
from harness.model.workloads import Pod

OLD, NEW = release("1.29"), release("1.31")
SKEWS = {"old": Skew(NEW, OLD, OLD), "new": Skew(NEW, NEW, NEW)}
ASKED = {"nothing": {}, "field": {"traffic_distribution": "PreferClose"}}
NONE, ZONE = RequiredOutcome("none", "anywhere"), RequiredOutcome("own zone", "by zone")
TABLE = {("old", "nothing"): NONE, ("old", "field"): NONE, ("new", "nothing"): NONE, ("new", "field"): ZONE}

INCOMPLETE = """
from conformance.skew import Skew, SkewMatrix
from harness.model.release import release
MATRIX = SkewMatrix(skews={"new": Skew(*[release("1.31")] * 3)}, asked={"field": {}}, table={})
"""


def test_cell_without_outcome_is_named() -> None:
    missing = {cell: outcome for cell, outcome in TABLE.items() if cell != ("old", "field")}
    with pytest.raises(UsageError, match="missing or extra: old / field"):
        SkewMatrix(SKEWS, ASKED, missing)


def test_outcome_without_cell_is_named() -> None:
    with pytest.raises(UsageError, match="missing or extra: newer / field"):
        SkewMatrix(SKEWS, ASKED, {**TABLE, ("newer", "field"): ZONE})


def test_every_requested_item_is_its_own_case() -> None:
    matrix = SkewMatrix(SKEWS, ASKED, TABLE)
    assert matrix.cases("old").args == ("asked", ["nothing", "field"])
    with pytest.raises(UsageError, match="unknown skew 'newer'; the matrix has old, new"):
        matrix.cases("newer")


def test_matrix_without_an_outcome_fails_the_collection(tmp_path: Path) -> None:
    (tmp_path / "test_matrix.py").write_text(INCOMPLETE)
    listed = CliRunner().invoke(main, ["list", "--suite", str(tmp_path)])
    assert listed.exit_code == ExitCode.DISTRUST
    assert "skew matrix: each cell needs one outcome; missing or extra: new / field" in listed.output


@pytest.mark.parametrize(
    ("routed", "expected"),
    [
        ("anywhere", {"a1": "a1 a2 b1", "a2": "a1 a2 b1", "b1": "a1 a2 b1", "c1": "a1 a2 b1"}),
        ("by zone", {"a1": "a1 a2", "a2": "a1 a2", "b1": "b1", "c1": "a1 a2 b1"}),
        ("by node", {"a1": "a1", "a2": "a2", "b1": "b1", "c1": "a1 a2 b1"}),
    ],
)
def test_routes_fall_back_from_node_to_zone_to_anywhere(routed: str, expected: dict[str, str]) -> None:
    pods = {name: Pod(name, "default", name, name[0], {}) for name in ("a1", "a2", "b1")}
    hinted = {"a": {pods["a1"], pods["a2"]}, "b": {pods["b1"]}}
    found = routes(pods.values(), routed, hinted)  # type: ignore[arg-type]
    assert found == {client: {pods[name] for name in names.split()} for client, names in expected.items()}
