"""The grid covers every possible pair of values, and every possible triple of important values."""

from __future__ import annotations

from typing import get_args

import trafficdist
from conformance import oracle
from conformance.interactions import cells, covering
from conformance.interactions.cell_runner import group_of
from conformance.interactions.cell_source import as_text
from conformance.interactions.dimensions import DIMENSIONS, why_impossible
from tests.conformance.expected_tables import ON_STAGE, FakeCluster
from tests.conformance.mutant_trials import SCENARIOS

SPOKEN = ("Port", "NO_ANSWER", "endpoint", "pod_client", "node_client", "external_client")
"""The names of `trafficdist` that the generated scenario of a cell uses, in addition to `expect_traffic`."""


def test_every_possible_combination_is_covered() -> None:
    assert set().union(*map(covering.of, covering.cells())) == covering.possible()


def test_impossible_combination_has_a_reason() -> None:
    for each in set(covering.combinations()) - covering.possible():
        values = dict(each)
        others = [{**values, name: value} for name in DIMENSIONS.keys() - values.keys() for value in DIMENSIONS[name]]
        assert why_impossible(values) or any(map(why_impossible, others)), values


def test_node_hints_change_nothing_where_hints_do_not_decide() -> None:
    """Such cells can test proxies that do not support node hints."""
    for cell in (each for each in covering.cells() if not cells.follows_hints(each)):
        for node in cells.ASKED_FROM:
            assert cells.outcome(cell, node, node_hints=False) == cells.outcome(cell, node), cells.name_of(cell)


def test_the_documents_decide_every_cell_under_either_reading() -> None:
    for cell in covering.cells():
        for node in cells.ASKED_FROM:
            told = [cells.outcome(cell, node, reading=reading) for reading in get_args(oracle.Reading)]
            assert told[0] == told[1]
            assert not isinstance(told[0], oracle.UndefinedOutcome)


def test_every_group_has_a_requirement_with_cells() -> None:
    groups = {group_of(cell) for cell in covering.cells()}
    names = {f"INTERACTIONS/{name.lower().replace(' ', '-')}{'-hints' * hints}" for name, hints in groups}
    grid = {name for name in SCENARIOS if name.startswith("INTERACTIONS/")}
    assert names == {name for name in grid if not name.startswith("INTERACTIONS/live")}


def test_cell_has_the_same_result_as_its_own_scenario() -> None:
    for cell in covering.cells():
        stage = FakeCluster()
        names = {name: getattr(trafficdist, name) for name in SPOKEN} | {
            name: ON_STAGE[name] for name in ("expect_affinity", "expect_traffic")
        }
        exec(as_text(cell), names)
        names["test_cell"](stage)
        silent = not any(cells.told(cell, node) for node in cells.ASKED_FROM)
        assert len(stage.said) == len(cells.ASKED_FROM) * (
            1 + silent
        )  # extra servers answer before the others expect a timeout
        for said in stage.said[-len(cells.ASKED_FROM) :]:
            expected = cells.told(cell, said.client.node)
            told = said.expected if isinstance(said.expected, set) else set()
            assert len(told) == len(expected)
            assert [one.ready for _, one in said.endpoints] == [
                each.conditions.get("ready", True) for written in cells.slices(cell).values() for each in written
            ]
