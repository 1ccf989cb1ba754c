"""Which heuristic sets hints, and the hints of each endpoint. Source: KEP-4444, KEP-3015 and Kubernetes' releases."""

from __future__ import annotations

from typing import Any

import pytest

from reference.client import Object
from reference.endpointslice.hints import CpuHeuristic, NoHints, SameZoneOrNode, endpoint_hints, mechanism
from reference.features import Features
from tests.reference.endpointslice.objects import (
    AUTO,
    TOPOLOGY_MODE,
    endpoints,
    make_node,
    make_pod,
    make_service,
    plan,
    release,
    slices_for,
)

OLD_KEY = "service.kubernetes.io/topology-aware-hints"
ZONE_A = {"forZones": [{"name": "a"}]}
NODE_A1 = {"forZones": [{"name": "a"}], "forNodes": [{"name": "a1"}]}


def hints_of(value: str | None, pod: Object | None = None, **options: Any) -> Object | None:
    service = make_service(**({} if value is None else {"trafficDistribution": value}))
    (endpoint,) = endpoints(slices_for(service, [pod or make_pod()], **options))
    return endpoint.get("hints")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("PreferClose", ZONE_A),
        ("PreferSameZone", ZONE_A),
        ("PreferSameNode", NODE_A1),
        ("PreferSomethingNew", None),
        ("example.com/fastest", None),
        ("", None),
        (None, None),
    ],
)
def test_hints_name_the_endpoints_own_zone_or_node(value: str | None, expected: Object | None) -> None:
    assert hints_of(value) == expected


@pytest.mark.parametrize(
    ("version", "value", "expected"),
    [
        ("1.29", "PreferClose", None),
        ("1.30", "PreferClose", None),
        ("1.31", "PreferClose", ZONE_A),
        ("1.33", "PreferClose", ZONE_A),
        ("1.33", "PreferSameZone", None),
        ("1.33", "PreferSameNode", None),
        ("1.34", "PreferSameZone", ZONE_A),
        ("1.34", "PreferSameNode", NODE_A1),
        ("1.37", "PreferSameNode", NODE_A1),
    ],
)
def test_release_accepts_only_its_own_values(version: str, value: str, expected: Object | None) -> None:
    assert hints_of(value, features=release(version)) == expected


@pytest.mark.parametrize(
    ("features", "value", "expected"),
    [
        (release("1.30", ServiceTrafficDistribution=True), "PreferClose", ZONE_A),
        (release("1.31", ServiceTrafficDistribution=False), "PreferClose", None),
        (release("1.33", PreferSameTrafficDistribution=True), "PreferSameNode", NODE_A1),
        (release("1.34", PreferSameTrafficDistribution=False), "PreferSameNode", None),
        (release("1.34", PreferSameTrafficDistribution=False), "PreferClose", ZONE_A),
    ],
)
def test_a_gate_overrides_the_default_of_the_release(features: Features, value: str, expected: Object | None) -> None:
    assert hints_of(value, features=features) == expected


@pytest.mark.parametrize("value", ["PreferClose", "PreferSameZone", "PreferSameNode"])
@pytest.mark.parametrize("pod", [make_pod(ready=False), make_pod(terminating=True)])
def test_endpoint_that_is_not_ready_has_no_hints(value: str, pod: Object) -> None:
    assert hints_of(value, pod) is None


def test_published_endpoint_has_hints_because_it_counts_as_ready() -> None:
    service = make_service(trafficDistribution="PreferSameZone", publishNotReadyAddresses=True)
    (endpoint,) = endpoints(slices_for(service, [make_pod(ready=False)]))
    assert endpoint["hints"] == ZONE_A


def test_unknown_zone_leaves_only_the_node_hint() -> None:
    nodes = {"a1": make_node("a1", "")}
    assert hints_of("PreferSameNode", nodes=nodes) == {"forNodes": [{"name": "a1"}]}
    assert hints_of("PreferSameZone", nodes=nodes) is None


def test_releases_before_1_33_name_an_unknown_zone_with_an_empty_name() -> None:
    nodes = {"a1": make_node("a1", "")}
    assert hints_of("PreferClose", nodes=nodes, features=release("1.32")) == {"forZones": [{"name": ""}]}
    assert hints_of("PreferClose", nodes=nodes, features=release("1.33")) is None


def test_unknown_zone_and_node_mean_no_hints() -> None:
    decided_by = mechanism(make_service(trafficDistribution="PreferSameNode"), Features())
    assert endpoint_hints({"addresses": ["10.0.0.1"], "conditions": {"ready": True}}, decided_by) is None


@pytest.mark.parametrize("families", [["IPv4", "IPv6"]])
def test_both_families_are_hinted(families: list[str]) -> None:
    service = make_service(ipFamilies=families, trafficDistribution="PreferSameNode")
    slices = slices_for(service, [make_pod(ips=["10.244.1.1", "fd00::1"])])
    assert [each["hints"] for each in endpoints(slices)] == [NODE_A1, NODE_A1]


