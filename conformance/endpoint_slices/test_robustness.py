"""A controller keeps running, whatever objects the API server stores."""

from __future__ import annotations

from conformance.features import ENDPOINT_SLICES
from trafficdist import CONTROLLER, MUST, Cluster, Port, expect_hints, expect_running, requirement

WEB = {"app": "web"}


@requirement(
    "SLICE/controller-keeps-running",
    "A controller keeps running and reconciling, whatever Services and pods the API server stores in this and all "
    "other scenarios of the run.",
    level=MUST,
    features={ENDPOINT_SLICES},
    source="discovery/v1 EndpointSlice; kubernetes#107927",
    kills={"controller-crashes-on-pods-of-strange-nodes", "controller-hangs-on-pods-of-strange-nodes"},
    last=True,
)
def test_controller_keeps_running(three_zones: Cluster) -> None:
    """Create pods in any phase or without a Node, and Services without ports or an address, or of type ExternalName."""
    odd = {"app": "odd"}
    with expect_running(three_zones, CONTROLLER):
        three_zones.create_service(
            "odd", selector=odd, traffic_distribution="PreferClose", ports=[Port(target="nobody")]
        )
        three_zones.create_service("portless", selector=odd, clusterIP="None", ports=[])
        three_zones.create_service("alias", selector=odd, type="ExternalName", externalName="web.example.org")
        for phase in ("Pending", "Succeeded", "Failed", "Unknown"):
            three_zones.create_pod(f"odd-{phase.lower()}", "a1", labels=odd, phase=phase)
        three_zones.create_pod("odd-nowhere", "", labels=odd, phase="Pending", ready=False)
        three_zones.create_pod("odd-strange", "nobody", labels=odd)
        three_zones.settle()
        service = three_zones.create_service(selector=WEB)
        three_zones.create_pod("p1", "a1", labels=WEB)
        expect_hints(three_zones, service, {"p1": None})
