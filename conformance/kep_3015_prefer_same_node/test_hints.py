"""KEP-3015, the controller: it writes hints for PreferSameZone and PreferSameNode."""

from __future__ import annotations

from conformance.features import DUAL_STACK_SLICES, MINIMAL_API_CALLS, PREFER_CLOSE, PREFER_SAME_NODE, PREFER_SAME_ZONE
from trafficdist import (
    HOSTNAME_LABEL,
    MUST,
    SHOULD,
    Cluster,
    Hints,
    expect_hints,
    expect_unchanged,
    requirement,
)

WEB = {"app": "web"}


@requirement(
    "KEP-3015/prefer-same-zone-hints-the-own-zone",
    "With PreferSameZone, every ready endpoint is hinted for its own zone, and for no node.",
    level=MUST,
    features={PREFER_SAME_ZONE},
    source="KEP-3015, Renaming/Deprecation of PreferClose",
    kills={"node-hints-for-every-value"},
)
def test_prefer_same_zone_hints_each_endpoint_for_its_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameZone")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b2", labels=WEB)

    expect_hints(three_zones, service, {"p1": Hints(zones=("a",)), "p2": Hints(zones=("b",))}, exactly=True)


@requirement(
    "KEP-3015/prefer-close-means-prefer-same-zone",
    "PreferClose leads to the same hints as PreferSameZone: changing a Service from PreferClose to PreferSameZone "
    "changes no hint.",
    level=MUST,
    features={PREFER_CLOSE, PREFER_SAME_ZONE},
    source="KEP-3015, Renaming/Deprecation of PreferClose (a deprecated alias)",
    kills={"knows-only-prefer-close"},
)
def test_prefer_close_is_an_alias_of_prefer_same_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "c1", labels=WEB)
    wanted = {"p1": Hints(zones=("a",)), "p2": Hints(zones=("c",))}
    expect_hints(three_zones, service, wanted, exactly=True)

    three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferSameZone"}})
    expect_hints(three_zones, service, wanted, exactly=True)


@requirement(
    "KEP-3015/prefer-same-node-hints-node-and-zone",
    "With PreferSameNode, every ready endpoint is hinted for its node, and also for its zone so that older proxies "
    "can use the zone.",
    level=MUST,
    features={PREFER_SAME_NODE},
    source="KEP-3015, Addition of PreferSameNode",
    kills={
        "node-hints-for-the-first-port-numbers",
        "right-then-wrong-soon",
        "same-node-without-node-hints",
        "same-node-without-zone-hints",
    },
)
def test_prefer_same_node_hints_node_and_zone(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "a2", labels=WEB)
    three_zones.create_pod("p3", "b1", labels=WEB)

    expect_hints(
        three_zones,
        service,
        {
            "p1": Hints(zones=("a",), nodes=("a1",)),
            "p2": Hints(zones=("a",), nodes=("a2",)),
            "p3": Hints(zones=("b",), nodes=("b1",)),
        },
    )


