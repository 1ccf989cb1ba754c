"""The grid covers what it says: every possible pair, and every possible triple of those that are asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import trafficdist
from conformance import oracle
from conformance.interactions import cells, change_covering, covering
from conformance.interactions.cell_text import as_text
from conformance.interactions.dimensions import DIMENSIONS, why_impossible
from conformance.interactions.playing import group_of
from tests.conformance.spoken import ON_STAGE, Stage
from tests.conformance.trials import SCENARIOS

GRID = covering.cells()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "grid.md"

SPOKEN = ("Port", "NO_ANSWER", "endpoint", "pod_client", "node_client", "external_client")
"""The names of `harness` in a cell as a scenario, beside `expect_traffic`."""


def _counts() -> dict[str, int]:
    asked = set(covering.combinations())
    shown = set().union(*map(covering.of, GRID))
    live = change_covering.of_all()
    beside = set(change_covering.besides())
    return {
        "changes": len(live),
        "ordered pairs": len({*change_covering.turns()}),
        "covered ordered pairs": len({change_covering.of(each)[0] for each in live}),
        "values beside": len(beside),
        "covered values beside": len(beside & set().union(*(change_covering.of(each)[1] for each in live))),
        "cells": len(GRID),
        "pairs": sum(len(each) == 2 for each in asked),
        "possible pairs": sum(len(each) == 2 for each in covering.possible()),
        "covered pairs": sum(len(each) == 2 for each in shown),
        "triples": sum(len(each) == 3 for each in asked),
        "possible triples": sum(len(each) == 3 for each in covering.possible()),
        "covered triples": sum(len(each) == 3 for each in shown),
    }


def test_every_possible_combination_is_covered() -> None:
    assert set().union(*map(covering.of, GRID)) == covering.possible()


def test_the_page_has_the_counts() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = {
        name.strip(): int(count.replace(",", ""))
        for name, count in re.findall(r"^\| ([a-z ]+) \| ([\d,]+) \|$", text, re.MULTILINE)
    }
    assert rows == _counts()


def test_what_is_impossible_has_a_reason() -> None:
    for each in set(covering.combinations()) - covering.possible():
        values = dict(each)
        others = [{**values, name: value} for name in DIMENSIONS.keys() - values.keys() for value in DIMENSIONS[name]]
        assert why_impossible(values) or any(map(why_impossible, others)), values


def test_where_hints_do_not_decide_hints_for_nodes_change_nothing() -> None:
    """So that a proxy that knows none is judged there."""
    for cell in (each for each in GRID if not cells.follows_hints(each)):
        for node in cells.ASKED_FROM:
            assert cells.outcome(cell, node, node_hints=False) == cells.outcome(cell, node), cells.name_of(cell)


def test_the_documents_decide_every_cell_under_either_reading() -> None:
    for cell in GRID:
        for node in cells.ASKED_FROM:
            told = [cells.outcome(cell, node, reading=reading) for reading in get_args(oracle.Reading)]
            assert told[0] == told[1]
            assert not isinstance(told[0], oracle.LeftOpen)


def test_every_group_has_a_requirement_with_cells() -> None:
    groups = {group_of(cell) for cell in GRID}
    names = {f"INTERACTIONS/{name.lower().replace(' ', '-')}{'-hints' * hints}" for name, hints in groups}
    grid = {name for name in SCENARIOS if name.startswith("INTERACTIONS/")}
    assert names == {name for name in grid if not name.startswith("INTERACTIONS/live")}


def test_a_cell_as_a_scenario_of_its_own_says_the_same() -> None:
    for cell in GRID:
        stage = Stage()
        names = {name: getattr(trafficdist, name) for name in SPOKEN} | {
            name: ON_STAGE[name] for name in ("expect_kept", "expect_traffic")
        }
        exec(as_text(cell), names)
        names["test_cell"](stage)
        silent = not any(cells.told(cell, node) for node in cells.ASKED_FROM)
        assert len(stage.said) == len(cells.ASKED_FROM) * (1 + silent)  # it speaks first, by others
        for said in stage.said[-len(cells.ASKED_FROM) :]:
            expected = cells.told(cell, said.client.node)
            told = said.expected if isinstance(said.expected, set) else set()
            assert len(told) == len(expected)
            assert [one.ready for _, one in said.endpoints] == [
                each.conditions.get("ready", True) for written in cells.slices(cell).values() for each in written
            ]
