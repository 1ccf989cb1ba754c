"""Session affinity in the API server: defaults and validation."""

from __future__ import annotations

from conformance.features import TRAFFIC_POLICY_FIELDS
from conformance.kep_4444_traffic_distribution.test_validation import (
    create_service,
    expect_accepted,
    expect_refused,
    expect_stored,
)
from trafficdist import MUST, Cluster, Response, requirement

SECONDS = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"


@requirement(
    "AFFINITY/api-defaults-and-limits",
    "sessionAffinity defaults to None and accepts only None and ClientIP; with ClientIP, timeoutSeconds defaults to "
    "10800 and must be between 1 and 86400.",
    level=MUST,
    features={TRAFFIC_POLICY_FIELDS},
    source="core/v1 ServiceSpec.sessionAffinity; ClientIPConfig.timeoutSeconds (>0 && <=86400; default value is 10800)",
    kills={"no-default-affinity-time", "any-affinity-time"},
)
def test_affinity_has_defaults_and_limits(three_zones: Cluster) -> None:
    expect_accepted(three_zones, "a Service without sessionAffinity", create_service(three_zones, "plain"))
    expect_stored(three_zones, "plain", "sessionAffinity", "None")
    odd = create_service(three_zones, "odd", sessionAffinity="Cookie")
    expect_refused(three_zones, "sessionAffinity Cookie", odd, "spec.sessionAffinity")

    kept = create_service(three_zones, "kept", sessionAffinity="ClientIP")
    expect_accepted(three_zones, "sessionAffinity ClientIP without a time", kept)
    expect_stored(three_zones, "kept", "sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    for seconds, name in ((1, "shortest"), (86400, "longest")):
        expect_accepted(three_zones, f"timeoutSeconds {seconds}", _create(three_zones, name, seconds))
        expect_stored(three_zones, name, "sessionAffinityConfig", {"clientIP": {"timeoutSeconds": seconds}})
    for seconds in (0, 86401):
        expect_refused(three_zones, f"timeoutSeconds {seconds}", _create(three_zones, "refused", seconds), SECONDS)


def _create(cluster: Cluster, name: str, seconds: int) -> Response:
    config = {"clientIP": {"timeoutSeconds": seconds}}
    return create_service(cluster, name, sessionAffinity="ClientIP", sessionAffinityConfig=config)
