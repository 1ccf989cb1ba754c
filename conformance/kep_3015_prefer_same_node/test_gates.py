"""KEP-3015, Feature Enablement and Rollback: the PreferSameTrafficDistribution gate, disabled and enabled."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.features import (
    API_SERVER_RELEASES,
    CONTROLLER_RELEASES,
    MINIMAL_API_CALLS,
    NODE_HINTS,
    PREFER_SAME_NODE,
    PREFER_SAME_ZONE,
    PROXY_RELEASES,
    ROLLOUT,
    SKEW,
)
from conformance.kep_4444_traffic_distribution.test_validation import create_service, expect_stored, patch_service
from conformance.skew import CLIENTS, SERVERS, WEB, Routed, Skew, Written, bring_to, expect_written, routes
from trafficdist import (
    API_SERVER,
    CONTROLLER,
    MUST,
    PROXY,
    SHOULD,
    Cluster,
    Endpoint,
    Hints,
    Release,
    endpoint,
    expect_hints,
    expect_no_loss,
    expect_traffic,
    expect_unchanged,
    manifests,
    path_of,
    release,
    requirement,
    same_node,
)

OFF, ON = release("1.34", PreferSameTrafficDistribution=False), release("1.34")
NEW_VALUES = ("PreferSameZone", "PreferSameNode")
FIELD = "spec.trafficDistribution"
BOTH, ZONE_ONLY = Hints(zones=("a",), nodes=("a1",)), Hints(zones=("a",))


# API server


@requirement(
    "KEP-3015/api-gate-off-refuses-the-new-values",
    "With the PreferSameTrafficDistribution gate disabled, PreferSameZone and PreferSameNode are rejected with an "
    "error that names the field, on create and on update; PreferClose is accepted.",
    level=MUST,
    features={API_SERVER_RELEASES},
    source="KEP-3015, Feature Enablement and Rollback (components depending on the feature gate)",
    kills={"newest-api-server-at-any-release", "accepts-every-value", "names-no-field"},
)
@pytest.mark.parametrize("value", NEW_VALUES)
def test_new_values_are_refused_while_the_gate_is_off(three_zones: Cluster, value: str) -> None:
    three_zones.restart(API_SERVER, OFF)
    service = three_zones.create_service(traffic_distribution="PreferClose")

    created = create_service(three_zones, "other", trafficDistribution=value)
    updated = patch_service(three_zones, service.name, {"spec": {"trafficDistribution": value}})
    for what, response in (("create", created), ("update", updated)):
        three_zones.expect_equal(
            f"answer to {what} with trafficDistribution {value}",
            expected={"code": 422, "names the field": True},
            observed={"code": response.code, "names the field": FIELD in [each["field"] for each in response.causes]},
        )
    expect_stored(three_zones, service.name, "trafficDistribution", "PreferClose")


@requirement(
    "KEP-3015/api-gate-off-keeps-a-stored-value",
    "With the PreferSameTrafficDistribution gate disabled, a Service that is stored with PreferSameZone or "
    "PreferSameNode keeps this value when other fields change.",
    level=SHOULD,
    features={API_SERVER_RELEASES},
    source="KEP-3015, Feature Enablement and Rollback (can the feature be disabled once it has been enabled: yes)",
    as_="kep",
    kills={"refuses-stored-values"},
)
@pytest.mark.parametrize("value", NEW_VALUES)
def test_stored_value_outlives_the_gate(three_zones: Cluster, value: str) -> None:
    three_zones.restart(API_SERVER, ON)
    service = three_zones.create_service(traffic_distribution=value)
    three_zones.restart(API_SERVER, OFF)
    expect_stored(three_zones, service.name, "trafficDistribution", value)

    for patch in ({"metadata": {"labels": {"changed": "yes"}}}, {"spec": {"internalTrafficPolicy": "Local"}}):
        response = patch_service(three_zones, service.name, patch)
        said = f"{response.code} {response.body.get('message')}" if response.code >= 400 else "accepted"
        three_zones.expect_equal(f"answer to {patch} with {value} stored", expected="accepted", observed=said)
        expect_stored(three_zones, service.name, "trafficDistribution", value)


@requirement(
    "KEP-3015/api-gate-off-drops-node-hints",
    "With the PreferSameTrafficDistribution gate disabled, the API server drops node hints from every slice that is "
    "created or updated, and keeps zone hints.",
    level=MUST,
    features={API_SERVER_RELEASES},
    source="KEP-3015, Feature Enablement and Rollback (dropped from existing objects on update)",
    as_="kep",
    kills={"newest-api-server-at-any-release", "follows-the-other-reading", "drops-zone-hints-too"},
)
def test_node_hints_are_dropped_while_the_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, ON)
    stored = _write_slice(three_zones, "stored", [BOTH])
    three_zones.restart(API_SERVER, OFF)

    _expect_slice(three_zones, _write_slice(three_zones, "new", [BOTH, ZONE_ONLY]), [ZONE_ONLY, ZONE_ONLY])
    _write_slice(three_zones, stored, [BOTH, BOTH])
    _expect_slice(three_zones, stored, [ZONE_ONLY, ZONE_ONLY])


@requirement(
    "KEP-3015/api-gate-off-keeps-node-hints-in-use",
    "With the PreferSameTrafficDistribution gate disabled, the API server keeps node hints on all endpoints of a "
    "slice that already had a node hint, and drops them from other slices; it keeps zone hints.",
    level=MUST,
    features={API_SERVER_RELEASES},
    source="Kubernetes 1.33, update of EndpointSlices; KEP-3015 says that they are dropped on update",
    as_="released",
    instead_of="KEP-3015/api-gate-off-drops-node-hints",
    kills={"newest-api-server-at-any-release", "follows-the-other-reading", "drops-zone-hints-too"},
)
def test_node_hints_in_use_are_kept_while_the_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(API_SERVER, ON)
    used = _write_slice(three_zones, "used", [BOTH, ZONE_ONLY])
    unused = _write_slice(three_zones, "unused", [ZONE_ONLY])
    three_zones.restart(API_SERVER, OFF)

    _expect_slice(three_zones, _write_slice(three_zones, "new", [BOTH]), [ZONE_ONLY])
    _expect_slice(three_zones, _write_slice(three_zones, unused, [BOTH, BOTH]), [ZONE_ONLY, ZONE_ONLY])
    _expect_slice(three_zones, _write_slice(three_zones, used, [ZONE_ONLY, BOTH]), [ZONE_ONLY, BOTH])


def _write_slice(cluster: Cluster, name: str, hints: Sequence[Hints]) -> str:
    endpoints = [
        Endpoint({"IPv4": f"10.244.1.{number}"}, node="a1", zone="a", hints=each)
        for number, each in enumerate(hints, 1)
    ]
    known = {each["metadata"]["name"] for each in cluster.api.list("endpointslices", cluster.namespace)}
    write = cluster.api.replace if name in known else cluster.api.create
    write("endpointslices", cluster.namespace, manifests.endpoint_slice(name, "web", endpoints))
    return name


def _expect_slice(cluster: Cluster, name: str, hints: Sequence[Hints]) -> None:
    stored = cluster.api.get("endpointslices", cluster.namespace, name)["endpoints"]
    cluster.expect_equal(
        f"hints of slice {name}, read back",
        expected=[each.manifest() for each in hints],
        observed=[each.get("hints") for each in stored],
    )


# Controller


@requirement(
    "KEP-3015/controller-gate-off-removes-hints-of-the-new-values",
    "With the PreferSameTrafficDistribution gate disabled, a controller removes hints of Services with PreferSameZone "
    "or PreferSameNode from the slices that it writes, and keeps hints of Services with PreferClose.",
    level=MUST,
    features={CONTROLLER_RELEASES, PREFER_SAME_NODE, PREFER_SAME_ZONE},
    source="KEP-3015, Test Plan, Integration tests (disabling the feature results in the hints being removed)",
    kills={"newest-controller-at-any-release", "hints-outlive-their-gate", "oldest-controller-at-any-release"},
)
@pytest.mark.parametrize("value", NEW_VALUES)
def test_controller_removes_hints_when_its_gate_goes_off(three_zones: Cluster, value: str) -> None:
    three_zones.restart(CONTROLLER, ON)
    close = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    service = three_zones.create_service(selector=WEB, traffic_distribution=value)
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, service, {"p1": BOTH if value == "PreferSameNode" else ZONE_ONLY}, exactly=True)

    three_zones.restart(CONTROLLER, OFF)
    three_zones.create_pod("p2", "a2", labels=WEB)
    expect_hints(three_zones, service, {"p1": None, "p2": None})
    expect_hints(three_zones, close, {"p1": ZONE_ONLY, "p2": ZONE_ONLY}, exactly=True)


# Proxy


@requirement(
    "KEP-3015/proxy-gate-off-ignores-node-hints",
    "With the PreferSameTrafficDistribution gate disabled, a proxy routes by zone hints, as if there were no node "
    "hints.",
    level=MUST,
    features={NODE_HINTS, PROXY_RELEASES},
    source="KEP-3015, Feature Enablement and Rollback (components depending on the feature gate)",
    kills={
        "drops-without-hinted-endpoint",
        "ignores-zone-hints",
        "newest-proxy-at-any-release",
        "no-zone-hints-without-node-hints",
    },
)
def test_proxy_ignores_node_hints_while_its_gate_is_off(three_zones: Cluster) -> None:
    three_zones.restart(PROXY, OFF)
    service = three_zones.create_service(traffic_distribution="PreferSameNode")
    a1, a2, b1 = three_zones.run_servers(["a1", "a2", "b1"])

    three_zones.publish(service, [same_node(pod) for pod in (a1, a2, b1)])
    expect_traffic(three_zones, service, {"a1": {a1, a2}, "a2": {a1, a2}, "b2": {b1}, "c1": {a1, a2, b1}})

    three_zones.publish(service, [endpoint(pod, nodes=[pod.node]) for pod in (a1, a2, b1)])
    expect_traffic(three_zones, service, {"a1": {a1, a2, b1}, "b1": {a1, a2, b1}})


# The whole cluster


@requirement(
    "KEP-3015/enabling-changes-no-other-value",
    "When the PreferSameTrafficDistribution gate is enabled, hints and traffic of Services without PreferSameZone or "
    "PreferSameNode do not change, and no connection is lost.",
    level=MUST,
    features={ROLLOUT},
    source="KEP-3015, Feature Enablement and Rollback, and Rollout, Upgrade and Rollback Planning",
    kills={"prefer-close-becomes-same-node"},
)
@pytest.mark.parametrize("value", ["PreferClose", None])
def test_switching_the_gate_on_changes_no_other_value(three_zones: Cluster, value: str | None) -> None:
    bring_to(three_zones, Skew(OFF, OFF, OFF))
    service = three_zones.create_service(selector=WEB, traffic_distribution=value)
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    hinted = expect_written(three_zones, service, pods, "own zone" if value else "none")
    expected = routes(pods, "by zone", hinted)
    expect_traffic(three_zones, service, expected)

    with expect_no_loss(three_zones, service, from_=CLIENTS, allowed=set(pods)):
        bring_to(three_zones, Skew(ON, ON, ON))
        expect_traffic(three_zones, service, expected)
    expect_written(three_zones, service, pods, "own zone" if value else "none")


@requirement(
    "KEP-3015/enabling-writes-no-other-slice",
    "When the PreferSameTrafficDistribution gate is enabled, the controller writes no slices of Services without "
    "PreferSameZone or PreferSameNode.",
    level=SHOULD,
    must_if=MINIMAL_API_CALLS,
    features={ROLLOUT},
    source="KEP-3015, Scalability (any new API calls: no); KEP-2433, Goals (minimize churn of EndpointSlices)",
    kills={"rewrites-slices-at-any-start"},
)
def test_switching_the_gate_on_writes_no_other_slice(three_zones: Cluster) -> None:
    bring_to(three_zones, Skew(OFF, OFF, ON))
    close = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    plain = three_zones.create_service(selector=WEB)
    three_zones.create_pod("p1", "a1", labels=WEB)
    expect_hints(three_zones, close, {"p1": ZONE_ONLY}, exactly=True)
    expect_hints(three_zones, plain, {"p1": None})

    with expect_unchanged(three_zones, close), expect_unchanged(three_zones, plain):
        bring_to(three_zones, Skew(ON, ON, ON))


NEWEST, ALPHA, BETA = Release(), release("1.33"), release("1.34")


@requirement(
    "KEP-3015/on-by-default-from-1-34",
    "In the API server, the controller and the proxy, the PreferSameTrafficDistribution gate is disabled by default "
    "in 1.33 and enabled by default from 1.34.",
    level=MUST,
    features={SKEW},
    source="KEP-3015, Version Skew Strategy (available in Alpha for one release before enabling it by default in Beta)",
    kills={
        "newest-api-server-at-any-release",
        "newest-controller-at-any-release",
        "newest-proxy-at-any-release",
        "oldest-controller-at-any-release",
        "oldest-proxy-at-any-release",
        "refuses-new-values",
    },
)
@pytest.mark.parametrize("component", ["api-server", "controller", "proxy"])
def test_feature_is_on_by_default_from_1_34(three_zones: Cluster, component: str) -> None:
    pods = three_zones.run_servers(SERVERS, labels=WEB)
    if component == "api-server":
        for of, answer in ((ALPHA, 422), (BETA, 201)):
            three_zones.restart(API_SERVER, of)
            wanted = manifests.service("asked", trafficDistribution="PreferSameNode")
            response = three_zones.api.request("POST", path_of("services", three_zones.namespace), wanted)
            what = f"answer to trafficDistribution PreferSameNode by {of}"
            three_zones.expect_equal(what, expected=answer, observed=response.code)
        return
    off: Written = "none" if component == "controller" else "own zone and node"
    for of, written in ((ALPHA, off), (BETA, "own zone and node")):
        bring_to(three_zones, Skew(NEWEST, of, NEWEST) if component == "controller" else Skew(NEWEST, NEWEST, of))
        service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
        hinted = expect_written(three_zones, service, pods, written)
        before: Routed = "by zone" if component == "proxy" else "anywhere"
        expect_traffic(three_zones, service, routes(pods, "by node" if of is BETA else before, hinted))
