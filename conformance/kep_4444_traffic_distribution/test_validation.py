"""KEP-4444 and KEP-3015, the API server: the values that it accepts and rejects."""

from __future__ import annotations

from typing import Any

from conformance.features import (
    HINTS_FIELD,
    NODE_HINTS_FIELD,
    OPENAPI,
    PREFER_SAME_VALUES,
    TRAFFIC_DISTRIBUTION_FIELD,
    TRAFFIC_POLICY_FIELDS,
)
from trafficdist import (
    MERGE_PATCH,
    MUST,
    SHOULD,
    Cluster,
    Endpoint,
    Hints,
    Response,
    manifests,
    path_of,
    requirement,
)

FOR_ZONES = "endpoints[0].hints.forZones"
FOR_NODES = "endpoints[0].hints.forNodes"


def create_service(cluster: Cluster, name: str = "web", **fields: Any) -> Response:
    body = manifests.service(name, **fields)
    return cluster.api.request("POST", path_of("services", cluster.namespace), body)


def create_slice(cluster: Cluster, hints: Hints, name: str = "web") -> Response:
    """Create an EndpointSlice with one endpoint that has these hints, and return the API server's response."""
    endpoint = Endpoint({"IPv4": "10.244.1.9"}, node="a1", zone="a", hints=hints)
    body = manifests.endpoint_slice(name, "web", [endpoint])
    return cluster.api.request("POST", path_of("endpointslices", cluster.namespace), body)


def patch_service(cluster: Cluster, name: str, patch: dict[str, Any], subresource: str = "") -> Response:
    path = path_of("services", cluster.namespace, name, subresource)
    return cluster.api.request("PATCH", path, patch, content_type=MERGE_PATCH)


def expect_accepted(cluster: Cluster, what: str, response: Response) -> None:
    cluster.expect_equal(f"answer to {what}", expected="accepted", observed=response.outcome)


def expect_refused(cluster: Cluster, what: str, response: Response, field: str) -> None:
    cluster.expect_equal(
        f"answer to {what}",
        expected={"code": 422, "field": field},
        observed={"code": response.code, "field": response.named(field)},
        explanation=response.outcome,
    )


def expect_stored(cluster: Cluster, name: str, field: str, value: Any) -> None:
    """Read a Service back, and expect this value of a field of its spec. None means that the field is absent."""
    spec = cluster.api.get("services", cluster.namespace, name)["spec"]
    cluster.expect_equal(f"spec.{field} of service {name}, read back", expected=value, observed=spec.get(field))


@requirement(
    "KEP-4444/api-stores-the-field",
    "A Service with trafficDistribution PreferClose is accepted and read back with the field, and a Service without "
    "the field is read back without it.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Proposal (the field will support the following initial values)",
    kills={"loses-the-field"},
)
def test_field_is_stored_and_read_back(three_zones: Cluster) -> None:
    created = create_service(three_zones, trafficDistribution="PreferClose")
    expect_accepted(three_zones, "trafficDistribution PreferClose", created)
    expect_accepted(three_zones, "a Service without trafficDistribution", create_service(three_zones, "plain"))

    expect_stored(three_zones, "web", "trafficDistribution", "PreferClose")
    expect_stored(three_zones, "plain", "trafficDistribution", None)