@requirement(
    "KEP-3015/node-hint-is-the-name-of-the-node",
    "With PreferSameNode, the node hint of an endpoint is the name of its Node, even if the Node's hostname label "
    "differs.",
    level=MUST,
    features={PREFER_SAME_NODE},
    source="KEP-3015, Addition of PreferSameNode; discovery/v1 ForNode.name (the name of the node)",
    kills={"hints-by-host-name"},
)
def test_node_hint_is_the_name_of_the_node(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1.example.org", "x", labels={HOSTNAME_LABEL: "x1"})
    three_zones.nodes.create("x1", "y", labels={HOSTNAME_LABEL: "another"})
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    for name, node in (("p1", "x1.example.org"), ("p2", "x1"), ("p3", "a1")):
        three_zones.create_pod(name, node, labels=WEB)

    expected = {
        "p1": Hints(zones=("x",), nodes=("x1.example.org",)),
        "p2": Hints(zones=("y",), nodes=("x1",)),
        "p3": Hints(zones=("a",), nodes=("a1",)),
    }
    expect_hints(three_zones, service, expected)


@requirement(
    "KEP-3015/prefer-same-node-without-zone",
    "With PreferSameNode, an endpoint on a node without a zone label is hinted only for its node.",
    level=MUST,
    features={PREFER_SAME_NODE},
    source="KEP-3015, Addition of PreferSameNode (zone hint as with PreferClose)",
    kills={"same-node-needs-a-zone"},
)
def test_prefer_same_node_without_zone_hints_the_node_alone(three_zones: Cluster) -> None:
    three_zones.nodes.move("c1", None)
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    three_zones.create_pod("p1", "c1", labels=WEB)

    expect_hints(three_zones, service, {"p1": Hints(nodes=("c1",))})


@requirement(
    "KEP-3015/value-changes-on-a-live-service",
    "When the trafficDistribution of an existing Service changes from PreferSameZone to PreferSameNode, node hints are "
    "added, and when it changes back, they are removed; zone hints stay.",
    level=MUST,
    features={PREFER_SAME_NODE, PREFER_SAME_ZONE},
    source="KEP-3015, Addition of PreferSameNode; Upgrade / Downgrade Strategy",
    kills={"first-value-for-ever"},
)
def test_value_changes_on_a_live_service(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameZone")
    three_zones.create_pod("p1", "b1", labels=WEB)
    zone, both = Hints(zones=("b",)), Hints(zones=("b",), nodes=("b1",))
    expect_hints(three_zones, service, {"p1": zone}, exactly=True)
    for value, hints in (("PreferSameNode", both), ("PreferSameZone", zone), ("PreferSameNode", both)):
        three_zones.patch_service(service, {"spec": {"trafficDistribution": value}})
        expect_hints(three_zones, service, {"p1": hints}, exactly=True)


@requirement(
    "KEP-3015/unready-endpoints-get-no-node-hints",
    "With PreferSameNode, an endpoint that becomes unready or terminates loses its hints.",
    level=SHOULD,
    features={PREFER_SAME_NODE},
    source="KEP-3015, Addition of PreferSameNode; released: only ready endpoints are hinted",
    as_="released",
    kills={"hints-unready-endpoints"},
)
def test_endpoints_lose_node_hints_with_readiness(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    for name, node in (("p1", "a1"), ("p2", "b1"), ("p3", "c1")):
        three_zones.create_pod(name, node, labels=WEB)
    p1 = Hints(zones=("a",), nodes=("a1",))
    p2, p3 = Hints(zones=("b",), nodes=("b1",)), Hints(zones=("c",), nodes=("c1",))
    expect_hints(three_zones, service, {"p1": p1, "p2": p2, "p3": p3})

    three_zones.set_ready("p2", False)
    three_zones.begin_termination("p3")
    expect_hints(three_zones, service, {"p1": p1, "p2": None, "p3": None})


@requirement(
    "KEP-3015/hints-in-both-ip-families",
    "For a dual-stack Service, the slices of both IP families have the same hints, even after trafficDistribution "
    "changes.",
    level=MUST,
    features={PREFER_SAME_NODE, DUAL_STACK_SLICES},
    source="KEP-3015, Addition of PreferSameNode (each endpoint in the slice)",
    kills={"hints-in-one-family", "second-family-is-frozen"},
)
def test_both_ip_families_carry_the_hints(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode", dual_stack=True)
    three_zones.create_pod("p1", "a1", labels=WEB)
    by_value = {
        "PreferSameNode": Hints(zones=("a",), nodes=("a1",)),
        None: None,
        "PreferSameZone": Hints(zones=("a",)),
    }
    for value, hints in by_value.items():
        three_zones.patch_service(service, {"spec": {"trafficDistribution": value}})
        for family in ("IPv4", "IPv6"):
            expect_hints(three_zones, service, {"p1": hints}, family=family)


@requirement(
    "KEP-3015/hints-follow-the-zone-of-the-node",
    "When the zone label of a node changes, the controller updates the hints of endpoints on the node.",
    level=SHOULD,
    features={PREFER_SAME_ZONE},
    source="KEP-3015, Renaming/Deprecation of PreferClose (the same zone); released: at the next sync of the Service",
    as_="kep",
    kills={"node-zone-read-once"},
)
def test_hints_follow_the_zone_label_of_the_node(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameZone")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "a2", labels=WEB)
    expect_hints(three_zones, service, {"p1": Hints(zones=("a",)), "p2": Hints(zones=("a",))}, exactly=True)

    three_zones.nodes.move("a2", "b")
    expect_hints(three_zones, service, {"p1": Hints(zones=("a",)), "p2": Hints(zones=("b",))}, exactly=True)


@requirement(
    "KEP-3015/zone-of-the-node-is-read-at-each-sync",
    "When the zone label of a node changes or is removed, zone hints are updated no later than when the next endpoint "
    "is added, and node hints stay.",
    level=MUST,
    features={PREFER_SAME_ZONE, PREFER_SAME_NODE},
    source="KEP-3015, Renaming/Deprecation of PreferClose; Addition of PreferSameNode (zone hint as with PreferClose)",
    kills={"node-zone-read-once", "zone-outlives-its-label"},
)
def test_next_endpoint_brings_hints_for_the_new_zone(three_zones: Cluster) -> None:
    zone = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameZone")
    node = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    three_zones.create_pod("p1", "a2", labels=WEB)
    expect_hints(three_zones, zone, {"p1": Hints(zones=("a",))}, exactly=True)
    expect_hints(three_zones, node, {"p1": Hints(zones=("a",), nodes=("a2",))})

    three_zones.nodes.move("a2", "b")
    three_zones.create_pod("p2", "c1", labels=WEB)
    expect_hints(three_zones, zone, {"p1": Hints(zones=("b",)), "p2": Hints(zones=("c",))}, exactly=True)
    both = {"p1": Hints(zones=("b",), nodes=("a2",)), "p2": Hints(zones=("c",), nodes=("c1",))}
    expect_hints(three_zones, node, both)

    three_zones.nodes.move("a2", None)
    three_zones.create_pod("p3", "c1", labels=WEB)
    in_c = {each: Hints(zones=("c",)) for each in ("p2", "p3")}
    expect_hints(three_zones, zone, {"p1": None, **in_c}, exactly=True)
    expect_hints(three_zones, node, {"p1": Hints(nodes=("a2",)), "p2": both["p2"], "p3": both["p2"]})


@requirement(
    "KEP-3015/hints-go-with-the-value",
    "When PreferSameNode is removed from an existing Service, its node and zone hints are removed, and when "
    "PreferSameNode is set again, they return.",
    level=MUST,
    features={PREFER_SAME_NODE},
    source="KEP-3015, Addition of PreferSameNode; Upgrade / Downgrade Strategy",
    kills={"node-hints-outlive-the-field"},
)
def test_both_hints_go_and_come_with_the_value(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b2", labels=WEB)
    both = {"p1": Hints(zones=("a",), nodes=("a1",)), "p2": Hints(zones=("b",), nodes=("b2",))}
    expect_hints(three_zones, service, both)
    for value, hints in ((None, {"p1": None, "p2": None}), ("PreferSameNode", both)):
        three_zones.patch_service(service, {"spec": {"trafficDistribution": value}})
        expect_hints(three_zones, service, hints, exactly=True)


@requirement(
    "KEP-3015/a-settled-service-is-not-written-again",
    "With PreferSameNode, a change to a Service that does not affect its endpoints causes no slice write, in either IP "
    "family.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={PREFER_SAME_NODE, DUAL_STACK_SLICES},
    source="KEP-3015, Scalability (no new API calls)",
    kills={"rewrites-node-hints"},
)
def test_slices_with_node_hints_are_not_written_without_need(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode", dual_stack=True)
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=WEB, ready=False)
    for family in ("IPv4", "IPv6"):
        expect_hints(three_zones, service, {"p1": Hints(zones=("a",), nodes=("a1",)), "p2": None}, family=family)

    with expect_unchanged(three_zones, service):
        three_zones.patch_service(service, {"metadata": {"annotations": {"example.org/note": "changes no endpoint"}}})


@requirement(
    "KEP-3015/zone-hint-follows-beside-the-node-hint",
    "With PreferSameNode, the zone hint follows the node's zone label when the label is added and removed, and the "
    "node hint stays.",
    level=SHOULD,
    features={PREFER_SAME_NODE},
    source="KEP-3015, Addition of PreferSameNode (zone hint as with PreferClose); released: at the next sync",
    as_="kep",
    kills={"node-zone-read-once"},
)
def test_zone_hint_follows_the_label_beside_the_node_hint(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    three_zones.create_pod("p1", "a2", labels=WEB)
    for zones in (("a",), ("b",), (), ("a",)):
        three_zones.nodes.move("a2", zones[0] if zones else None)
        expect_hints(three_zones, service, {"p1": Hints(zones=zones, nodes=("a2",))})
