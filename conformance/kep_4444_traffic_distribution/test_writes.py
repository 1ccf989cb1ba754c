"""KEP-4444, Scalability: hints cause no additional API writes or reads."""

from __future__ import annotations

from conformance.features import (
    CLUSTER_IP,
    ENDPOINT_SLICES,
    MINIMAL_API_CALLS,
    NODE_HINTS,
    PREFER_CLOSE,
    PREFER_SAME_NODE,
    ZONE_HINTS,
)
from trafficdist import (
    CONTROLLER,
    PROXY,
    SHOULD,
    Cluster,
    Hints,
    Service,
    conditions_of,
    endpoint,
    expect_hints,
    expect_no_more_reads,
    expect_unchanged,
    requirement,
    same_node,
    same_zone,
)

WEB, OTHER = {"app": "web"}, {"app": "other"}
ZONE_A, ZONE_B = Hints(zones=("a",)), Hints(zones=("b",))


@requirement(
    "KEP-4444/node-events-without-consequence-write-nothing",
    "Adding or removing a node without pods, or changing a node's taints, CPU or labels other than the zone, causes "
    "no slice write, whatever trafficDistribution is.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={ENDPOINT_SLICES, PREFER_CLOSE, PREFER_SAME_NODE},
    source="KEP-4444, Scalability (no new API calls)",
    kills={"rewrites-at-any-node-event"},
)
def test_nodes_without_consequence_write_nothing(three_zones: Cluster) -> None:
    for name, node in (("p1", "a1"), ("p2", "b1")):
        three_zones.create_pod(name, node, labels=WEB)
    values: tuple[str | None, ...] = (None, "PreferClose", "PreferSameNode")
    services = [three_zones.create_service(selector=WEB, traffic_distribution=each) for each in values]
    for service, nodes in zip(services, (None, (), ("a1",)), strict=True):
        p1 = None if nodes is None else Hints(zones=("a",), nodes=nodes)
        p2 = None if nodes is None else Hints(zones=("b",), nodes=("b1",) if nodes else ())
        expect_hints(three_zones, service, {"p1": p1, "p2": p2})

    with expect_unchanged(three_zones, *services):
        three_zones.nodes.label("a1", {"example.com/rack": "7"})
        three_zones.nodes.taint("a1", "example.com/busy")
        three_zones.nodes.report("b1", cpu_milli=1000)
        three_zones.nodes.create("x1", "a")
        three_zones.settle()
        three_zones.nodes.delete("x1")


def _written(cluster: Cluster, service: Service) -> int:
    """Return how often the API server has stored a Service's slices: the sum of their generations."""
    return sum(int(each["metadata"]["generation"]) for each in cluster.slices(service))


@requirement(
    "KEP-4444/hints-need-no-write-of-their-own",
    "A change to the pods of a Service with trafficDistribution causes as many slice writes as for an otherwise "
    "identical Service without trafficDistribution.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={ENDPOINT_SLICES, PREFER_CLOSE},
    source="KEP-4444, Scalability (will using this feature result in any new API calls: no)",
    kills={"writes-hinted-slices-twice"},
    fixes={"labels=empty": "the scenario changes labels of pods itself"},
)
def test_hints_need_no_write_of_their_own(three_zones: Cluster) -> None:
    three_zones.create_pod("p1", "a1", labels=WEB)
    three_zones.create_pod("p2", "b1", labels=OTHER)
    plain = three_zones.create_service(selector=WEB)
    close = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    expect_hints(three_zones, plain, {"p1": None})
    expect_hints(three_zones, close, {"p1": ZONE_A})
    before = {each.name: _written(three_zones, each) for each in (plain, close)}

    # Relabelling is a single event. A kubelet causes several events, and their number per sync varies.
    three_zones.api.patch("pods", three_zones.namespace, "p2", {"metadata": {"labels": WEB}})
    expect_hints(three_zones, plain, {"p1": None, "p2": None})
    expect_hints(three_zones, close, {"p1": ZONE_A, "p2": ZONE_B})
    three_zones.api.patch("pods", three_zones.namespace, "p2", {"metadata": {"labels": OTHER}})
    expect_hints(three_zones, plain, {"p1": None})
    expect_hints(three_zones, close, {"p1": ZONE_A})

    without, with_field = (_written(three_zones, each) - before[each.name] for each in (plain, close))
    three_zones.measured(
        "a pod is selected, and no longer", {"writes without the field": without, "with it": with_field}
    )
    three_zones.expect_equal(
        f"writes of slices of service {close.name}, as many as without the field",
        expected=without,
        observed=with_field,
    )


NO_NEW_CALLS = (
    "KEP-4444 and KEP-3015, Scalability (will enabling or using this feature result in any new API calls: no; "
    "components listing or watching resources they did not before, calls triggered by changes)"
)


@requirement(
    "KEP-4444/hints-need-no-read-of-their-own",
    "While Services and pods change, a controller makes no more API reads, and reads no more kinds of resources, for a "
    "Service with trafficDistribution than for a Service without it, except reads of Services whose status it writes.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={ENDPOINT_SLICES, PREFER_CLOSE, PREFER_SAME_NODE},
    source=NO_NEW_CALLS,
    kills={"gets-nodes-for-hints", "watches-namespaces-from-the-first-hint"},
)
def test_hints_need_no_read_of_their_own(three_zones: Cluster) -> None:
    hints = {None: None, "PreferClose": ZONE_A, "PreferSameNode": Hints(zones=("a",), nodes=("a1",))}

    def play(value: str | None) -> set[str]:
        service = three_zones.create_service(selector=WEB, traffic_distribution=value)
        three_zones.create_pod("p1", "a1", labels=WEB)
        expect_hints(three_zones, service, {"p1": hints[value]})
        three_zones.api.delete("pods", three_zones.namespace, "p1", grace_seconds=0)
        expect_hints(three_zones, service, {})
        tells = conditions_of(
            three_zones, service
        )  # the status write of the KEP may need one read, and another read after a conflict
        three_zones.delete_service(service)
        return {"get services"} if tells else set()

    expect_no_more_reads(three_zones, CONTROLLER, play, without=None, values=["PreferClose", "PreferSameNode"])


@requirement(
    "KEP-4444/following-hints-needs-no-read",
    "While slices are added, changed and removed, a proxy makes no more API reads with hints than without, and does "
    "not start to read another resource when the first hint appears.",
    level=SHOULD,
    features={CLUSTER_IP, ZONE_HINTS, NODE_HINTS},
    source=NO_NEW_CALLS,
    kills={"gets-its-node-for-hints", "watches-pods-from-the-first-hint"},
)
def test_following_hints_needs_no_read(three_zones: Cluster) -> None:
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    written = {None: endpoint, "PreferClose": same_zone, "PreferSameNode": same_node}

    def play(value: str | None) -> set[str]:
        service = three_zones.create_service(traffic_distribution=value)
        for pods in ((a1,), (a1, b1)):
            three_zones.publish(service, [written[value](each) for each in pods])
            three_zones.settle()
        three_zones.unpublish(service)
        three_zones.delete_service(service)
        return set()

    expect_no_more_reads(three_zones, PROXY, play, without=None, values=["PreferClose", "PreferSameNode"])
