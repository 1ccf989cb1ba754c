"""Decisions become map entries, and endpoints keep their slots."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.proxy import ruleset
from reference.proxy.decision import Endpoint, OwnNode, ServicePort, decide
from reference.proxy.nft_text import text
from reference.proxy.ruleset import (
    LOCAL_LIST,
    MOST_ENDPOINTS,
    DecodedMark,
    PortEntries,
    RuleAction,
    Ruleset,
    ServiceAddress,
    StickyEndpoints,
    identities,
    mark,
    place,
    render,
)

HERE, ELSEWHERE = Endpoint("10.244.1.2", 8080, node="a1"), Endpoint("10.244.3.2", 8080, node="b1")
PORT = ServicePort("default", "web", "", "TCP", 80, cluster_ips=("10.96.0.1",))
EXPOSED = replace(PORT, node_port=30080, load_balancer_ips=("198.18.1.1",), external_ips=("198.19.1.1",))
EXTERNAL = [
    ServiceAddress("198.18.1.1", "TCP", 80),
    ServiceAddress("198.19.1.1", "TCP", 80),
    ServiceAddress("10.0.0.2", "TCP", 30080),
]
CLUSTER_IP = ServiceAddress("10.96.0.1", "TCP", 80)


def entries(port: ServicePort, *endpoints: Endpoint) -> PortEntries:
    return render(port, decide(port, endpoints, OwnNode("a1", "a")), "a1", ["10.0.0.2"])


def test_a_cluster_ip_service_is_one_frontend() -> None:
    rendered = entries(PORT, HERE, ELSEWHERE)

    assert rendered.services == {CLUSTER_IP: (("10.244.1.2", 8080), ("10.244.3.2", 8080))}
    assert (rendered.external, rendered.hairpin) == ({}, {"10.244.1.2"})


def test_endpoint_without_node_name_may_connect_to_itself() -> None:
    nowhere = HERE._replace(node="", address="10.244.1.9")
    assert entries(PORT, nowhere, ELSEWHERE).hairpin == {"10.244.1.9"}


def test_every_external_address_is_a_frontend_of_its_own() -> None:
    assert set(entries(EXPOSED, HERE).services) == {CLUSTER_IP, *EXTERNAL}


def test_external_local_policy_has_another_list_for_traffic_from_outside() -> None:
    rendered = entries(replace(EXPOSED, external_local=True), HERE, ELSEWHERE)

    both, local = (("10.244.1.2", 8080), ("10.244.3.2", 8080)), (("10.244.1.2", 8080),)
    assert rendered.external == dict.fromkeys(EXTERNAL, local)
    assert rendered.services == dict.fromkeys([CLUSTER_IP, *EXTERNAL], both)


def test_external_cluster_policy_needs_no_other_list() -> None:
    assert entries(EXPOSED, HERE).external == {}


def test_drop_and_reject_are_targets() -> None:
    local = replace(EXPOSED, internal_local=True, external_local=True)

    assert entries(local, ELSEWHERE).services[CLUSTER_IP] == "drop"
    assert set(entries(local, ELSEWHERE).external.values()) == {"drop"}
    assert set(entries(local).services.values()) == {"reject"}


def test_marks_are_counts_with_local_lists_apart() -> None:
    two = (("10.244.1.2", 80), ("10.244.1.3", 80))

    assert (mark("services", two), mark("external", two)) == (2, 0x4002)
    assert (mark("services", "drop"), mark("external", "reject")) == (0, 0x4000)


def test_affinity_is_in_the_mark_and_changes_no_slot() -> None:
    ports = [replace(EXPOSED, external_local=True, affinity_seconds=each) for each in (0, 10_800)]
    plain, sticky = (entries(port, HERE, ELSEWHERE) for port in ports)

    action = sticky.services[CLUSTER_IP]
    assert action == StickyEndpoints(plain.services[CLUSTER_IP], 10_800)  # type: ignore[arg-type]
    assert mark("services", action) == 10_800 << 15 | 2
    assert DecodedMark.of(mark("external", action)) == (2, 0x4000, 10_800)
    assert sticky.external[EXTERNAL[0]] == StickyEndpoints((HERE[:2],), 10_800)


def test_identities_are_different_for_different_backends_of_one_frontend() -> None:
    endpoints = [(f"10.{each >> 16}.{each >> 8 & 255}.{each & 255}", 80) for each in range(1 << 17)]

    for name, bit in (("services", 0), ("external", LOCAL_LIST)):
        found = identities(name, endpoints)  # type: ignore[arg-type]
        assert len(set(found)) == len(endpoints)
        assert {each & LOCAL_LIST for each in found} == {bit}


def test_service_with_too_many_endpoints_uses_as_many_as_fit() -> None:
    endpoints = [Endpoint(f"10.{each >> 8}.{each & 255}.1", 80) for each in range(MOST_ENDPOINTS + 5)]

    action = entries(PORT, *endpoints).services[CLUSTER_IP]

    assert DecodedMark.of(mark("services", action)) == (MOST_ENDPOINTS, 0, 0)


A, B, C, D = (("10.244.1.1", n) for n in range(4))


@pytest.mark.parametrize(
    ("current", "wanted", "slots"),
    [
        (None, (A, B), (A, B)),
        ("drop", (A, B), (A, B)),
        ((A, B), "reject", "reject"),
        ((A, B), (B, A), (A, B)),
        ((A, B, C), (A, C), (A, C)),
        ((A, B, C), (B, C), (C, B)),
        ((A, B, C), (C,), (C,)),
        ((A, B), (A, B, C), (A, B, C)),
        ((A, B, C), (A, D, C), (A, D, C)),
        ((A, B), (C, D), (D, C)),
    ],
)
def test_endpoint_keeps_its_slot(current: RuleAction | None, wanted: RuleAction, slots: RuleAction) -> None:
    assert place(current, wanted) == slots


endpoints = st.lists(st.builds(lambda n: ("10.0.0.1", n), st.integers(0, 12)), min_size=1, unique=True).map(tuple)


@given(endpoints, endpoints)
def test_slots_hold_the_wanted_endpoints_and_only_the_last_ones_move(
    current: tuple[ruleset.Endpoint, ...], wanted: tuple[ruleset.Endpoint, ...]
) -> None:
    slots = place(current, wanted)

    assert set(slots) == set(wanted)
    assert len(slots) == len(wanted)
    moved = [each for each in current if each in wanted and slots.index(each) != current.index(each)]
    assert all(current.index(each) >= len(wanted) for each in moved)


def test_ruleset_text_is_valid_nft_syntax() -> None:
    action = (("10.244.1.2", 8080),)
    ruleset = Ruleset(
        "IPv4", ("10.244.0.0/16",), ("10.244.1.0/24",), {CLUSTER_IP: action}, {CLUSTER_IP: "drop"}, frozenset()
    )

    lines = [line.strip() for line in text(ruleset).splitlines()]

    assert lines[0] == "table ip trafficdist {"
    assert "elements = { 10.96.0.1 . tcp . 80 : 0x00000001 }" in lines
    assert "elements = { 10.96.0.1 . tcp . 80 : 0x00000000 }" in lines
    assert "elements = { 10.96.0.1 . tcp . 80 . 0x00000000 : 10.244.1.2 . 8080 }" in lines
    assert "meta mark set numgen random mod 1" in lines
