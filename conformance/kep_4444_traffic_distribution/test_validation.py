"""KEP-4444 and KEP-3015, the API server's half: which values are stored, and which are refused, and how."""

from __future__ import annotations

from typing import Any

from conformance.features import HINTS_FIELD, TRAFFIC_DISTRIBUTION_FIELD, TRAFFIC_POLICY_FIELDS
from harness import manifests
from harness.api import Response, path_of
from harness.cluster import Cluster
from harness.manifests import Endpoint, Hints
from harness.requirements import MUST, SHOULD, requirement


def create_service(cluster: Cluster, name: str = "web", **fields: Any) -> Response:
    """What the API server answers to the creation of a Service."""
    body = manifests.service(name, **fields)
    return cluster.api.request("POST", path_of("services", cluster.namespace), body)


def create_slice(cluster: Cluster, hints: Hints, name: str = "web") -> Response:
    """What the API server answers to the creation of an EndpointSlice whose one endpoint has these hints."""
    endpoint = Endpoint({"IPv4": "10.244.1.9"}, node="a1", zone="a", hints=hints)
    body = manifests.endpoint_slice(name, "web", [endpoint])
    return cluster.api.request("POST", path_of("endpointslices", cluster.namespace), body)


def expect_refused(response: Response, field: str) -> None:
    """The request is answered with 422 Invalid that names the field."""
    assert response.code == 422, f"wanted 422, got {response.code}: {response.body.get('message', response.body)}"
    assert response.body["reason"] == "Invalid"
    assert field in [cause["field"] for cause in response.causes], response.body["message"]


@requirement(
    "KEP-4444/api-stores-the-field",
    "A Service with trafficDistribution PreferClose is accepted and read back with it; without the field, without it.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Proposal (the field will support the following initial values)",
)
def test_field_is_stored_and_read_back(three_zones: Cluster) -> None:
    assert create_service(three_zones, trafficDistribution="PreferClose").code == 201
    assert create_service(three_zones, "plain").code == 201

    stored = three_zones.api.get("services", three_zones.namespace, "web")
    assert stored["spec"]["trafficDistribution"] == "PreferClose"
    assert "trafficDistribution" not in three_zones.api.get("services", three_zones.namespace, "plain")["spec"]


@requirement(
    "KEP-3015/api-stores-the-new-values",
    "PreferSameZone and PreferSameNode are accepted and read back unchanged.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-3015, Design Details",
)
def test_values_of_kep_3015_are_stored(three_zones: Cluster) -> None:
    for name, value in (("zone", "PreferSameZone"), ("node", "PreferSameNode")):
        assert create_service(three_zones, name, trafficDistribution=value).code == 201
        stored = three_zones.api.get("services", three_zones.namespace, name)
        assert stored["spec"]["trafficDistribution"] == value


@requirement(
    "KEP-4444/api-refuses-other-values",
    "Any other value of trafficDistribution is refused with an error that names the field; so is another spelling.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Proposal; released: domain-prefixed values are refused too",
    as_="released",
)
def test_other_values_are_refused(three_zones: Cluster) -> None:
    for value in ("PreferFar", "preferclose", "example.org/Cheapest", ""):
        expect_refused(create_service(three_zones, trafficDistribution=value), "spec.trafficDistribution")


@requirement(
    "KEP-4444/api-lets-the-field-be-changed",
    "The field of a live Service can be set, changed and removed.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Feature Enablement and Rollback",
)
def test_field_of_a_live_service_can_be_changed(three_zones: Cluster) -> None:
    service = three_zones.create_service()
    for value in ("PreferClose", "PreferSameNode", None):
        three_zones.patch_service(service, {"spec": {"trafficDistribution": value}})
        stored = three_zones.api.get("services", three_zones.namespace, service.name)
        assert stored["spec"].get("trafficDistribution") == value


@requirement(
    "KEP-4444/api-allows-the-field-beside-policies",
    "trafficDistribution may be set together with either traffic policy, and with the annotation.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD, TRAFFIC_POLICY_FIELDS},
    source="KEP-4444, Non-Goals (complementary to the policies); Integration tests (annotation and field)",
)
def test_field_goes_together_with_policies_and_annotation(three_zones: Cluster) -> None:
    response = create_service(
        three_zones,
        annotations={"service.kubernetes.io/topology-mode": "Auto"},
        type="NodePort",
        trafficDistribution="PreferClose",
        internalTrafficPolicy="Local",
        externalTrafficPolicy="Local",
    )
    assert response.code == 201, response.body


@requirement(
    "KEP-4444/api-refuses-contradicting-annotations",
    "The deprecated and the present topology annotation may stand side by side only with the same value.",
    level=SHOULD,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Risks and Mitigations; released since 1.27",
    as_="released",
)
def test_contradicting_annotations_are_refused(three_zones: Cluster) -> None:
    old, new = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
    assert create_service(three_zones, "same", annotations={old: "Auto", new: "Auto"}).code == 201

    refused = create_service(three_zones, "differ", annotations={old: "Auto", new: "Disabled"})
    expect_refused(refused, f"metadata.annotations[{new}]")


