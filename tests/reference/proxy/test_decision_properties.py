"""Properties of the decision that apply to any endpoints."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reference.proxy.decision import Decision, Drop, Endpoint, Forward, OwnNode, Reject, ServicePort, decide

ZONES, NODES = ("a", "b"), ("a1", "a2", "b1")
PLAIN = ServicePort("default", "web", "", "TCP", 80, cluster_ips=("10.96.0.1",))

places = st.builds(OwnNode, st.sampled_from(NODES), st.sampled_from(ZONES))
hints = st.frozensets(st.sampled_from(ZONES)), st.frozensets(st.sampled_from(NODES))
endpoints = st.lists(
    st.builds(
        Endpoint,
        st.integers(1, 6).map("10.244.0.{}".format),
        st.just(80),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from(NODES),
        *hints,
    ),
    max_size=6,
    unique_by=lambda each: each.address,
)
ports = st.builds(
    replace,
    st.just(PLAIN),
    node_port=st.sampled_from((0, 30080)),
    internal_local=st.booleans(),
    external_local=st.booleans(),
)


def chosen(decision: Decision) -> set[Endpoint]:
    return set(decision.cluster_ip.endpoints) if isinstance(decision.cluster_ip, Forward) else set()


def ready(known: list[Endpoint]) -> list[Endpoint]:
    return [each for each in known if each.ready]


@given(endpoints, places)
def test_cluster_list_has_only_ready_endpoints_if_there_are_any(known: list[Endpoint], at: OwnNode) -> None:
    used = chosen(decide(PLAIN, known, at))

    assert bool(ready(known)) <= bool(used)
    assert not ready(known) or all(each.ready for each in used)


@given(endpoints, places)
def test_one_ready_endpoint_without_hint_switches_the_filter_off(known: list[Endpoint], at: OwnNode) -> None:
    unhinted = Endpoint("10.244.0.9", 80)

    assert chosen(decide(PLAIN, [*known, unhinted], at)) == {*ready(known), unhinted}


@given(endpoints, places, st.booleans())
def test_unready_endpoints_change_nothing_while_one_is_ready(known: list[Endpoint], at: OwnNode, leaving: bool) -> None:
    unready = Endpoint("10.244.0.9", 80, ready=False, serving=leaving, terminating=leaving)
    one = Endpoint("10.244.0.8", 80, zone_hints=frozenset("a"), node_hints=frozenset({"a1"}))

    assert chosen(decide(PLAIN, [*known, one, unready], at)) == chosen(decide(PLAIN, [*known, one], at))


@given(endpoints, places)
def test_a_hint_for_a_zone_without_proxies_changes_nothing(known: list[Endpoint], at: OwnNode) -> None:
    def more(names: frozenset[str]) -> frozenset[str]:
        return names | {"nowhere"} if names else names

    moved = [each._replace(zone_hints=more(each.zone_hints), node_hints=more(each.node_hints)) for each in known]

    here = {each.address for each in chosen(decide(PLAIN, known, at))}
    assert {each.address for each in chosen(decide(PLAIN, moved, at))} == here


@given(endpoints, places)
def test_without_an_endpoint_for_the_node_the_zone_rule_applies(known: list[Endpoint], at: OwnNode) -> None:
    elsewhere = [each._replace(node_hints=each.node_hints - {at.node}) for each in known]
    zone_only = [each._replace(node_hints=frozenset()) for each in known]

    there = {each.address for each in chosen(decide(PLAIN, elsewhere, at))}
    assert there == {each.address for each in chosen(decide(PLAIN, zone_only, at))}


@given(endpoints, places)
def test_node_mode_ignores_zone_hints(known: list[Endpoint], at: OwnNode) -> None:
    decision = decide(PLAIN, known, at)
    bare = [each._replace(zone_hints=frozenset({"elsewhere"})) for each in known]

    if decision.mode == "PreferSameNode":
        kept = {each.address for each in chosen(decide(PLAIN, bare, at))}
        assert kept == {each.address for each in chosen(decision)}


@given(endpoints, places)
def test_several_names_in_a_hint_match_by_membership(known: list[Endpoint], at: OwnNode) -> None:
    decision = decide(PLAIN, known, at)

    match decision.mode:
        case "PreferSameNode":
            assert chosen(decision) == {each for each in ready(known) if at.node in each.node_hints}
        case "PreferSameZone":
            assert chosen(decision) == {each for each in ready(known) if at.zone in each.zone_hints}


@given(endpoints, places, ports)
def test_local_lists_hold_local_endpoints_only_and_terminating_ones_last(
    known: list[Endpoint], at: OwnNode, port: ServicePort
) -> None:
    local_ready = {each for each in ready(known) if each.node == at.node}
    decision = decide(replace(port, internal_local=True), known, at)

    assert all(each.node == at.node for each in chosen(decision))
    assert not local_ready or chosen(decision) == local_ready


@given(endpoints, places, ports)
def test_reject_means_no_endpoint_anywhere_and_drop_means_endpoints_only_elsewhere(
    known: list[Endpoint], at: OwnNode, port: ServicePort
) -> None:
    usable = [each for each in known if each.ready or (each.serving and each.terminating)]
    decision = decide(port, known, at)

    for action in (decision.cluster_ip, decision.outside, decision.inside):
        assert isinstance(action, Reject) == (not usable and action is not None)
        assert not isinstance(action, Drop) or all(each.node != at.node for each in usable)
    assert (decision.outside is not None) == port.externally_accessible
    assert not isinstance(decision.inside, Drop)
