"""KEP-4444, Status Reporting: conditions of a Service that report whether trafficDistribution took effect.

The KEP proposes conditions as a later addition, so the requirements apply only to implementations that claim
to support them. Conditions must match reality, so each scenario also checks the slices or the packets.
"""

from __future__ import annotations

from conformance.features import CONDITIONS, HONORED, PREFER_CLOSE, PREFER_SAME_NODE, ROUTING, TOPOLOGY_MODE
from trafficdist import (
    API_SERVER,
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    Hints,
    conditions_of,
    create_unwritable_pod,
    evidence_of_successful_sync,
    expect_condition,
    expect_eventually,
    expect_hints,
    expect_traffic,
    release,
    requirement,
)

WEB, OTHER = {"app": "web"}, {"app": "other"}
LONG_AGO = "2001-02-03T04:05:06Z"
STANDARD = {"TrafficDistributionAccepted", "TrafficDistributionProgrammed", "TrafficDistributionHonored"}
ACCEPTED, PROGRAMMED, HONORED_TYPE = (f"TrafficDistribution{word}" for word in ("Accepted", "Programmed", "Honored"))


@requirement(
    "KEP-4444/accepted-condition",
    "The condition TrafficDistributionAccepted becomes True on a Service whose trafficDistribution the controller "
    "supports, and is absent on a Service without trafficDistribution.",
    level=MUST,
    features={CONDITIONS, PREFER_CLOSE, PREFER_SAME_NODE},
    source="KEP-4444, Status Reporting",
    kills={"says-accepted-of-nothing", "conditions-outlive-the-field"},
)
def test_supported_values_are_accepted(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    plain = three_zones.create_service(selector=WEB)
    expect_condition(three_zones, service, ACCEPTED, "True")

    three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferSameNode"}})
    expect_condition(three_zones, service, ACCEPTED, "True")
    three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    expect_condition(three_zones, service, ACCEPTED, None)
    expect_condition(three_zones, plain, ACCEPTED, None)


@requirement(
    "KEP-4444/unsupported-value-is-not-accepted",
    "The condition TrafficDistributionAccepted becomes False, with a reason, on a Service whose trafficDistribution "
    "the controller does not support, and True when the value is changed to a supported one.",
    level=MUST,
    features={CONDITIONS, PREFER_CLOSE},
    source="KEP-4444, Status Reporting (malformed or not supported)",
    as_="kep",
    kills={"says-accepted-of-anything"},
)
def test_unsupported_value_is_not_accepted(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="example.org/nobody-has-this")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None})

    condition = expect_condition(three_zones, service, ACCEPTED, "False")
    what = f"condition {ACCEPTED} of service {service.name} has a reason"
    three_zones.expect_equal(what, expected=True, observed=bool(condition.get("reason")))
    expect_condition(three_zones, service, PROGRAMMED, "False")
    three_zones.patch_service(service, {"spec": {"trafficDistribution": "PreferClose"}})
    expect_condition(three_zones, service, ACCEPTED, "True")


