"""Live changes cover every ordered pair of values, and combine it with every value of the other dimensions."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

import trafficdist
from conformance import oracle
from conformance.features import EXTERNAL_IPS, IPV6_SERVICES, LOAD_BALANCER, SESSION_AFFINITY
from conformance.interactions import cells, change_covering, change_steps, changes, dimensions
from conformance.interactions.change_source import as_text
from conformance.interactions.change_steps import Publish, Step, Unpublish
from conformance.interactions.changes import Change, ServiceAddress
from conformance.interactions.test_grid import CORE
from tests.conformance.expected_tables import ON_STAGE, FakeCluster
from tests.conformance.mutant_trials import SCENARIOS
from trafficdist import Service

LIVE = change_covering.of_all()
TRANSITIONS = set(change_covering.transitions())
OTHER_VALUES = set(change_covering.other_values())
COVERED = set().union(*(change_covering.of(each)[1] for each in LIVE))

SPOKEN = ("Port", "NO_ANSWER", "endpoint", "pod_client", "node_client", "external_client")


def test_file_contains_the_chosen_changes() -> None:
    assert change_covering.CHOSEN.read_text(encoding="utf-8") == change_covering.as_json(change_covering.chosen())
    assert change_covering.chosen() == LIVE


def test_every_ordered_pair_of_values_is_a_change() -> None:
    assert {change_covering.of(each)[0] for each in LIVE} == TRANSITIONS


def test_every_change_shows_unless_its_values_mean_the_same() -> None:
    odd = [each for each in LIVE if changes.shows(each) == change_covering.is_alike(change_covering.of(each)[0])]
    assert odd == []


def test_value_that_no_change_contains_has_a_reason() -> None:
    for dimension, name, value in OTHER_VALUES - COVERED:
        why = change_covering.why_impossible(dimension, {name: value})
        others = [changes.cell_of(dimension, each, {name: value}) for each in changes.VALUES[dimension]]
        assert why or sum(not dimensions.why_impossible(each) for each in others) < 2, (dimension, name, value)


def test_value_with_a_reason_is_in_no_change() -> None:
    assert [each for each in COVERED if change_covering.why_impossible(each[0], {each[1]: each[2]})] == []


def test_the_documents_decide_every_change_under_either_reading() -> None:
    for change in LIVE:
        for cell, front in _given(change):
            for node in change.asked_from:
                at = {**cell, "address": front.address}
                told = [cells.outcome(at, node, reading=reading) for reading in get_args(oracle.Reading)]
                assert told[0] == told[1]
                assert not isinstance(told[0], oracle.UndefinedOutcome)


def test_endpoints_chosen_between_the_writes_of_a_change_may_answer_meanwhile() -> None:
    """The order in which a proxy receives the Service and the slices does not matter."""
    for change in LIVE:
        for cell, front in _given(change):
            policies = oracle.Policies(cell["internal"], cell["external"])
            for endpoints in _seen(change, front):
                for node in change.asked_from:
                    client = oracle.Client(cell["client"], node, node[0])
                    found = oracle.outcome(endpoints, client, to=front.address, policies=policies)
                    pods = found.pods if isinstance(found, oracle.AllowedPods) else set()
                    assert pods <= changes.meanwhile(change, front, node), (change.text, front, node)


def _seen(change: Change, front: ServiceAddress) -> Iterator[list[oracle.Endpoint]]:
    """Yield the endpoints of an address after each slice write, for a change and for its reversal.

    `name_in` gives their names.
    """
    for before, after in (change.cells, change.cells[::-1]):
        slices: dict[str, list[oracle.Endpoint]] = {}
        for each in change_steps.slices(before):
            _take(slices, each, before, front)
        for step in change_steps.between(before, after):
            _take(slices, step, after, front)
            if isinstance(step, Publish | Unpublish) and step.family == front.family:
                yield [endpoint for some in slices.values() for endpoint in some]


def _take(slices: dict[str, list[oracle.Endpoint]], step: Step, cell: Any, front: ServiceAddress) -> None:
    match step:
        case Publish(name, front.family, port, written) if port.protocol == front.protocol:
            judged = [cells.as_judged(each, cells.SERVERS[each.server]) for each in written]
            slices[name] = [replace(each, pod=changes.name_in(cell, each.pod)) for each in judged]
        case Publish(name, front.family) | Unpublish(name, front.family):
            slices.pop(name, None)


def _given(change: Change) -> Iterator[tuple[Any, ServiceAddress]]:
    return ((cell, front) for cell in change.cells for front in change.fronts if changes.given(cell, front))


@pytest.mark.parametrize("group", sorted({change_covering.group_of(each) for each in LIVE}))
def test_every_group_has_a_requirement_with_the_features_that_it_needs(group: tuple[str, bool]) -> None:
    name, hints = group
    own = "" if name == "core" else f"-{name.replace(' ', '-')}"
    requirement = SCENARIOS[f"INTERACTIONS/live{own}{'-hints' * hints}"].requirement
    mine = [cell for each in LIVE if change_covering.group_of(each) == group for cell in each.cells]
    needed = {
        LOAD_BALANCER: any(each["address"] == "load-balancer" for each in mine),
        EXTERNAL_IPS: any(each["address"] == "external-ip" for each in mine),
        IPV6_SERVICES: any("IPv6" in cells.families(each) for each in mine),
        SESSION_AFFINITY: any(each["affinity"] == "ClientIP" for each in mine),
    }
    assert CORE | {feature for feature, is_needed in needed.items() if is_needed} <= {*requirement.features}


def test_proxies_with_core_features_see_every_possible_ordered_pair() -> None:
    core = {change_covering.of(each)[0] for each in LIVE if change_covering.group_of(each)[0] == "core"}
    needing = {120, "load-balancer", "external-ip", "ClientIP", "dual", "pending"}
    assert [each for each in TRANSITIONS - core if not needing & {*each[1:]}] == []


class _UpdatableFakeCluster(FakeCluster):
    """A fake cluster that also supports updates of Services."""

    def patch_service(self, service: Service, patch: Any) -> None:
        service.object["spec"] |= patch["spec"]

    def unpublish(self, service: Service, name: str = "", *, families: Any = None) -> None:
        for family in families or service.object["spec"]["ipFamilies"]:
            del self._slices[service.name, name, family]


def test_change_has_the_same_result_as_its_own_scenario() -> None:
    for change in LIVE:
        stage = _UpdatableFakeCluster()
        names: dict[str, Callable[..., Any]] = {name: getattr(trafficdist, name) for name in SPOKEN}
        names |= {name: ON_STAGE[name] for name in ("expect_affinity", "expect_traffic")}
        exec(as_text(change), scope := names | {"replace": replace, "set_addresses": lambda *_: None})
        scope["test_change"](stage)
        said = [(each.client.node, len(each.expected) if isinstance(each.expected, set) else 0) for each in stage.said]
        assert sorted(said) == sorted(_told(change))


def _told(change: Change) -> Iterator[tuple[str, int]]:
    """Yield the number of possible answers for each client and each assigned address, there and back."""
    first, second = change.cells
    asked: dict[ServiceAddress, None] = {}
    spoken = False
    for cell in (first, second, first):
        asked |= {front: None for front in change.fronts if changes.given(cell, front)}
        rows = [changes.answers(change, cell, front) for front in asked]
        spoken |= any(any(row.values()) for row in rows)
        if spoken:
            yield from ((node, len(pods)) for row in rows for node, pods in row.items())


def test_a_part_of_the_grid_is_written_as_a_suite(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    main = runpy.run_module("conformance.interactions")["main"]
    assert main(["cell-7", "change-106"]) == 0
    file = tmp_path / "test_alone.py"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert {"test_cell_7", "test_change_106"} <= runpy.run_path(str(file)).keys()
    assert main(["cell-1000"]) == 4
    assert "cell-1000" in capsys.readouterr().err
    assert main([]) == 0
    assert capsys.readouterr().out.count("\n") > len(LIVE)
