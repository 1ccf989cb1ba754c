"""Tests of the words for what a failed scenario observed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judging import comparison, verdict
from harness.judging.case_events import CaseEvents, ComparedValues, WindowRecord
from harness.judging.differences import (
    ANSWERED,
    HINTED_ELSEWHERE,
    IPV6,
    LEFT_NODE,
    LEFT_ZONE,
    MASKED,
    NARROW,
    NODE_CLIENT,
    NOT_DROPPED,
    NOT_REFUSED,
    OTHERS,
    REFUSED,
    REMOVED,
    SILENT,
    SILENT_DURING,
    TERMINATING,
    UDP,
    UNREADY,
    UNSEEN,
    differences,
)
from harness.judging.timeline import Change
from harness.judging.verdict import NO_ANSWER, AnyOf, Expected, Tally
from harness.model.outcomes import REFUSED as REFUSAL
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Refused, TimedOut

ENOUGH = 400


def window(
    client: str, expected: Expected, *seen: Observation, title: str = "", of: tuple[str, str] = ("web", "cluster-ip")
) -> WindowRecord:
    """Return a failed window in which each of these observations occurs often."""
    expectation = {client: expected}
    made = WindowRecord(9.0, expectation, verdict.plans(expectation), of, title=title)
    made.tallies = {client: Tally.of(each for each in seen for _ in range(ENOUGH))}
    made.judgement = verdict.judge(expectation, made.tallies, made.plans)
    assert made.judgement.verdict == "failed"
    return made


def texts(story: CaseEvents) -> list[str]:
    return [each.text for each in differences(story)]


A1, A2, B1 = Reached("a1"), Reached("a2"), Reached("b1")


@pytest.mark.parametrize(
    ("client", "expected", "seen", "text"),
    [
        ("a2", {"a1"}, [A1, B1], [LEFT_ZONE]),
        ("a1", {"a1"}, [A2], [LEFT_NODE]),
        ("outside via a1", {"a1"}, [B1], [LEFT_NODE, LEFT_ZONE]),
        ("a1", {"b1"}, [A1], [OTHERS]),
        ("a1", {"a1", "b1"}, [A1], [NARROW]),
        ("c1", {"a1", "b1"}, [A1], [UNSEEN]),
        ("a1", {"a1"}, [Refused("ECONNREFUSED")], [REFUSED]),
        ("a1", {"a1"}, [TimedOut()], [SILENT]),
        ("a1", NO_ANSWER, [B1], [ANSWERED]),
        ("a1", TIMED_OUT, [Refused()], [NOT_DROPPED]),
        ("a1", REFUSAL, [TimedOut()], [NOT_REFUSED]),
    ],
)
def test_text_follows_from_client_and_expectation(
    client: str, expected: Expected, seen: list[Observation], text: list[str]
) -> None:
    assert texts(CaseEvents(windows=[window(client, expected, *seen)])) == text


def test_lost_connections_of_steady_traffic_are_apart() -> None:
    steady = window("a1", AnyOf(frozenset({"a1"})), A1, TimedOut())
    steady.flows = {"a1": [(1.0, A1), (2.0, TimedOut())]}
    assert texts(CaseEvents(windows=[steady])) == [SILENT_DURING]


def endpoint(node: str, **fields: Any) -> dict[str, Any]:
    return {"addresses": [f"10.0.0.{'abc'.index(node[0])}"], "nodeName": node, **fields}


def written(*endpoints: dict[str, Any], at: float = 1.0) -> Change:
    return Change(at, "write slice", {"slice": "web-slice-ipv4", "endpoints": list(endpoints)})


def for_zone(zone: str) -> dict[str, Any]:
    return {"hints": {"forZones": [{"name": zone}]}}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([written(endpoint("a1"), endpoint("b1", conditions={"ready": False}))], [UNREADY]),
        ([written(endpoint("b1", conditions={"ready": False, "terminating": True}))], [TERMINATING]),
        ([written(endpoint("a1"), endpoint("b1")), written(endpoint("a1"), at=2.0)], [REMOVED]),
        ([written(endpoint("b1")), written({**endpoint("b1"), "nodeName": None}, at=2.0)], [LEFT_ZONE]),
        ([written(endpoint("a1"), endpoint("b1")), written(endpoint("a1"), at=99.0)], [LEFT_ZONE]),
        ([written(endpoint("a1", **for_zone("a")), endpoint("b1", **for_zone("b")))], [LEFT_ZONE, HINTED_ELSEWHERE]),
        ([written(endpoint("a1", **for_zone("a")), endpoint("b1", **for_zone("a")))], [LEFT_ZONE]),
        ([written(endpoint("a1"), endpoint("b1", **for_zone("b")))], [LEFT_ZONE]),
    ],
)
def test_text_follows_from_the_endpoints_that_the_scenario_wrote(changes: list[Change], text: list[str]) -> None:
    assert texts(CaseEvents(changes=changes, windows=[window("a2", {"a1"}, B1)])) == text


def test_conditions_are_those_of_all_clients_concerned() -> None:
    story = CaseEvents(
        windows=[
            window("node a1", {"a1"}, TimedOut(), title="UDP to the node-port of web, IPv6", of=("web", "node-port")),
            window("a1 in pod at node-port over IPv6 UDP", {"a1"}, TimedOut(), of=("web", "node-port")),
        ]
    )
    (found,) = differences(story)
    assert found.conditions == (IPV6, UDP, "node-port")
    (found,) = differences(CaseEvents(windows=story.windows[:1]))
    assert NODE_CLIENT in found.conditions


def test_service_with_ipv6_slices_alone_uses_ipv6() -> None:
    slices = [Change(at, "write slice", {"slice": f"web-slice-ipv{at:.0f}", "endpoints": []}) for at in (6.0, 4.0)]
    for changes, conditions in ((slices[:1], (IPV6,)), (slices, ())):
        (found,) = differences(CaseEvents(changes=changes, windows=[window("a1", {"a1"}, TimedOut())]))
        assert found.conditions == conditions


def test_passed_and_unjudged_windows_have_no_difference() -> None:
    made = window("a1", {"a1"}, B1)
    made.judgement = None
    assert differences(CaseEvents(windows=[made])) == []


def compared(what: str, expected: Any, observed: Any) -> list[str]:
    judgement = comparison.judge(what, expected, observed)
    return texts(CaseEvents(compared=[ComparedValues(what, judgement.verdict, expected, observed)]))


HINTS = "IPv4 endpoints and hints of service web-1 after at most the declared 5 s"
NO_HINTS = "no hints"


@pytest.mark.parametrize(
    ("what", "expected", "observed", "text"),
    [
        (HINTS, {"p1": "zones=a"}, {"p1": NO_HINTS}, "EndpointSlices lack hints"),
        (HINTS, {"p1": NO_HINTS}, {"p1": "zones=a"}, "EndpointSlices have hints that should not be there"),
        (HINTS, {"p1": "zones=a"}, {"p1": "zones=b"}, "EndpointSlices have hints for wrong zones or nodes"),
        (HINTS, {"p1": "zones=a", "p2": "zones=b"}, {"p1": "zones=a"}, "EndpointSlices lack endpoints"),
        (HINTS, {}, {"p1": "zones=a"}, "EndpointSlices have endpoints that should not be there"),
        (
            "answer to A web-1.td-gw0-7.svc.cluster.local.",
            {"rcode": "NOERROR", "data": ["10.96.1.5"]},
            {"rcode": "NXDOMAIN", "data": []},
            "the DNS server answers NXDOMAIN instead of NOERROR",
        ),
        (
            "answer to A web-1.",
            {"rcode": "NOERROR", "data": ["10.96.1.5"]},
            {"rcode": "NOERROR", "data": []},
            "the DNS server answers without the expected records",
        ),
        (
            "answer to hints for nine zones",
            {"code": 422, "field": "x"},
            "accepted",
            "the API server does not refuse an invalid object",
        ),
        ("traffic of web-1 became as expected within 5 s", True, False, "changes do not reach packets in time"),
        ("the dns-server", "runs", "has exited", "the dns-server stops"),
        ("wrong first answer", "none", "node b2 in change-1 at external-ip saw TimedOut", SILENT),
        ("the flow of a2 is answered by", "b1", "Refused", REFUSED),
        ("connection of a2 to web-1", "Reached", "TimedOut", SILENT),
        ("wrong answer by TCP to the cluster-ip of web-1, IPv6", "none", "a1 got no answer", SILENT),
        ("address of a1 as the server sees it", ["10.0.0.1"], ["10.0.0.9"], MASKED),
        ("records of service web-1 live for at most 30 s", True, False, "records of service … live for at most … s"),
    ],
)
def test_comparisons_are_described(what: str, expected: Any, observed: Any, text: str) -> None:
    (found,) = compared(what, expected, observed)
    assert found.removesuffix(": another value than expected") == text


def test_wrong_answers_without_expectation_may_mean_several_things() -> None:
    what, observed = "wrong first answer", "b2 in change-36 at cluster-ip over IPv4 UDP reached a2"
    found = differences(CaseEvents(compared=[ComparedValues(what, verdict.Verdict.FAILED, "none", observed)]))
    assert [(each.text, each.sure) for each in found] == [(LEFT_NODE, False), (LEFT_ZONE, False), (OTHERS, True)]
    assert {each.conditions for each in found} == {(UDP,)}