@requirement(
    "KEP-2086/api-defaults-the-internal-policy",
    "internalTrafficPolicy is Cluster unless set, and nothing but Cluster and Local is accepted.",
    level=MUST,
    features={TRAFFIC_POLICY_FIELDS},
    source="KEP-2086, Proposal; core/v1 ServiceSpec.internalTrafficPolicy",
)
def test_internal_policy_defaults_to_cluster(three_zones: Cluster) -> None:
    assert create_service(three_zones).code == 201
    stored = three_zones.api.get("services", three_zones.namespace, "web")
    assert stored["spec"]["internalTrafficPolicy"] == "Cluster"

    refused = create_service(three_zones, "odd", internalTrafficPolicy="PreferLocal")
    expect_refused(refused, "spec.internalTrafficPolicy")


@requirement(
    "SERVICE/api-external-policy-needs-an-external-address",
    "externalTrafficPolicy is accepted on Services with external addresses only, and is Cluster there unless set.",
    level=MUST,
    features={TRAFFIC_POLICY_FIELDS},
    source="core/v1 ServiceSpec.externalTrafficPolicy",
)
def test_external_policy_needs_an_external_address(three_zones: Cluster) -> None:
    assert create_service(three_zones, type="NodePort").code == 201
    stored = three_zones.api.get("services", three_zones.namespace, "web")
    assert stored["spec"]["externalTrafficPolicy"] == "Cluster"

    refused = create_service(three_zones, "inside", externalTrafficPolicy="Local")
    expect_refused(refused, "spec.externalTrafficPolicy")


@requirement(
    "KEP-3015/api-stores-hints-of-both-kinds",
    "Hints for zones and for nodes are stored and read back, several of each.",
    level=MUST,
    features={HINTS_FIELD},
    source="KEP-3015, Addition of PreferSameNode (EndpointHints)",
)
def test_hints_for_zones_and_nodes_are_stored(three_zones: Cluster) -> None:
    hints = Hints(zones=("a", "b"), nodes=("a1", "a2"))
    assert create_slice(three_zones, hints).code == 201

    stored = three_zones.api.get("endpointslices", three_zones.namespace, "web")
    assert stored["endpoints"][0]["hints"] == hints.manifest()


@requirement(
    "KEP-2433/api-limits-zone-hints",
    "An endpoint may be hinted for eight zones at most, for each once, and by valid names.",
    level=MUST,
    features={HINTS_FIELD},
    source="KEP-2433, EndpointSlice API; discovery/v1 EndpointHints.forZones",
)
def test_zone_hints_are_limited(three_zones: Cluster) -> None:
    eight = tuple(f"zone-{number}" for number in range(8))
    assert create_slice(three_zones, Hints(zones=eight), "eight").code == 201

    field = "endpoints[0].hints.forZones"
    expect_refused(create_slice(three_zones, Hints(zones=(*eight, "ninth"))), field)
    expect_refused(create_slice(three_zones, Hints(zones=("a", "b", "a"))), f"{field}[2].name")
    expect_refused(create_slice(three_zones, Hints(zones=("not a zone",))), f"{field}[0].name")


@requirement(
    "KEP-3015/api-limits-node-hints",
    "An endpoint may be hinted for eight nodes at most, and for each once.",
    level=SHOULD,
    features={HINTS_FIELD},
    source="discovery/v1 EndpointHints.forNodes",
    as_="released",
)
def test_node_hints_are_limited(three_zones: Cluster) -> None:
    eight = tuple(f"node-{number}" for number in range(8))
    assert create_slice(three_zones, Hints(nodes=eight), "eight").code == 201

    field = "endpoints[0].hints.forNodes"
    expect_refused(create_slice(three_zones, Hints(nodes=(*eight, "ninth"))), field)
    expect_refused(create_slice(three_zones, Hints(nodes=("a1", "a1"))), f"{field}[1].name")


@requirement(
    "KEP-4444/api-counts-hint-changes",
    "A change of hints alone raises the generation of the slice, so that a reader can tell.",
    level=SHOULD,
    features={HINTS_FIELD},
    source="discovery/v1 EndpointSlice; metadata.generation; released",
    as_="released",
)
def test_hint_change_raises_the_generation(three_zones: Cluster) -> None:
    assert create_slice(three_zones, Hints(zones=("a",))).code == 201
    before = three_zones.api.get("endpointslices", three_zones.namespace, "web")
    changed = {**before, "endpoints": [{**before["endpoints"][0], "hints": Hints(zones=("b",)).manifest()}]}

    after = three_zones.api.replace("endpointslices", three_zones.namespace, changed)
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
