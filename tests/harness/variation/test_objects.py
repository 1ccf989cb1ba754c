"""Drawn objects have the same meaning as the objects of the scenario."""

from typing import Any

import pytest

from harness.model import manifests
from harness.model.manifests import TCP, Endpoint, Hints, Port
from harness.variation import objects
from harness.variation.axes import AXES, DrawnValues, parse_draw, within_limits

ENDPOINTS = [
    Endpoint({"IPv4": f"10.0.0.{number}"}, node="a1", zone="a", hints=Hints(("a",)), ready=number != 3)
    for number in range(1, 8)
]
EVERY_DRAW = [DrawnValues(((axis, value),)) for axis, values in AXES.items() for value in list(values)[1:]]


def drawn(draw: DrawnValues, endpoints: list[Endpoint] = ENDPOINTS) -> list[dict[str, Any]]:
    ports = objects.ports(draw, [TCP])
    written = manifests.endpoint_slice("web-slice", "web", endpoints, ports=ports[:1])
    return objects.slices(draw, written, ports[:1], ports[1:])


def meaning(endpoint: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a proxy may read from an endpoint of a Service without policies, in a cluster of zone a."""
    conditions = endpoint.get("conditions") or {}
    ready = conditions.get("ready", True)
    return (
        endpoint["addresses"][0],
        [each for each in endpoint["hints"]["forZones"] if each["name"] == "a"] == [{"name": "a"}],
        ready,
        conditions.get("serving", ready),
        conditions.get("terminating", False),
    )


@pytest.mark.parametrize("draw", EVERY_DRAW, ids=str)
def test_all_draws_have_the_endpoints_of_the_scenario(draw: DrawnValues) -> None:
    wanted = {meaning(each.manifest("IPv4")) for each in ENDPOINTS}
    found = {meaning(each) for part in drawn(draw) for each in part["endpoints"]}
    assert found >= wanted
    assert all(each[2:] == (False, False, False) for each in found - wanted)  # others are not used by anybody


@pytest.mark.parametrize("draw", EVERY_DRAW, ids=str)
def test_all_slices_belong_to_the_service_and_have_different_names(draw: DrawnValues) -> None:
    parts = drawn(draw)
    assert {part["metadata"]["labels"]["kubernetes.io/service-name"] for part in parts} == {"web"}
    assert len({part["metadata"]["name"] for part in parts}) == len(parts)
    assert all(part["metadata"]["name"].startswith("web-slice") for part in parts)


def test_plain_draw_leaves_objects_as_they_are() -> None:
    written = manifests.endpoint_slice("web-slice", "web", ENDPOINTS)
    assert objects.slices(parse_draw("plain"), written) == [written]
    service = manifests.service("web")
    assert objects.service(parse_draw("plain"), service) == service


@pytest.mark.parametrize(("value", "most"), [("several", 3), ("each", 12)])
def test_endpoints_stay_in_their_slice_when_others_come_and_go(value: str, most: int) -> None:
    def slices(endpoints: list[Endpoint], before: dict[str, Any]) -> dict[str, Any]:
        written = manifests.endpoint_slice("web-slice", "web", endpoints)
        parts = objects.slices(parse_draw(f"slices={value}"), written, before=before)
        return {part["metadata"]["name"]: part for part in parts}

    def places(parts: dict[str, Any]) -> dict[str, str]:
        return {each["addresses"][0]: name for name, part in parts.items() for each in part["endpoints"]}

    few = slices(ENDPOINTS[2:], {})
    assert len(few) == min(most, len(ENDPOINTS) - 2)
    all_ = slices(ENDPOINTS, few)
    assert places(few).items() <= places(all_).items()
    assert places(slices(ENDPOINTS[4:], all_)).items() <= places(all_).items()
    assert len(all_) == min(most, len(ENDPOINTS))


def test_service_without_endpoints_has_a_slice() -> None:
    assert [part["endpoints"] for part in drawn(parse_draw("slices=each"), [])] == [[]]


def test_further_ports_have_another_protocol_or_number() -> None:
    ports = objects.ports(parse_draw("ports=more"), [TCP])
    assert ports[0] == Port(80, "TCP", objects.PORT_NAME)
    assert ("UDP", 80) in {(port.protocol, port.port) for port in ports[1:]}
    assert len({(port.protocol, port.port) for port in ports}) == len(ports) == len({port.name for port in ports})
    (part,) = drawn(parse_draw("ports=more"))
    assert [port["name"] for port in part["ports"]] == [port.name for port in ports]


def test_service_of_several_ports_keeps_them() -> None:
    two = (Port(80, name="web"), Port(81, name="other"))
    assert objects.ports(parse_draw("ports=more"), two) == two


def test_twelve_ports_differ() -> None:
    ports = objects.ports(parse_draw("ports=twelve"), [TCP])
    assert len(ports) == 12 == len({(port.protocol, port.port) for port in ports}) == len({p.name for p in ports})
    assert {("TCP", 80), ("UDP", 80)} < {(port.protocol, port.port) for port in ports}


def test_default_policies_are_written_if_the_scenario_has_none() -> None:
    draw = parse_draw("policies=written")
    assert objects.service(draw, manifests.service("web"))["spec"]["internalTrafficPolicy"] == "Cluster"
    local = objects.service(draw, manifests.service("web", type="NodePort", externalTrafficPolicy="Local"))["spec"]
    assert (local["externalTrafficPolicy"], local["internalTrafficPolicy"]) == ("Local", "Cluster")
    outside = objects.service(draw, manifests.service("web", type="NodePort"))["spec"]
    assert outside["externalTrafficPolicy"] == "Cluster"
    name = manifests.service("web", type="ExternalName", externalName="example.com")
    assert objects.service(draw, name) == name


@pytest.mark.parametrize(("value", "count"), [("two", 2), ("eight", 8)])
def test_hints_grow_by_zones_and_nodes_that_do_not_exist(value: str, count: int) -> None:
    same = Endpoint({"IPv4": "10.0.0.1"}, node="a1", hints=Hints(("a",), ("a1",)))
    bare = Endpoint({"IPv4": "10.0.0.2"})
    (part,) = drawn(parse_draw(f"hints={value}"), [same, bare])
    hinted, other = part["endpoints"]
    assert [len(each) for each in hinted["hints"].values()] == [count, count]
    assert [each[-1]["name"] for each in hinted["hints"].values()] == ["a", "a1"]
    assert "hints" not in other


@pytest.mark.parametrize(("value", "count"), [("unready", 4), ("many", 130)])
def test_further_endpoints_are_not_ready_and_have_hints(value: str, count: int) -> None:
    (part,) = drawn(parse_draw(f"endpoints={value}"))
    further = part["endpoints"][len(ENDPOINTS) :]
    assert len({each["addresses"][0] for each in further}) == count
    assert {each["conditions"]["ready"] for each in further} == {False}
    assert all(each["hints"] for each in further)
    (full,) = drawn(parse_draw(f"endpoints={value}"), ENDPOINTS * 142)
    assert len(full["endpoints"]) == 994 + min(count, 6)  # at most a thousand
    (alone,) = drawn(parse_draw(f"endpoints={value}"), [])
    assert len(alone["endpoints"]) == count


def test_further_addresses_follow_the_first() -> None:
    (part,) = drawn(parse_draw("addresses=several"))
    assert [each["addresses"][0] for each in part["endpoints"]] == [each.addresses["IPv4"] for each in ENDPOINTS]
    assert {len(each["addresses"]) for each in part["endpoints"]} == {3}


def test_endpoints_without_node_keep_their_zone() -> None:
    (part,) = drawn(parse_draw("addresses=nowhere"))
    assert {("nodeName" in each, each["zone"]) for each in part["endpoints"]} == {(False, "a")}


@pytest.mark.parametrize(
    ("service", "needs"),
    [
        (manifests.service("web"), False),
        (manifests.service("web", internalTrafficPolicy="Cluster"), False),
        (manifests.service("web", internalTrafficPolicy="Local"), True),
        (manifests.service("web", externalTrafficPolicy="Local"), True),
        (manifests.service("web", trafficDistribution="PreferSameNode"), True),
        (manifests.service("web", annotations={"service.kubernetes.io/topology-mode": "Auto"}), True),
        ({"spec": {"internalTrafficPolicy": "Local"}}, True),
        ({"spec": {"externalIPs": None}}, False),
    ],
)
def test_services_with_policies_or_hints_need_nodes(service: dict[str, Any], needs: bool) -> None:
    assert objects.needs_nodes(service) is needs


def test_newer_fields_are_an_owner_a_protocol_and_an_unknown_field() -> None:
    written = manifests.endpoint_slice("web-slice", "web", ENDPOINTS)
    owner = {"kind": "Namespace", "metadata": {"name": "here", "uid": "1"}}
    (part,) = objects.slices(parse_draw("extras=newer"), written, owner=owner)
    assert part["metadata"]["ownerReferences"][0]["uid"] == "1"
    assert {port["appProtocol"] for port in part["ports"]} == {"example.com/drawn"}
    assert part.keys() - written.keys() == {"drawnField"}


def test_expensive_values_vary_only_the_first_objects() -> None:
    draw = parse_draw("slices=each,order=reversed,neighbours=many")
    assert within_limits(draw, 1) == draw
    assert str(within_limits(draw, 100)) == "order=reversed,neighbours=many"
