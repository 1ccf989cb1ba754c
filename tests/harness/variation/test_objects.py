"""Drawn objects have the same meaning as the objects of the scenario."""

from typing import Any

import pytest

from harness.model import manifests
from harness.model.manifests import TCP, Endpoint, Hints, Port
from harness.variation import objects
from harness.variation.axes import AXES, Draw, parse_draw

ENDPOINTS = [
    Endpoint({"IPv4": f"10.0.0.{number}"}, node="a1", zone="a", hints=Hints(("a",)), ready=number != 3)
    for number in range(1, 8)
]
EVERY_DRAW = [Draw(((axis.name, value),)) for axis in AXES for value in axis.values if value != axis.plain]


def drawn(draw: Draw, endpoints: list[Endpoint] = ENDPOINTS) -> list[dict[str, Any]]:
    ports = objects.ports(draw, [TCP])
    written = manifests.endpoint_slice("web-slice", "web", endpoints, ports=ports[:1])
    return objects.slices(draw, written, ports[:1], ports[1:])


def meaning(endpoint: dict[str, Any]) -> tuple[Any, ...]:
    conditions = endpoint.get("conditions") or {}
    ready = conditions.get("ready", True)
    return (
        tuple(endpoint["addresses"]),
        endpoint["nodeName"],
        str(endpoint["hints"]),
        ready,
        conditions.get("serving", ready),
        conditions.get("terminating", False),
    )


@pytest.mark.parametrize("draw", EVERY_DRAW, ids=str)
def test_all_draws_have_the_endpoints_of_the_scenario(draw: Draw) -> None:
    wanted = {meaning(each.manifest("IPv4")) for each in ENDPOINTS}
    assert {meaning(each) for part in drawn(draw) for each in part["endpoints"]} == wanted


@pytest.mark.parametrize("draw", EVERY_DRAW, ids=str)
def test_all_slices_belong_to_the_service_and_have_different_names(draw: Draw) -> None:
    parts = drawn(draw)
    assert {part["metadata"]["labels"]["kubernetes.io/service-name"] for part in parts} == {"web"}
    assert len({part["metadata"]["name"] for part in parts}) == len(parts)
    assert all(part["metadata"]["name"].startswith("web-slice") for part in parts)


def test_plain_draw_leaves_objects_as_they_are() -> None:
    written = manifests.endpoint_slice("web-slice", "web", ENDPOINTS)
    assert objects.slices(parse_draw("plain"), written) == [written]
    service = manifests.service("web")
    assert objects.service(parse_draw("plain"), service) == service


def test_endpoints_stay_in_their_slice_when_others_come_and_go() -> None:
    def places(endpoints: list[Endpoint]) -> dict[str, str]:
        parts = drawn(parse_draw("slices=each"), endpoints)
        return {each["addresses"][0]: part["metadata"]["name"] for part in parts for each in part["endpoints"]}

    assert places(ENDPOINTS[2:]).items() <= places(ENDPOINTS).items()
    assert len(set(places(ENDPOINTS).values())) > 1


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
