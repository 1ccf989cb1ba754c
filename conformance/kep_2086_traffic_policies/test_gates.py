"""KEP-2086, Feature Enablement and Rollback: the ServiceInternalTrafficPolicy gate in the API server and the proxy."""

from __future__ import annotations

import pytest

from conformance.features import API_SERVER_RELEASES, INTERNAL_POLICY, PROXY_RELEASES, TRAFFIC_POLICY_FIELDS
from conformance.kep_4444_traffic_distribution.test_validation import expect_stored
from trafficdist import (
    API_SERVER,
    MUST,
    PROXY,
    Cluster,
    Release,
    endpoint,
    expect_traffic,
    release,
    requirement,
)

BETA = release("1.22")
OFF = {"by default": release("1.21"), "by its gate": release("1.25", ServiceInternalTrafficPolicy=False)}
POLICY = "internalTrafficPolicy"
LOCAL = {"spec": {POLICY: "Local"}}

off = pytest.mark.parametrize("how", OFF.values(), ids=OFF.keys())


@requirement(
    "KEP-2086/api-gate-off-drops-the-field",
    "With the ServiceInternalTrafficPolicy gate disabled (the default in 1.21), a Service is stored without "
    "internalTrafficPolicy, on create and on update; from Kubernetes 1.22 on, the field defaults to Cluster.",
    level=MUST,
    features={API_SERVER_RELEASES, TRAFFIC_POLICY_FIELDS},
    source="KEP-2086, Proposal (not settable in alpha unless the gate is enabled; on by default in Beta)",
    kills={"newest-api-server-at-any-release", "no-default-policy"},
)
@off
def test_field_is_dropped_while_the_gate_is_off(three_zones: Cluster, how: Release) -> None:
    three_zones.restart(API_SERVER, how)
    plain, local = three_zones.create_service(), three_zones.create_service(internal_traffic_policy="Local")
    expect_stored(three_zones, plain.name, POLICY, None)
    expect_stored(three_zones, local.name, POLICY, None)
    three_zones.patch_service(plain, LOCAL)
    expect_stored(three_zones, plain.name, POLICY, None)

    three_zones.restart(API_SERVER, BETA)
    expect_stored(three_zones, three_zones.create_service().name, POLICY, "Cluster")


@requirement(
    "KEP-2086/api-gate-off-keeps-a-stored-field",
    "With the ServiceInternalTrafficPolicy gate disabled, an update keeps the internalTrafficPolicy that a Service "
    "already has.",
    level=MUST,
    features={API_SERVER_RELEASES, TRAFFIC_POLICY_FIELDS},
    source="KEP-2086, Feature Enablement and Rollback (will persist that field unless unset by the user)",
    kills={"drops-stored-policies"},
)
@off
def test_stored_field_outlives_the_gate(three_zones: Cluster, how: Release) -> None:
    three_zones.restart(API_SERVER, BETA)
    service = three_zones.create_service(internal_traffic_policy="Local")
    three_zones.restart(API_SERVER, how)
    expect_stored(three_zones, service.name, POLICY, "Local")

    three_zones.patch_service(service, {"metadata": {"labels": {"changed": "yes"}}})
    expect_stored(three_zones, service.name, POLICY, "Local")


@requirement(
    "KEP-2086/proxy-gate-off-ignores-the-policy",
    "With the ServiceInternalTrafficPolicy gate disabled, a proxy ignores internalTrafficPolicy Local, and follows it "
    "once the gate is enabled; traffic to a Service without the field uses all endpoints in both cases.",
    level=MUST,
    features={INTERNAL_POLICY, PROXY_RELEASES},
    source="KEP-2086, Rollout, Upgrade and Rollback Planning, Proxy Enablement Rollback",
    kills={"ignores-internal-local", "newest-proxy-at-any-release"},
)
@off
def test_proxy_ignores_the_policy_while_its_gate_is_off(three_zones: Cluster, how: Release) -> None:
    three_zones.restart(PROXY, how)
    local, plain = three_zones.create_service(internal_traffic_policy="Local"), three_zones.create_service()
    a1, b1 = pods = three_zones.run_servers(on=["a1", "b1"])
    for service in (local, plain):
        three_zones.publish(service, [endpoint(pod) for pod in pods])
    expect_traffic(three_zones, local, {"a1": {a1, b1}, "b1": {a1, b1}})
    expect_traffic(three_zones, plain, {"a1": {a1, b1}})

    three_zones.restart(PROXY, BETA)
    expect_traffic(three_zones, local, {"a1": {a1}, "b1": {b1}})
    expect_traffic(three_zones, plain, {"a1": {a1, b1}})