@requirement(
    "KEP-4444/programmed-condition",
    "The condition TrafficDistributionProgrammed becomes True when every endpoint has the hints that "
    "trafficDistribution requires, including node hints; it is False while an endpoint has no hints, and absent once "
    "trafficDistribution is removed.",
    level=MUST,
    features={CONDITIONS, PREFER_CLOSE, PREFER_SAME_NODE},
    source="KEP-4444, Status Reporting",
    since="1.33",
    kills={"says-programmed-when-accepted", "conditions-outlive-the-field"},
)
def test_written_hints_are_programmed(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    expect_condition(three_zones, service, PROGRAMMED, "False")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": Hints(zones=("a",))})
    expect_condition(three_zones, service, PROGRAMMED, "True")
    same_node = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    expect_condition(three_zones, same_node, PROGRAMMED, "True")

    three_zones.nodes.move("b1", None)
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": Hints(zones=("a",)), "p2": None})
    expect_condition(three_zones, service, PROGRAMMED, "False")
    three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    expect_condition(three_zones, service, PROGRAMMED, None)


@requirement(
    "KEP-4444/programmed-means-stored-hints",
    "The condition TrafficDistributionProgrammed is False on a Service with PreferSameNode while the API server drops "
    "the node hints that the controller writes.",
    level=MUST,
    features={CONDITIONS, PREFER_SAME_NODE},
    source="KEP-4444, Status Reporting (successfully populated the EndpointSlice hints)",
    since="1.34",
    kills={"programmed-by-zone-hints-alone", "says-programmed-when-accepted"},
)
def test_dropped_node_hints_are_not_programmed(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, release("1.34"))
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    expect_condition(three_zones, service, ACCEPTED, "True")
    three_zones.restart(API_SERVER, release("1.34", PreferSameTrafficDistribution=False))
    three_zones.create_pod("p1", "a1", labels=WEB)

    expect_hints(three_zones, service, {"p1": Hints(zones=("a",))}, exactly=True)
    expect_condition(three_zones, service, PROGRAMMED, "False")


@requirement(
    "KEP-4444/condition-keeps-the-time-of-its-transition",
    "The lastTransitionTime of a condition changes only when the status of this condition changes.",
    level=MUST,
    features={CONDITIONS, PREFER_CLOSE},
    source="KEP-4444, Status Reporting; meta/v1 Condition.lastTransitionTime (the last time the condition transitioned "
    "from one status to another)",
    kills={"condition-has-the-time-of-its-write", "condition-keeps-its-first-time"},
)
def test_condition_keeps_the_time_of_its_transition(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    expect_condition(three_zones, service, ACCEPTED, "True")
    expect_condition(three_zones, service, PROGRAMMED, "False")

    # Times have whole seconds, so the conditions get an older time instead of waiting for a second to pass.
    old = [{**each, "lastTransitionTime": LONG_AGO} for each in conditions_of(three_zones, service).values()]
    status = {"status": {"conditions": old}}
    three_zones.api.patch("services", three_zones.namespace, service.name, status, subresource="status")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_condition(three_zones, service, PROGRAMMED, "True")
    times = {kind: each.get("lastTransitionTime") for kind, each in conditions_of(three_zones, service).items()}
    is_old = {kind: times.get(kind) == LONG_AGO for kind in (ACCEPTED, PROGRAMMED)}
    three_zones.expect_equal(
        f"conditions of service {service.name} have the time from before the pod was ready",
        expected={ACCEPTED: True, PROGRAMMED: False},
        observed=is_old,
        explanation=str(times),
    )


@requirement(
    "KEP-4444/refused-slices-are-not-programmed",
    "The condition TrafficDistributionProgrammed is False or Unknown while the API server rejects the slices of a "
    "Service, and becomes True once the slices are written with hints.",
    level=MUST,
    features={CONDITIONS, PREFER_CLOSE},
    source="KEP-4444, Status Reporting",
    kills={"says-programmed-of-refused-slices"},
)
def test_refused_slices_are_not_programmed(three_zones: Cluster) -> None:
    create_unwritable_pod(three_zones, "p1", "a1", labels=WEB)
    three_zones.create_pod("fine", "a1", labels=OTHER)
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    expect_eventually(
        three_zones,
        f"condition {PROGRAMMED} of service {service.name}, whose slices are rejected, is False or Unknown",
        lambda: conditions_of(three_zones, service).get(PROGRAMMED, {}).get("status") in {"False", "Unknown"},
        expected=True,
        unless=lambda: evidence_of_successful_sync(three_zones, service),
        stays=True,
    )

    three_zones.patch_service(service, {"spec": {"selector": OTHER}})
    expect_hints(three_zones, service, {"fine": Hints(zones=("a",))})
    expect_condition(three_zones, service, PROGRAMMED, "True")


@requirement(
    "KEP-4444/accepted-under-the-annotation",
    "The condition TrafficDistributionAccepted stays True on a Service with a supported trafficDistribution when the "
    "Service gets the annotation topology-mode Auto, although the annotation has precedence.",
    level=MUST,
    features={CONDITIONS, PREFER_CLOSE, TOPOLOGY_MODE},
    source="KEP-4444, Status Reporting (recognizes the value as one it explicitly supports)",
    kills={"annotation-ends-acceptance"},
)
def test_value_is_accepted_under_the_annotation(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": Hints(zones=("a",))})
    expect_condition(three_zones, service, ACCEPTED, "True")

    annotations = {"service.kubernetes.io/topology-mode": "Auto"}
    three_zones.patch_service(service, {"metadata": {"annotations": annotations}})
    expect_hints(three_zones, service, {"p1": None})  # one endpoint is too few for three zones
    expect_condition(three_zones, service, ACCEPTED, "True")


@requirement(
    "KEP-4444/honored-condition",
    "The condition TrafficDistributionHonored becomes True when traffic follows the current hints on every node; it is "
    "not True while the proxy of one node is stopped and hints change, and becomes True again when that proxy runs "
    "again.",
    level=MUST,
    features={HONORED, ROUTING},
    source="KEP-4444, Status Reporting (a condition that the data plane could add)",
    kills={"says-honored-when-programmed", "says-honored-of-nothing"},
)
def test_honored_means_that_every_node_follows(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_condition(three_zones, service, HONORED_TYPE, "True")
    expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}, "c1": {a1, b1}})

    three_zones.stop(PROXY, on=["c1"])
    (c1,) = three_zones.run_servers(["c1"], labels=WEB)
    expect_condition(three_zones, service, PROGRAMMED, "True")
    expect_eventually(
        three_zones,
        f"condition {HONORED_TYPE} of service {service.name}, while c1 has no proxy, is True",
        lambda: conditions_of(three_zones, service).get(HONORED_TYPE, {}).get("status") == "True",
        expected=False,
    )
    expect_traffic(three_zones, service, {"a2": {a1}, "c1": {a1, b1}})

    three_zones.restart(PROXY, on=["c1"])
    expect_condition(three_zones, service, HONORED_TYPE, "True")
    expect_traffic(three_zones, service, {"a2": {a1}, "c1": {c1}})


@requirement(
    "KEP-4444/conditions-of-others-carry-a-domain",
    "Every condition type about traffic distribution has a domain prefix, except for the types that KEP-4444 defines.",
    level=SHOULD,
    features={CONDITIONS, PREFER_CLOSE},
    source="KEP-4444, Condition usage by other implementations",
    kills={"condition-without-domain"},
)
def test_other_conditions_carry_a_domain(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_condition(three_zones, service, ACCEPTED, "True")

    about = {kind for kind in conditions_of(three_zones, service) if "TrafficDistribution" in kind}
    without = sorted(kind for kind in about - STANDARD if "." not in kind.partition("/")[0] or "/" not in kind)
    what = f"conditions of service {service.name} without a domain"
    three_zones.expect_equal(what, expected=[], observed=without)