@pytest.mark.parametrize(
    ("annotations", "value", "expected"),
    [
        ({}, None, NoHints),
        (AUTO, "PreferClose", CpuHeuristic),
        ({TOPOLOGY_MODE: "auto"}, None, CpuHeuristic),
        ({OLD_KEY: "Auto"}, "PreferClose", CpuHeuristic),
        ({OLD_KEY: "auto", TOPOLOGY_MODE: "Disabled"}, None, CpuHeuristic),
        ({OLD_KEY: "Disabled", TOPOLOGY_MODE: "Auto"}, "PreferClose", SameZoneOrNode),
        ({OLD_KEY: "", TOPOLOGY_MODE: "Auto"}, "PreferClose", SameZoneOrNode),
        ({OLD_KEY: "", TOPOLOGY_MODE: "Auto"}, None, NoHints),
        ({TOPOLOGY_MODE: "Disabled"}, "PreferSameZone", SameZoneOrNode),
        ({TOPOLOGY_MODE: "AUTO"}, "PreferSameZone", SameZoneOrNode),
        ({TOPOLOGY_MODE: "example.com/other"}, "PreferSameZone", SameZoneOrNode),
        ({}, "unknown", NoHints),
    ],
)
def test_annotation_wins_over_the_field_and_the_old_annotation_over_the_new(
    annotations: dict[str, str], value: str | None, expected: type
) -> None:
    service = make_service(annotations=annotations, **({"trafficDistribution": value} if value else {}))
    assert type(mechanism(service, Features())) is expected


@pytest.mark.parametrize(
    ("version", "key", "expected"),
    [
        ("1.20", OLD_KEY, NoHints),
        ("1.23", OLD_KEY, NoHints),  # the gate is off by default
        ("1.24", OLD_KEY, CpuHeuristic),
        ("1.26", TOPOLOGY_MODE, NoHints),
        ("1.27", TOPOLOGY_MODE, CpuHeuristic),
        ("1.37", TOPOLOGY_MODE, CpuHeuristic),
    ],
)
def test_release_reads_only_its_own_annotations(version: str, key: str, expected: type) -> None:
    service = make_service(annotations={key: "Auto"})
    assert type(mechanism(service, release(version))) is expected


def test_annotation_hides_the_field_even_with_its_gate_off() -> None:
    service = make_service(annotations=AUTO, trafficDistribution="PreferClose")
    assert isinstance(mechanism(service, release("1.31", TopologyAwareHints=False)), NoHints)


def test_reason_names_the_annotation_that_decides() -> None:
    planned = plan(make_service(annotations=AUTO, trafficDistribution="PreferClose"), [make_pod()])
    assert (
        planned.mechanism.reason
        == f"annotation {TOPOLOGY_MODE} is Auto: hints are in proportion to the CPU of the zones"
    )


def test_reason_names_value_release_and_gates_when_the_value_is_unknown() -> None:
    planned = plan(make_service(trafficDistribution="PreferSameNode"), features=release("1.33"))
    assert planned.mechanism.reason == (
        "trafficDistribution PreferSameNode is unknown to this controller "
        "(Kubernetes 1.33, ServiceTrafficDistribution enabled, PreferSameTrafficDistribution disabled)"
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "PreferSameNode", NODE_A1),
        ("PreferSameNode", "PreferSameZone", ZONE_A),
        ("PreferSameZone", "PreferSameNode", NODE_A1),
        ("PreferSameNode", None, None),
        ("PreferSameNode", "unknown", None),
    ],
)
def test_changed_value_rewrites_the_slice(before: str | None, after: str | None, expected: Object | None) -> None:
    def service(value: str | None) -> Object:
        return make_service(**({"trafficDistribution": value} if value else {}))

    existing = slices_for(service(before), [make_pod()])
    planned = plan(service(after), [make_pod()], existing)
    assert (planned.create, planned.delete) == ((), ())
    assert endpoints(planned.update)[0].get("hints") == expected


def test_alias_of_a_value_writes_nothing() -> None:
    existing = slices_for(make_service(trafficDistribution="PreferClose"), [make_pod()])
    assert plan(make_service(trafficDistribution="PreferSameZone"), [make_pod()], existing).is_empty


def test_endpoint_that_became_unready_loses_its_hints_and_gets_them_back() -> None:
    service = make_service(trafficDistribution="PreferSameNode")
    existing = slices_for(service, [make_pod()])
    unready = slices_for(service, [make_pod(ready=False)], existing)
    assert "hints" not in endpoints(unready)[0]
    again = slices_for(service, [make_pod()], unready)
    assert endpoints(again)[0]["hints"] == NODE_A1


def test_node_that_changed_zone_changes_zone_and_hint() -> None:
    service = make_service(trafficDistribution="PreferSameZone")
    existing = slices_for(service, [make_pod()])
    planned = plan(service, [make_pod()], existing, nodes={"a1": make_node("a1", "z")})
    (endpoint,) = endpoints(planned.update)
    assert (endpoint["zone"], endpoint["hints"]) == ("z", {"forZones": [{"name": "z"}]})


@pytest.mark.parametrize(
    "tampered",
    [None, {}, {"forZones": [{"name": "b"}]}, {"forZones": [{"name": "a"}, {"name": "b"}]}, NODE_A1],
)
def test_changed_hints_are_corrected(tampered: Object | None) -> None:
    service = make_service(trafficDistribution="PreferSameZone")
    (existing,) = slices_for(service, [make_pod()])
    (endpoint,) = existing["endpoints"]
    existing["endpoints"] = [{**endpoint, "hints": tampered}]
    assert endpoints(plan(service, [make_pod()], [existing]).update)[0]["hints"] == ZONE_A
