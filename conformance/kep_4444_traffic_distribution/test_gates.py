"""KEP-4444, Feature Enablement and Rollback: the ServiceTrafficDistribution gate, disabled and enabled."""

from __future__ import annotations

import pytest

from conformance.features import (
    API_SERVER_RELEASES,
    CONTROLLER_RELEASES,
    MINIMAL_API_CALLS,
    PREFER_CLOSE,
    PROXY_RELEASES,
    ROLLOUT,
    SKEW,
    ZONE_HINTS,
)
from conformance.kep_4444_traffic_distribution.test_validation import expect_stored
from conformance.skew import CLIENTS, SERVERS, SHARED_OUT, WEB, Skew, bring_to, expect_written, routes
from trafficdist import (
    API_SERVER,
    CONTROLLER,
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    Hints,
    Release,
    expect_hint_counts,
    expect_hints,
    expect_no_loss,
    expect_traffic,
    expect_unchanged,
    release,
    requirement,
    same_zone,
)

OFF, ON = release("1.31", ServiceTrafficDistribution=False), release("1.31")
MODE, AWARE_HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
FIELD = {"spec": {"trafficDistribution": "PreferClose"}}
ZONE = {zone: Hints(zones=(zone,)) for zone in "abc"}


# API server


@requirement(
    "KEP-4444/api-gate-off-drops-the-field",
    "With the ServiceTrafficDistribution gate disabled, a new Service is stored without trafficDistribution, and an "
    "update does not add the field to a Service that has none.",
    level=MUST,
    features={API_SERVER_RELEASES},
    source="KEP-4444, Feature Enablement and Rollback (the standard process for new fields)",
    kills={"newest-api-server-at-any-release"},
)
def test_field_is_dropped_while_the_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, OFF)

    service = three_zones.create_service(traffic_distribution="PreferClose")
    expect_stored(three_zones, service.name, "trafficDistribution", None)

    three_zones.patch_service(service, FIELD)
    expect_stored(three_zones, service.name, "trafficDistribution", None)


@requirement(
    "KEP-4444/api-gate-off-keeps-a-stored-field",
    "With the ServiceTrafficDistribution gate disabled, an update keeps the trafficDistribution that a Service "
    "already has, unless the update removes it.",
    level=MUST,
    features={API_SERVER_RELEASES},
    source="KEP-4444, Feature Enablement and Rollback (safe rollback/disablement for kube-apiserver)",
    kills={"drops-stored-fields"},
)
def test_stored_field_outlives_the_gate(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, ON)
    service = three_zones.create_service(traffic_distribution="PreferClose")
    three_zones.restart(API_SERVER, OFF)
    expect_stored(three_zones, service.name, "trafficDistribution", "PreferClose")

    three_zones.patch_service(service, {"metadata": {"labels": {"changed": "yes"}}})
    expect_stored(three_zones, service.name, "trafficDistribution", "PreferClose")
    three_zones.patch_service(service, {"spec": {"internalTrafficPolicy": "Local"}})
    expect_stored(three_zones, service.name, "trafficDistribution", "PreferClose")

    three_zones.patch_service(service, {"spec": {"trafficDistribution": None}})
    expect_stored(three_zones, service.name, "trafficDistribution", None)


# Controller


@requirement(
    "KEP-4444/controller-gate-off-ignores-the-field",
    "With the ServiceTrafficDistribution gate disabled, a controller writes no hints because of trafficDistribution, "
    "and removes those that it wrote before.",
    level=MUST,
    features={CONTROLLER_RELEASES, PREFER_CLOSE},
    source="KEP-4444, Feature Enablement and Rollback (the new field will be ignored)",
    kills={"newest-controller-at-any-release", "hints-outlive-their-gate"},
)
def test_controller_ignores_the_field_while_its_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(CONTROLLER, ON)
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": ZONE["a"]})

    three_zones.restart(CONTROLLER, OFF)
    expect_hints(three_zones, service, {"p1": None})
    three_zones.create_pod("p2", "b1", labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})
    later = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    expect_hints(three_zones, later, {"p1": None, "p2": None})