@requirement(
    "KEP-3015/api-stores-the-new-values",
    "The trafficDistribution values PreferSameZone and PreferSameNode are accepted and read back unchanged.",
    level=MUST,
    features={PREFER_SAME_VALUES, TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-3015, Design Details",
    kills={"refuses-new-values"},
)
def test_values_of_kep_3015_are_stored(three_zones: Cluster) -> None:
    for name, value in (("zone", "PreferSameZone"), ("node", "PreferSameNode")):
        created = create_service(three_zones, name, trafficDistribution=value)
        expect_accepted(three_zones, f"trafficDistribution {value}", created)
        expect_stored(three_zones, name, "trafficDistribution", value)


@requirement(
    "KEP-4444/api-refuses-other-values",
    "A trafficDistribution without a domain prefix is rejected with an error that names the field unless it is exactly "
    "PreferClose, PreferSameZone or PreferSameNode; a value that is not a string is rejected too.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Proposal, and Implementation specific heuristics (names without a domain are reserved)",
    kills={"accepts-every-value", "drops-what-is-no-text", "names-no-field"},
)
def test_other_values_are_refused(three_zones: Cluster) -> None:
    for value in ("PreferFar", "preferclose", "Cheapest"):
        response = create_service(three_zones, trafficDistribution=value)
        expect_refused(three_zones, f"trafficDistribution {value!r}", response, "spec.trafficDistribution")
    for odd in (1, True, ["PreferClose"], {"prefer": "close"}):
        code = create_service(three_zones, trafficDistribution=odd).code
        what = f"answer to trafficDistribution {odd}: refused"
        three_zones.expect_equal(what, expected=True, observed=400 <= code < 500)


@requirement(
    "KEP-4444/api-lets-the-field-be-changed",
    "The trafficDistribution of an existing Service can be set, changed and removed.",
    level=MUST,
    features={PREFER_SAME_VALUES, TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Feature Enablement and Rollback",
    kills={"field-is-fixed"},
)
def test_field_of_a_live_service_can_be_changed(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    for value in ("PreferClose", "PreferSameNode", None):
        response = patch_service(three_zones, service.name, {"spec": {"trafficDistribution": value}})
        expect_accepted(three_zones, f"a change of trafficDistribution to {value}", response)
        expect_stored(three_zones, service.name, "trafficDistribution", value)


@requirement(
    "KEP-4444/api-allows-the-field-beside-policies",
    "trafficDistribution can be set together with either traffic policy, and with the topology annotation.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD, TRAFFIC_POLICY_FIELDS},
    source="KEP-4444, Non-Goals (complementary to the policies); Integration tests (annotation and field)",
    kills={"field-excludes-policies"},
)
def test_field_goes_together_with_policies_and_annotation(three_zones: Cluster) -> None:
    for name, notes in (("plain", {}), ("annotated", {"service.kubernetes.io/topology-mode": "Auto"})):
        response = create_service(
            three_zones,
            name,
            annotations=notes,
            type="NodePort",
            trafficDistribution="PreferClose",
            internalTrafficPolicy="Local",
            externalTrafficPolicy="Local",
        )
        expect_accepted(three_zones, f"{name}: a Service with trafficDistribution and both policies Local", response)


@requirement(
    "KEP-4444/api-refuses-contradicting-annotations",
    "The deprecated and the current topology annotation can be set together only with the same value.",
    level=SHOULD,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Risks and Mitigations; released since 1.27",
    as_="released",
    kills={"annotations-may-contradict"},
)
def test_contradicting_annotations_are_refused(three_zones: Cluster) -> None:
    old, new = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
    same = create_service(three_zones, "same", annotations={old: "Auto", new: "Auto"})
    expect_accepted(three_zones, "both annotations with the value Auto", same)

    differ = create_service(three_zones, "differ", annotations={old: "Auto", new: "Disabled"})
    expect_refused(three_zones, "annotations Auto and Disabled", differ, f"metadata.annotations[{new}]")


@requirement(
    "KEP-2086/api-defaults-the-internal-policy",
    "internalTrafficPolicy defaults to Cluster and accepts only Cluster and Local.",
    level=MUST,
    features={TRAFFIC_POLICY_FIELDS},
    source="KEP-2086, Proposal; core/v1 ServiceSpec.internalTrafficPolicy",
    kills={"no-default-policy"},
)
def test_internal_policy_defaults_to_cluster(three_zones: Cluster) -> None:
    expect_accepted(three_zones, "a Service without internalTrafficPolicy", create_service(three_zones))
    expect_stored(three_zones, "web", "internalTrafficPolicy", "Cluster")

    odd = create_service(three_zones, "odd", internalTrafficPolicy="PreferLocal")
    expect_refused(three_zones, "internalTrafficPolicy PreferLocal", odd, "spec.internalTrafficPolicy")


@requirement(
    "SERVICE/api-external-policy-needs-an-external-address",
    "externalTrafficPolicy is accepted only on Services with external addresses, and defaults to Cluster on such "
    "Services.",
    level=SHOULD,
    features={TRAFFIC_POLICY_FIELDS},
    source="core/v1 ServiceSpec.externalTrafficPolicy",
    kills={"external-policy-anywhere"},
)
def test_external_policy_needs_an_external_address(three_zones: Cluster) -> None:
    expect_accepted(three_zones, "a NodePort without policy", create_service(three_zones, type="NodePort"))
    expect_stored(three_zones, "web", "externalTrafficPolicy", "Cluster")

    inside = create_service(three_zones, "inside", externalTrafficPolicy="Local")
    expect_refused(three_zones, "externalTrafficPolicy on a ClusterIP Service", inside, "spec.externalTrafficPolicy")


@requirement(
    "KEP-3015/api-stores-hints-of-both-kinds",
    "An endpoint with hints for several zones and several nodes is stored and read back unchanged.",
    level=MUST,
    features={HINTS_FIELD, NODE_HINTS_FIELD},
    source="KEP-3015, Addition of PreferSameNode (EndpointHints)",
    kills={"loses-node-hints"},
)
def test_hints_for_zones_and_nodes_are_stored(three_zones: Cluster) -> None:
    hints = Hints(zones=("a", "b"), nodes=("a1", "a2"))
    expect_accepted(three_zones, "hints for zones and nodes", create_slice(three_zones, hints))

    stored = three_zones.api.get("endpointslices", three_zones.namespace, "web")
    seen = stored["endpoints"][0].get("hints")
    three_zones.expect_equal("hints of slice web, read back", expected=hints.manifest(), observed=seen)


@requirement(
    "KEP-2433/api-limits-zone-hints",
    "An endpoint can have hints for at most eight zones.",
    level=MUST,
    features={HINTS_FIELD},
    source="KEP-2433, API (the list); discovery/v1 EndpointHints.forZones (a maximum of 8 entries)",
    kills={"unlimited-hints"},
)
def test_zone_hints_are_limited(three_zones: Cluster) -> None:
    eight = tuple(f"zone-{number}" for number in range(8))
    expect_accepted(three_zones, "hints for eight zones", create_slice(three_zones, Hints(zones=eight), "eight"))

    nine = Hints(zones=(*eight, "ninth"))
    expect_refused(three_zones, "hints for nine zones", create_slice(three_zones, nine), FOR_ZONES)


@requirement(
    "KEP-2433/api-refuses-strange-zone-hints",
    "An endpoint can be hinted for each zone only once, and only with valid zone names.",
    level=SHOULD,
    features={HINTS_FIELD},
    source="KEP-2433, API (says nothing of it); released since 1.21",
    as_="released",
    kills={"hints-may-repeat", "unlimited-hints"},
)
def test_strange_zone_hints_are_refused(three_zones: Cluster) -> None:
    expect_accepted(three_zones, "a hint for zone a", create_slice(three_zones, Hints(zones=("a",)), "valid"))

    twice, no_name = Hints(zones=("a", "b", "a")), Hints(zones=("not a zone",))
    expect_refused(three_zones, "two hints for one zone", create_slice(three_zones, twice), f"{FOR_ZONES}[2].name")
    expect_refused(three_zones, "a hint for 'not a zone'", create_slice(three_zones, no_name), f"{FOR_ZONES}[0].name")


@requirement(
    "KEP-3015/api-limits-node-hints",
    "An endpoint can have hints for at most eight nodes.",
    level=MUST,
    features={HINTS_FIELD, NODE_HINTS_FIELD},
    source="KEP-3015, Addition of PreferSameNode (the list); discovery/v1 EndpointHints.forNodes (at most 8 entries)",
    kills={"unlimited-hints"},
)
def test_node_hints_are_limited(three_zones: Cluster) -> None:
    eight = tuple(f"node-{number}" for number in range(8))
    expect_accepted(three_zones, "hints for eight nodes", create_slice(three_zones, Hints(nodes=eight), "eight"))

    nine = Hints(nodes=(*eight, "ninth"))
    expect_refused(three_zones, "hints for nine nodes", create_slice(three_zones, nine), FOR_NODES)


@requirement(
    "KEP-3015/api-refuses-repeated-node-hints",
    "An endpoint can be hinted for each node only once.",
    level=SHOULD,
    features={HINTS_FIELD, NODE_HINTS_FIELD},
    source="KEP-3015, Addition of PreferSameNode (says nothing of it); released since 1.33",
    kills={"hints-may-repeat"},
)
def test_repeated_node_hints_are_refused(three_zones: Cluster) -> None:
    expect_accepted(three_zones, "a hint for node a1", create_slice(three_zones, Hints(nodes=("a1",)), "valid"))

    twice = Hints(nodes=("a1", "a1"))
    expect_refused(three_zones, "two hints for one node", create_slice(three_zones, twice), f"{FOR_NODES}[1].name")


@requirement(
    "KEP-4444/api-counts-hint-changes",
    "A change to only the hints in an EndpointSlice increases metadata.generation, so that clients can detect the "
    "change.",
    level=SHOULD,
    features={HINTS_FIELD},
    source="discovery/v1 EndpointSlice; metadata.generation",
    kills={"hints-do-not-count"},
)
def test_hint_change_raises_the_generation(three_zones: Cluster) -> None:
    expect_accepted(three_zones, "a slice", create_slice(three_zones, Hints(zones=("a",))))
    before = three_zones.api.get("endpointslices", three_zones.namespace, "web")
    changed = {**before, "endpoints": [{**before["endpoints"][0], "hints": Hints(zones=("b",)).manifest()}]}

    after = three_zones.api.replace("endpointslices", three_zones.namespace, changed)["metadata"]
    three_zones.expect_within(
        "metadata.generation of slice web after a change of hints",
        before["metadata"]["generation"] + 1,
        None,
        observed=after["generation"],
    )


@requirement(
    "KEP-4444/api-describes-the-field",
    "The OpenAPI documents of the API server declare trafficDistribution as a string and describe it.",
    level=MUST,
    features={OPENAPI, TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Alternatives, Repurpose the existing topology annotation (kubectl explain)",
    kills={"describes-no-services"},
)
def test_openapi_documents_describe_the_field(three_zones: Cluster) -> None:
    for path, place in (("/openapi/v2", ("definitions",)), ("/openapi/v3/api/v1", ("components", "schemas"))):
        schemas = three_zones.api.request("GET", path).body
        for name in place:
            schemas = schemas.get(name) or {}
        field = field_of(schemas, "Service", "spec", "trafficDistribution")
        three_zones.expect_equal(
            f"spec.trafficDistribution of service objects in {path}",
            expected={"type": "string", "description": True},
            observed={"type": field.get("type"), "description": bool(field.get("description"))},
        )


def field_of(schemas: dict[str, Any], kind: str, *path: str) -> dict[str, Any]:
    """Return the schema of a field of a core kind in an OpenAPI document, or an empty schema if there is none."""
    wanted = {"group": "", "version": "v1", "kind": kind}
    kinds = [each for each in schemas.values() if wanted in (each.get("x-kubernetes-group-version-kind") or ())]
    found: dict[str, Any] = kinds[0] if kinds else {}
    for name in path:
        reference = found.get("$ref") or next((each["$ref"] for each in found.get("allOf") or () if "$ref" in each), "")
        found = schemas.get(reference.rpartition("/")[2], {}) if reference else found
        found = (found.get("properties") or {}).get(name) or {}
    return found
