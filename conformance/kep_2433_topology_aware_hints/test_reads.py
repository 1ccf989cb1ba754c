"""KEP-2433, Scalability: a proxy watches the node that it runs on, and no other node."""

from __future__ import annotations

from conformance.features import CLUSTER_IP, ZONE_HINTS
from trafficdist import PROXY, SHOULD, Cluster, IneligibleError, reads_after_restart, requirement

NEEDS_ALL = (
    "with the gate ServiceTopology, a proxy reads the labels of all Nodes (KEP-536, Service Topology Scalability)"
)


@requirement(
    "KEP-2433/proxy-watches-no-node-but-its-own",
    "A proxy lists and watches only its own Node, and never all Nodes.",
    level=SHOULD,
    features={CLUSTER_IP, ZONE_HINTS},
    source="KEP-2433, Scalability (Kube-Proxy will include a Node informer that will watch the node it is running on); "
    "KEP-536, Kube-proxy changes (will watch its own node)",
    kills={"watches-all-nodes"},
)
def test_proxy_watches_no_node_but_its_own(three_zones: Cluster) -> None:
    gates = three_zones.release.gates
    if gates.get("ServiceTopology") and not gates.get("PodLocator"):
        raise IneligibleError(NEEDS_ALL)
    reads = reads_after_restart(three_zones, PROXY)
    three_zones.expect_equal(
        f"the {PROXY}: reads of all Nodes after a restart",
        expected=[],
        observed=sorted({each for each in reads if each in {"list nodes", "watch nodes"}}),
    )