# Proxy


def _expect_annotation_needed(cluster: Cluster, key: str) -> None:
    annotated, *others = (
        cluster.create_service(traffic_distribution="PreferClose", annotations=each)
        for each in ({key: "Auto"}, {}, {key: "Disabled"})
    )
    a1, b1 = cluster.run_servers(["a1", "b1"])
    for service in (annotated, *others):
        cluster.publish(service, [same_zone(pod) for pod in (a1, b1)])
    for service in others:
        expect_traffic(cluster, service, {"a2": {a1, b1}, "b2": {a1, b1}, "c1": {a1, b1}})
    expect_traffic(cluster, annotated, {"a2": {a1}, "b2": {b1}, "c1": {a1, b1}})


@requirement(
    "KEP-4444/proxy-with-gate-off-needs-the-annotation",
    "With the ServiceTrafficDistribution gate disabled, a proxy follows hints on Services with the topology "
    "annotation Auto, and not on Services without the annotation or with the value Disabled.",
    level=MUST,
    features={PROXY_RELEASES, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy (assuming this feature-gate is enabled)",
    kills={
        "drops-without-hinted-endpoint",
        "ignores-zone-hints",
        "newest-proxy-at-any-release",
        "no-hints-without-the-gate",
        "takes-disabled-for-auto",
    },
)
def test_proxy_needs_the_annotation_while_its_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(PROXY, OFF)
    _expect_annotation_needed(three_zones, MODE)


@requirement(
    "KEP-4444/older-proxy-needs-the-annotation",
    "A proxy of a release without trafficDistribution follows hints on Services with the topology annotation Auto, "
    "under either of its names, and not on Services without the annotation or with the value Disabled.",
    level=MUST,
    features={PROXY_RELEASES, ZONE_HINTS},
    source="KEP-4444, Changes within kube-proxy (present behaviour)",
    kills={
        "drops-without-hinted-endpoint",
        "ignores-zone-hints",
        "newest-proxy-at-any-release",
        "no-hints-without-the-gate",
        "takes-disabled-for-auto",
    },
)
@pytest.mark.parametrize("key", [MODE, AWARE_HINTS])
def test_proxy_from_before_the_field_needs_the_annotation(three_zones: Cluster, key: str) -> None:
    three_zones.restart(PROXY, release("1.29"))
    _expect_annotation_needed(three_zones, key)


# The whole cluster


@requirement(
    "KEP-4444/gate-on-again-brings-hints-back",
    "When the ServiceTrafficDistribution gate is enabled again, Services that still have trafficDistribution get hints "
    "and their traffic follows the hints.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Feature Enablement and Rollback (equivalent to enabling the feature for the first time)",
    kills={"drops-stored-fields", "hints-new-endpoints-only", "oldest-proxy-at-any-release"},
)
def test_gate_is_switched_off_and_on_again(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(ON, ON, ON))
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    hinted = expect_written(three_zones, service, pods, "own zone")

    bring_to(three_zones, Skew(OFF, OFF, OFF))
    three_zones.patch_service(service, {"metadata": {"labels": {"changed": "yes"}}})
    expect_written(three_zones, service, pods, "none")
    expect_traffic(three_zones, service, routes(pods, "anywhere", {}))

    bring_to(three_zones, Skew(ON, ON, ON))
    expect_stored(three_zones, service.name, "trafficDistribution", "PreferClose")
    expect_written(three_zones, service, pods, "own zone")
    expect_traffic(three_zones, service, routes(pods, "by zone", hinted))


@requirement(
    "KEP-4444/enabling-changes-no-service-without-the-field",
    "When the ServiceTrafficDistribution gate is enabled, hints and traffic of a Service without trafficDistribution "
    "do not change, with or without the topology annotation.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-4444, Feature Enablement and Rollback (does enabling the feature change any default behavior: no)",
    kills={"flushes-before-it-starts"},
)
def test_switching_the_gate_on_changes_nothing_without_the_field(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(OFF, OFF, OFF))
    plain = three_zones.create_service(selector=WEB)
    annotated = three_zones.create_service(selector=WEB, annotations={MODE: "Auto"})
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    expect_written(three_zones, plain, pods, "none")
    hinted = expect_written(three_zones, annotated, pods, "shared out")
    expect_traffic(three_zones, annotated, routes(pods, "by zone", hinted))

    with expect_no_loss(three_zones, plain, from_=CLIENTS, allowed=set(pods)):
        bring_to(three_zones, Skew(ON, ON, ON))
    expect_written(three_zones, plain, pods, "none")
    hinted = expect_written(three_zones, annotated, pods, "shared out")
    expect_traffic(three_zones, plain, routes(pods, "anywhere", {}))
    expect_traffic(three_zones, annotated, routes(pods, "by zone", hinted))


@requirement(
    "KEP-4444/enabling-writes-no-slice-without-the-field",
    "Enabling the ServiceTrafficDistribution gate causes no writes to slices of Services without trafficDistribution, "
    "whether or not they have the topology annotation.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={ROLLOUT},
    source="KEP-4444, Scalability (any new API calls: no); KEP-2433, Goals (minimize churn of EndpointSlices)",
    kills={"rewrites-slices-at-any-start"},
)
def test_switching_the_gate_on_writes_no_slice_without_the_field(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(OFF, OFF, ON))
    plain = three_zones.create_service(selector=WEB)
    annotated = three_zones.create_service(selector=WEB, annotations={MODE: "Auto"})
    nodes = {f"p{number}": node for number, node in enumerate(SERVERS)}
    for name, node in nodes.items():
        three_zones.create_pod(name, node, labels=WEB)
    expect_hints(three_zones, plain, dict.fromkeys(nodes))
    expect_hint_counts(three_zones, annotated, SHARED_OUT)

    with expect_unchanged(three_zones, plain), expect_unchanged(three_zones, annotated):
        bring_to(three_zones, Skew(ON, ON, ON))


NEWEST, ALPHA, BETA = Release(), release("1.30"), release("1.31")


@requirement(
    "KEP-4444/on-by-default-from-1-31",
    "In the API server, the controller and the proxy, the ServiceTrafficDistribution gate is disabled by default in "
    "1.30 and enabled by default from 1.31.",
    level=MUST,
    features={SKEW},
    source="KEP-4444, Implementation History (alpha in 1.30, beta in 1.31)",
    kills={
        "newest-api-server-at-any-release",
        "newest-controller-at-any-release",
        "newest-proxy-at-any-release",
        "oldest-controller-at-any-release",
        "oldest-proxy-at-any-release",
    },
)
@pytest.mark.parametrize("component", ["api-server", "controller", "proxy"])
def test_feature_is_on_by_default_from_1_31(three_zones: Cluster, component: str) -> None:
    cases = {
        "api-server": (Skew(ALPHA, NEWEST, NEWEST), Skew(BETA, NEWEST, NEWEST)),
        "controller": (Skew(NEWEST, ALPHA, NEWEST), Skew(NEWEST, BETA, NEWEST)),
        "proxy": (Skew(NEWEST, NEWEST, ALPHA), Skew(NEWEST, NEWEST, BETA)),
    }
    alpha, beta = cases[component]
    pods = three_zones.run_servers(SERVERS, labels=WEB)

    bring_to(three_zones, alpha)
    off = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    expect_written(three_zones, off, pods, "own zone" if component == "proxy" else "none")
    expect_traffic(three_zones, off, routes(pods, "anywhere", {}))

    bring_to(three_zones, beta)
    on = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    hinted = expect_written(three_zones, on, pods, "own zone")
    expect_traffic(three_zones, on, routes(pods, "by zone", hinted))
