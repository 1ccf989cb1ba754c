"""Tests what a rehearsal notes of a test, and where it ends."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from conformance.features import LOSSLESS_CHANGES
from harness.judging.statistics import Rates
from harness.judging.verdict import AnyOf
from harness.plugin.suite import rehearsed
from harness.scenario import traffic
from harness.scenario.concurrent_traffic import ExpectedTraffic, expect_concurrent_traffic, expect_traffic_during
from harness.scenario.eventual_state import controller_metrics, expect_eventually
from harness.scenario.hints import expect_hints
from harness.scenario.rehearsal import ExpectedRecords, RehearsableCase, RunFacts, fits, rehearse
from harness.scenario.traffic import expect_traffic
from harness.scenario.transitions import LOSSES, expect_flow_moves, expect_no_loss
from trafficdist import NO_ANSWER, Cluster, Hints, Service, external_client, same_zone

FEW, OTHER = Rates(leak=0.25), Rates(leak=0.4)
FROM_A1 = {"a1": frozenset({"a1"})}


def foreseen(test: Any, **arguments: Any) -> ExpectedRecords:
    assert isinstance(test, FunctionType)
    return rehearse([RehearsableCase("K/x", "", test, arguments)], RunFacts())["K/x", ""]


def expect_outside(cluster: Cluster, service: Service, rates: Rates) -> None:
    expect_traffic(cluster, service, {external_client("b1"): NO_ANSWER}, to="node-port", rates=rates)


def test_windows_and_comparisons_are_noted_in_order() -> None:
    def scenario(three_zones: Cluster, kept: bool) -> None:
        service = three_zones.create_service()
        a1, again, b1 = three_zones.run_servers(on=["a1", "a1", "b1"])
        three_zones.publish(service, [same_zone(a1), same_zone(b1)])
        expect_traffic(three_zones, service, {"a1": {a1}, b1: {again, b1}})
        with expect_no_loss(three_zones, service, from_=["a1"], allowed={a1}):
            expect_outside(three_zones, service, FEW)
        expect_concurrent_traffic(three_zones, [ExpectedTraffic(service.name, service, {"c1": {a1}}, kept=kept)])
        expect_hints(three_zones, service, {"p2": None, "p1": Hints(("a",))})

    found = foreseen(scenario, kept=False)
    in_time = ("traffic of service web-1 became as expected within ", True)
    hints = {"p1": "zones=a", "p2": "no hints"}
    assert found.windows == [
        ({"a1": {"a1"}, "pod b1": {"a1-2", "b1"}}, Rates()),
        ({"a1": AnyOf(frozenset({"a1"}))}, LOSSES),
        ({"outside via b1": NO_ANSWER}, FEW),
        ({"c1 in web-1": {"a1"}}, Rates()),
    ]
    assert found.compared == [
        in_time,
        ("wrong answer by ", "none"),
        in_time,
        ("traffic of web-1 became as expected within ", True),
        (" endpoints and hints of service web-1 ", hints),
    ]
    assert [
        (fits(what, "the IPv6 endpoints of service web-1, left alone"), each) for what, each in found.left.items()
    ] == [(True, [hints])]
    assert found.rates == {FEW}
    assert found.complete
    assert foreseen(scenario, kept=True).windows[-1] == ({"c1 in web-1": AnyOf(frozenset({"a1"}))}, Rates())


def test_flows_changes_and_values_are_noted_when_they_are_compared() -> None:
    def scenario(three_zones: Cluster) -> None:
        service = three_zones.create_service()
        a1, b1 = three_zones.run_servers(on=["a1", "b1"])
        with expect_flow_moves(three_zones, service, external_client("a1"), before=a1, after=b1):
            three_zones.expect_within("writes", 0, 3, observed=2)
        with expect_flow_moves(three_zones, service, "a2", before=b1, after=None):
            controller_metrics(three_zones).expect("syncs", {"result": "success"}, by=1)
        expect_eventually(three_zones, f"answer of {service.object}", str, expected=["yes"], stays=True)
        three_zones.expect_equal("the address", expected=service.object["spec"], observed="")
        with expect_traffic_during(three_zones, [ExpectedTraffic("q", service, {"a1": {a1, b1}})]):
            three_zones.expect_equal("a pair", expected={"a": 1}, observed={})

    found = foreseen(scenario)
    assert found.compared == [
        ("connection of outside via a1 to web-1", "Reached"),
        ("first server of the flow of outside via a1", "a1"),
        ("writes", [0, 3]),
        ("server of the flow of outside via a1", "b1"),
        ("connection of a2 to web-1", "Reached"),
        ("first server of the flow of a2", "b1"),
        ("metric syncs{result=success} of endpointslice-controller has changed by", 1),
        ("server of the flow of a2", frozenset({"TimedOut", "Refused"})),
        (found.compared[8][0], ["yes"]),
        ("a pair", {"a": 1}),
        ("outcomes that are wrong before, during and after a change", {}),
    ]
    assert fits(found.compared[8][0], "answer of anything")
    assert not fits(found.compared[8][0], "answers of anything")
    assert not found.complete  # the address is unknown


def test_facts_of_a_run_decide() -> None:
    def scenario(three_zones: Cluster) -> None:
        service = three_zones.create_service()
        pods = three_zones.run_servers(on=["a1", "b1"])[: len(three_zones.families)]
        if three_zones.claims(LOSSLESS_CHANGES):
            expect_traffic(three_zones, service, {"a1": set(pods)})

    case = [RehearsableCase("K/x", "", scenario, {})]
    assert not rehearse(case, RunFacts(frozenset({LOSSLESS_CHANGES.name})))["K/x", ""].windows
    assert rehearse(case, RunFacts(families=("IPv4",)))["K/x", ""].windows == [(FROM_A1, Rates())]
    assert rehearse(case, RunFacts())["K/x", ""].windows == [({"a1": {"a1", "b1"}}, Rates())]


def test_rehearsal_ends_at_what_only_a_cluster_knows() -> None:
    def scenario(three_zones: Cluster) -> None:
        [a1] = three_zones.run_servers(on=["a1"])
        service = three_zones.create_service("web")
        expect_traffic(three_zones, service, {"a1": {a1}})
        if three_zones.api.get("services", three_zones.namespace, "web")["spec"]["clusterIP"]:
            expect_traffic(three_zones, service, {"a1": {a1}}, rates=OTHER)

    def broken(three_zones: Cluster) -> None:
        expect_traffic(three_zones, three_zones.create_service(), {three_zones.running[0].node: NO_ANSWER})

    assert foreseen(scenario).windows == [(FROM_A1, Rates())]
    assert foreseen(scenario).rates == {OTHER}
    assert foreseen(broken) == ExpectedRecords()
    assert expect_traffic is traffic.expect_traffic  # nothing stays replaced


def test_most_cases_of_the_suite_are_foreseen() -> None:
    cases = rehearsed()[1](RunFacts())
    assert sum(bool(each.windows or each.compared) for each in cases.values()) > len(cases) * 0.9
    assert sum(len(each.windows) for each in cases.values()) > 1650
    assert sum(len(each.compared) for each in cases.values()) > 1850
