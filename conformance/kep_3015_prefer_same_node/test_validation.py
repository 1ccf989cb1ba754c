"""KEP-3015, the API server: the field managers of node hints, and the warning about the deprecated PreferClose.

The `test_validation.py` of KEP-4444 tests the values and hints that the API server accepts or rejects.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.features import DEPRECATION_WARNINGS, HINTS_FIELD, NODE_HINTS_FIELD, TRAFFIC_DISTRIBUTION_FIELD
from conformance.kep_4444_traffic_distribution.test_validation import create_service, patch_service
from trafficdist import (
    MUST,
    Cluster,
    Endpoint,
    Hints,
    Response,
    manifests,
    path_of,
    requirement,
)

APPLY_PATCH = "application/apply-patch+yaml"  # the body is JSON, which is valid YAML


def apply_nodes(cluster: Cluster, manager: str, nodes: Sequence[str]) -> Response:
    """Apply a slice with a forced server-side apply. The slice has one endpoint, with hints for these nodes."""
    endpoint = Endpoint({"IPv4": "10.244.1.9"}, node="a1", zone="a", hints=Hints(zones=("a",), nodes=tuple(nodes)))
    body = manifests.endpoint_slice("web", "web", [endpoint])
    query = {"fieldManager": manager, "force": "true"}
    path = path_of("endpointslices", cluster.namespace, "web")
    return cluster.api.request("PATCH", path, body, query=query, content_type=APPLY_PATCH)


@requirement(
    "KEP-3015/node-hints-are-replaced-as-a-whole",
    "Server-side apply of a list of node hints replaces the list that another field manager wrote, and does not merge "
    "with it.",
    level=MUST,
    features={HINTS_FIELD, NODE_HINTS_FIELD},
    source="KEP-3015, Addition of PreferSameNode (listType=atomic)",
    kills={"node-hints-add-up"},
)
def test_applied_node_hints_replace_those_of_another_manager(three_zones: Cluster) -> None:
    for manager, nodes in (("one", ["a1", "a2"]), ("other", ["b1"]), ("one", ["a2"])):
        answer = apply_nodes(three_zones, manager, nodes)
        said = str(answer.body.get("message", "")) if answer.code >= 400 else "applied"
        three_zones.expect_equal(f"answer to node hints of manager {manager}", expected="applied", observed=said)

        stored = three_zones.api.get("endpointslices", three_zones.namespace, "web")
        hints = stored["endpoints"][0].get("hints") or {}
        seen = [each["name"] for each in hints.get("forNodes") or ()]
        three_zones.expect_equal(f"node hints of slice web after manager {manager}", expected=nodes, observed=seen)


@requirement(
    "KEP-3015/prefer-close-warns",
    "The API server returns a warning that mentions PreferSameZone for a Service with PreferClose, and no warning for "
    "Services with other values.",
    level=MUST,
    features={DEPRECATION_WARNINGS, TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-3015, Summary (PreferClose is deprecated); released since 1.35",
    kills={"does-not-warn"},
)
def test_prefer_close_is_answered_with_a_warning(three_zones: Cluster) -> None:
    for value, warns in (("PreferClose", True), ("PreferSameZone", False), ("PreferSameNode", False)):
        name = value.lower()
        created = create_service(three_zones, name, trafficDistribution=value)
        changed = patch_service(three_zones, name, {"metadata": {"labels": {"example.org/note": "changed"}}})
        for what, answer in (("create", created), ("change", changed)):
            told = any("PreferSameZone" in each for each in answer.warnings)
            three_zones.expect_equal(f"warning to a {what} of service {name}", expected=warns, observed=told)
