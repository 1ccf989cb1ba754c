"""An interrupted series of runs continues after its last run, and keeps its failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import false_failures


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A series of fake runs. The third run fails."""

    def one_run(number: int, of: int, workers: int) -> dict[str, Any]:
        verdicts = {"passed": 4, "failed": 1} if number == 2 else {"passed": 5}
        return {"run": number, "busy": number % 2 == 1, "seconds": 1.0, "verdicts": verdicts, "unmet": {}}

    monkeypatch.setattr(false_failures, "one_run", one_run)
    into = tmp_path / "series.jsonl"

    def go_on(runs: int) -> tuple[int, list[int]]:
        monkeypatch.setattr("sys.argv", ["false_failures", "--runs", str(runs), "--into", str(into)])
        code = false_failures.main()
        return code, [json.loads(line)["run"] for line in into.read_text(encoding="utf-8").splitlines()]

    return go_on


def test_series_resumes_where_it_stopped_and_ends_after_a_hundred_runs(series: Any) -> None:
    assert series(2) == (0, [0, 1])
    assert series(1) == (1, [0, 1, 2])
    assert series(0) == (1, [0, 1, 2])
    assert series(200) == (1, list(range(100)))


def test_run_number_determines_the_requirements_of_a_run() -> None:
    first = false_failures.drawn(3, 2)
    assert len(set(first)) == 10
    assert false_failures.drawn(3, 2) == first
    assert false_failures.drawn(4, 2) != first
