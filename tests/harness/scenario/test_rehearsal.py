"""Tests what a rehearsal notes of a test, and where it ends."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from harness.judging.statistics import Rates
from harness.plugin.suite import rehearsed
from harness.scenario import traffic
from harness.scenario.concurrent_traffic import Question, expect_concurrent_traffic
from harness.scenario.hints import expect_hints
from harness.scenario.rehearsal import Foreseen, Rehearsable, rehearse
from harness.scenario.traffic import expect_traffic
from harness.scenario.transitions import expect_no_loss
from trafficdist import NO_ANSWER, Cluster, Hints, Service, external_client, same_zone

FEW, OTHER = Rates(leak=0.25), Rates(leak=0.4)
FROM_A1 = {"a1": frozenset({"a1"})}


def foreseen(test: Any, **arguments: Any) -> Foreseen:
    assert isinstance(test, FunctionType)
    return rehearse([Rehearsable("K/x", "", test, arguments)])["K/x", ""]


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
        expect_concurrent_traffic(three_zones, [Question(service.name, service, {"c1": {a1}}, kept=kept)])
        expect_hints(three_zones, service, {"p2": None, "p1": Hints(("a",))})

    found = foreseen(scenario, kept=False)
    assert found.windows == [
        ({"a1": {"a1"}, "pod b1": {"a1-2", "b1"}}, Rates()),
        ({"outside via b1": NO_ANSWER}, FEW),
        ({"c1 in web-1": {"a1"}}, Rates()),
    ]
    assert found.compared == [(" endpoints and hints of service web-1 ", {"p1": "zones=a", "p2": "no hints"})]
    assert found.rates == {FEW}
    assert len(foreseen(scenario, kept=True).windows) == 2  # a client keeps a pod that only a run can know


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
    assert foreseen(broken) == Foreseen()
    assert expect_traffic is traffic.expect_traffic  # nothing stays replaced


def test_most_cases_of_the_suite_are_foreseen() -> None:
    cases = rehearsed()[1]()
    assert sum(bool(each.windows or each.compared) for each in cases.values()) > len(cases) * 0.6
    assert sum(len(each.windows) for each in cases.values()) > 700
    assert sum(len(each.compared) for each in cases.values()) > 450
