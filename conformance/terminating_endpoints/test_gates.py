"""KEP-1669, Feature Enablement and Rollback: the ProxyTerminatingEndpoints gate, disabled and enabled."""

from __future__ import annotations

import pytest

from conformance.features import CLUSTER_IP, PROXY_RELEASES, TERMINATING_ENDPOINTS
from conformance.terminating_endpoints.test_routing import leaving
from trafficdist import MUST, NO_ANSWER, PROXY, Cluster, Release, endpoint, expect_traffic, release, requirement

BETA = release("1.26")
OFF = {"by default": release("1.25"), "by its gate": release("1.26", ProxyTerminatingEndpoints=False)}


@requirement(
    "KEP-1669/gate-off-uses-no-terminating-endpoint",
    "With the ProxyTerminatingEndpoints gate disabled (the default in 1.25), a Service whose last endpoint terminates "
    "does not answer; with the gate enabled (the default from 1.26), the terminating endpoint answers.",
    level=MUST,
    features={CLUSTER_IP, PROXY_RELEASES, TERMINATING_ENDPOINTS},
    source="KEP-1669, Alpha (only enabled if the feature gate is on); Rollout, Upgrade and Rollback Planning",
    kills={"newest-proxy-at-any-release", "no-terminating-fallback"},
)
@pytest.mark.parametrize("how", OFF.values(), ids=OFF.keys())
def test_terminating_endpoint_is_not_used_while_the_gate_is_off(three_zones: Cluster, how: Release) -> None:
    three_zones.restart(PROXY, how)
    service = three_zones.create_service()
    (a1,) = three_zones.run_servers(on=["a1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}})

    three_zones.publish(service, [leaving(a1)])
    expect_traffic(three_zones, service, {"a1": NO_ANSWER, "b1": NO_ANSWER})
    three_zones.restart(PROXY, BETA)
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}})
