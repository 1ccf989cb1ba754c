"""KEP-3015, Troubleshooting: proxies follow node hints while the API server is down."""

from __future__ import annotations

from conformance.features import OUTAGE, PREFER_SAME_ROUTING
from trafficdist import API_SERVER, CONTROLLER, MUST, Cluster, Traffic, expect_no_loss, expect_traffic, requirement

WEB = {"app": "web"}


@requirement(
    "KEP-3015/routing-outlives-the-api-server",
    "While the API server and the controller are down, traffic to a Service with PreferSameNode still goes to the "
    "client's node, else to the client's zone, else anywhere.",
    level=MUST,
    features={OUTAGE, PREFER_SAME_ROUTING},
    source="KEP-3015, Troubleshooting (no change from existing service/proxy behavior); KEP-4444, Troubleshooting",
    kills={"forgets-all-without-its-server"},
)
def test_node_hints_outlive_the_api_server(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferSameNode")
    a1, b1, b2 = pods = three_zones.run_servers(["a1", "b1", "b2"], labels=WEB)
    nearest: Traffic = {"a1": {a1}, "a2": {a1}, "b1": {b1}, "b2": {b2}, "c1": set(pods)}
    expect_traffic(three_zones, service, nearest)

    with expect_no_loss(three_zones, service, from_=["a2", "b2", "c1"], allowed=set(pods)):
        three_zones.stop(API_SERVER)
        three_zones.stop(CONTROLLER)
        expect_traffic(three_zones, service, nearest)
