"""The time until a change affects packets. All other requirements wait for the effect, and do not judge the time."""

from __future__ import annotations

from conformance.features import CLUSTER_IP
from trafficdist import SHOULD, Cluster, endpoint, expect_prompt_change, expect_traffic, requirement

SECONDS = 5.0
"""Our own limit. Kubernetes' SLI for network programming latency leaves the limit to each installation."""


@requirement(
    "SERVICE/changes-reach-packets-in-seconds",
    "Without load, a change to a Service's endpoints takes effect for the traffic of all clients within 5 seconds.",
    level=SHOULD,
    features={CLUSTER_IP},
    source="Kubernetes SLIs, Network programming latency (which has no bound: 5 s is the number of this suite)",
    kills={"caches-changes"},
)
def test_changes_reach_packets_in_seconds(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    three_zones.publish(service, [endpoint(a1)])
    expect_traffic(three_zones, service, {"a1": {a1}, "b1": {a1}})

    three_zones.publish(service, [endpoint(b1)])
    expect_prompt_change(three_zones, service, {"a1": {b1}, "b1": {b1}}, seconds=SECONDS)
