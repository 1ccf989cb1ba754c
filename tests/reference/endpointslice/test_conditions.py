"""The computed conditions of a Service. Source: KEP-4444, Status Reporting."""

from __future__ import annotations

from typing import Any

import pytest

from reference.client import Object
from reference.endpointslice.conditions import (
    ACCEPTED,
    HONORED,
    PROGRAMMED,
    Condition,
    accepted,
    honored,
    merged,
    programmed,
)
from reference.endpointslice.hints import mechanism
from reference.features import Features
from tests.reference.endpointslice.objects import AUTO, make_node, make_pod, make_service, release, slices_for

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def accepted_for(value: str, features: Features | None = None) -> Condition:
    service = make_service(trafficDistribution=value)
    return accepted(mechanism(service, features or Features(), {"example.org/Known"}))


@pytest.mark.parametrize("value", ["PreferClose", "PreferSameZone", "PreferSameNode", "example.org/Known"])
def test_effective_value_is_accepted(value: str) -> None:
    found = accepted_for(value)
    assert (found.type, found.status, found.reason) == (ACCEPTED, "True", "Supported")


@pytest.mark.parametrize(
    ("value", "features"),
    [
        ("example.org/Other", Features()),
        ("PreferSameNode", release("1.33")),
    ],
)
def test_unknown_value_is_not_accepted(value: str, features: Features) -> None:
    found = accepted_for(value, features)
    assert (found.status, found.reason) == ("False", "Unsupported")


@pytest.mark.parametrize(
    ("value", "features"),
    [
        ("PreferClose", Features()),
        ("PreferClose", release("1.31", TopologyAwareHints=False)),
        ("example.org/Known", Features()),
    ],
)
def test_value_under_the_annotation_is_not_programmed(value: str, features: Features) -> None:
    service = make_service(trafficDistribution=value, annotations=AUTO)
    decided_by = mechanism(service, features, {"example.org/Known"})
    found = programmed(accepted_for(value, features), decided_by, slices_for(service, [make_pod()]), "")
    assert (found.status, found.reason) == ("False", "OverriddenByAnnotation")


def programmed_for(value: str = "PreferSameNode", *pods: Any, tamper: Any = None, **options: Any) -> Condition:
    service = make_service(trafficDistribution=value)
    slices = slices_for(service, pods, **options)
    for each in slices if tamper else ():
        each["endpoints"] = [{**one, "hints": tamper(one)} for one in each["endpoints"]]
    decided_by = mechanism(service, Features())
    return programmed(accepted(decided_by), decided_by, slices, "")


def test_hints_on_every_ready_endpoint_are_programmed() -> None:
    found = programmed_for("PreferSameZone", make_pod("p1"), make_pod("p2", ready=False))
    assert (found.type, found.status, found.reason) == (PROGRAMMED, "True", "HintsPopulated")


def test_nothing_is_programmed_without_ready_endpoints() -> None:
    assert programmed_for("PreferSameZone", make_pod(ready=False)).reason == "NoReadyEndpoints"
    assert programmed_for("PreferSameZone").reason == "NoReadyEndpoints"


def test_endpoint_without_zone_is_named() -> None:
    nodes = {"a1": make_node("a1"), "n1": make_node("n1", "")}
    found = programmed_for("PreferSameZone", make_pod("p1", "a1"), make_pod("p2", "n1"), nodes=nodes)
    assert (found.status, found.reason) == ("False", "EndpointWithoutZone")
    assert found.message.endswith("1 of 2 ready endpoints have no hints, so proxies ignore the hints of the others: p2")


def test_hints_that_were_not_stored_are_not_programmed() -> None:
    assert programmed_for("PreferSameZone", make_pod(), tamper=lambda _: None).reason == "EndpointWithoutHints"
    zones_only = programmed_for("PreferSameNode", make_pod(), tamper=lambda one: {"forZones": [{"name": one["zone"]}]})
    assert zones_only.reason == "EndpointWithoutNodeHints"


def test_value_that_is_not_accepted_is_neither_programmed_nor_honored() -> None:
    decided_by = mechanism(make_service(trafficDistribution="example.org/Other"), Features())
    found = programmed(accepted(decided_by), decided_by, [], "")
    assert (found.status, found.reason) == ("False", "NotAccepted")
    assert (honored(found, [], []).status, honored(found, [], []).reason) == ("False", "NotProgrammed")


def test_failed_sync_is_not_programmed() -> None:
    decided_by = mechanism(make_service(trafficDistribution="PreferSameZone"), Features())
    found = programmed(accepted(decided_by), decided_by, [], "refused")
    assert (found.status, found.reason, found.message) == ("False", "SyncFailed", "refused")


DONE = Condition(PROGRAMMED, "True", "HintsPopulated", "")


@pytest.mark.parametrize(
    ("behind", "silent", "status", "named"),
    [
        ([], [], "True", []),
        (["a1"], [], "False", ["a1"]),
        (["a1"], ["b1"], "False", ["a1", "b1"]),
        ([], ["b1"], "Unknown", ["b1"]),
        ([], [f"n{n:02}" for n in range(12)], "Unknown", ["n09 and 2 more"]),
    ],
)
def test_hints_are_honored_when_every_node_acknowledged_them(
    behind: list[str], silent: list[str], status: str, named: list[str]
) -> None:
    found = honored(DONE, behind, silent)
    assert (found.type, found.status) == (HONORED, status)
    assert all(name in found.message for name in named)


def present(**fields: Any) -> Object:
    return {
        "type": PROGRAMMED,
        "status": "True",
        "lastTransitionTime": THEN,
        "reason": "HintsPopulated",
        "message": "",
        **fields,
    }


def test_unchanged_conditions_are_not_written() -> None:
    assert merged([present()], [DONE], generation=None, now=NOW) is None
    assert merged([], [], generation=None, now=NOW) is None


@pytest.mark.parametrize(
    ("before", "since"),
    [({"status": "False"}, NOW), ({"reason": "Other"}, THEN), ({"message": "other"}, THEN)],
)
def test_transition_time_changes_only_with_the_status(before: dict[str, str], since: str) -> None:
    assert merged([present(**before)], [DONE], generation=None, now=NOW) == [present(lastTransitionTime=since)]


def test_observed_generation_is_that_of_the_service() -> None:
    (found,) = merged([present()], [DONE], generation=7, now=NOW) or ()
    assert found["observedGeneration"] == 7


def test_disabled_controller_removes_only_its_own_conditions() -> None:
    other = {"type": "example.org/TrafficDistributionAccepted", "status": "True"}
    assert merged([present(), other], [], generation=None, now=NOW) == [other]
    assert merged([other], [DONE], generation=None, now=NOW) == [other, present(lastTransitionTime=NOW)]
