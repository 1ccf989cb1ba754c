"""What an API server stores as an EndpointSlice."""

from __future__ import annotations

from conformance.features import HINTS_FIELD
from harness import MUST, Cluster, Endpoint, manifests, path_of, requirement


@requirement(
    "SLICE/api-limits-endpoints",
    "An EndpointSlice has 1,000 endpoints at most.",
    level=MUST,
    features={HINTS_FIELD},
    source="discovery/v1 EndpointSlice.endpoints (a maximum of 1000 endpoints)",
    kills={"unlimited-endpoints"},
)
def test_endpoints_of_a_slice_are_limited(three_zones: Cluster) -> None:
    for count, accepted in ((1000, True), (1001, False)):
        endpoints = [Endpoint({"IPv4": f"10.244.{each // 250}.{each % 250 + 1}"}) for each in range(count)]
        body = manifests.endpoint_slice(f"web-{count}", "web", endpoints)
        answer = three_zones.api.request("POST", path_of("endpointslices", three_zones.namespace), body)
        three_zones.expect_equal(
            f"answer to a slice of {count} endpoints: accepted", expected=accepted, observed=answer.code < 400
        )
