"""KEP-536, the API server: the topology keys that it accepts and rejects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.features import OPENAPI, TOPOLOGY_KEYS_FIELD
from conformance.kep_536_topology_keys.topology import ANY, HOST, RACK, REGION, ZONE, switch_on
from conformance.kep_4444_traffic_distribution.test_validation import (
    create_service,
    expect_accepted,
    expect_refused,
    expect_stored,
    field_of,
    patch_service,
)
from trafficdist import (
    API_SERVER,
    MUST,
    SHOULD,
    Cluster,
    Response,
    requirement,
)

FIELD = "spec.topologyKeys"
API = "KEP-536, Service API changes"
RELEASED = "core/v1 ServiceSpec.topologyKeys, Kubernetes 1.17 to 1.21"
LOCAL = {"type": "NodePort", "externalTrafficPolicy": "Local"}


def patch(cluster: Cluster, name: str, **spec: Any) -> Response:
    return patch_service(cluster, name, {"spec": spec})


_SIXTEEN = [f"example.com/key-{number}" for number in range(15)] + [ANY]
"""As many keys as Kubernetes releases with topologyKeys accept."""


@requirement(
    "KEP-536/api-stores-the-keys",
    "A Service is read back with its topology keys in the same order, and without the field topologyKeys if it was "
    "created without topology keys.",
    level=MUST,
    features={TOPOLOGY_KEYS_FIELD},
    source=f"{API} (a string slice, and optional; a preference-order list)",
    kills={"fifteen-topology-keys", "loses-topology-keys", "sorts-topology-keys"},
)
def test_keys_are_stored_in_their_order(three_zones: Cluster) -> None:
    switch_on(three_zones, API_SERVER)
    lists = {"three": [ZONE, HOST, RACK], "soft": [REGION, HOST, ANY], "star": [ANY], "sixteen": _SIXTEEN, "none": None}
    for name, keys in lists.items():
        created = create_service(three_zones, name, topologyKeys=keys)
        expect_accepted(three_zones, f"topologyKeys {keys}", created)
        expect_stored(three_zones, name, "topologyKeys", keys)


@requirement(
    "KEP-536/api-lets-keys-be-changed",
    "The topology keys of an existing Service can be set, changed and removed.",
    level=MUST,
    features={TOPOLOGY_KEYS_FIELD},
    source=API,
    kills={"topology-keys-are-fixed"},
)
def test_keys_of_a_live_service_can_be_changed(three_zones: Cluster) -> None:
    switch_on(three_zones, API_SERVER)
    service = three_zones.create_service()
    for keys in ([HOST], [ZONE, HOST], [HOST, ZONE, ANY], None):
        response = patch(three_zones, service.name, topologyKeys=keys)
        expect_accepted(three_zones, f"a change of topologyKeys to {keys}", response)
        expect_stored(three_zones, service.name, "topologyKeys", keys)


@requirement(
    "KEP-536/api-excludes-keys-beside-external-local",
    "A Service can have topology keys together with externalTrafficPolicy Cluster but not with Local, on create and on "
    "update; an update can remove the keys and set Local at the same time.",
    level=MUST,
    features={TOPOLOGY_KEYS_FIELD},
    source="KEP-536, Intersection with Local External Traffic Policy (mutually exclusive; and vice versa)",
    kills={"topology-keys-beside-local"},
)
def test_keys_and_external_policy_local_exclude_each_other(three_zones: Cluster) -> None:
    switch_on(three_zones, API_SERVER)
    both = create_service(three_zones, "both", topologyKeys=[HOST], **LOCAL)
    expect_refused(three_zones, "topologyKeys beside externalTrafficPolicy Local", both, FIELD)

    keyed = three_zones.create_service(type="NodePort", topologyKeys=[HOST], external_traffic_policy="Cluster")
    refused = patch(three_zones, keyed.name, externalTrafficPolicy="Local")
    expect_refused(three_zones, "externalTrafficPolicy Local beside topologyKeys", refused, FIELD)
    local = three_zones.create_service(type="NodePort", external_traffic_policy="Local")
    refused = patch(three_zones, local.name, topologyKeys=[HOST])
    expect_refused(three_zones, "topologyKeys for a Service with externalTrafficPolicy Local", refused, FIELD)

    turned = patch(three_zones, keyed.name, topologyKeys=None, externalTrafficPolicy="Local")
    expect_accepted(three_zones, "externalTrafficPolicy Local instead of topologyKeys", turned)


@requirement(
    "KEP-536/api-allows-keys-beside-other-fields",
    "Topology keys can be combined with internalTrafficPolicy Local and trafficDistribution, and set on headless "
    "Services.",
    level=SHOULD,
    features={TOPOLOGY_KEYS_FIELD},
    source=f"{API}; DNS server changes (topology keys for each headless service)",
    kills={"topology-keys-exclude-everything"},
)
def test_keys_go_with_other_fields(three_zones: Cluster) -> None:
    switch_on(three_zones, API_SERVER)
    for name, fields in (
        ("internal", {"internalTrafficPolicy": "Local"}),
        ("preferring", {"trafficDistribution": "PreferClose"}),
        ("headless", {"clusterIP": "None"}),
    ):
        created = create_service(three_zones, name, topologyKeys=[HOST], **fields)
        expect_accepted(three_zones, f"topologyKeys of service {name} beside {fields}", created)


def _expect_refused_keys(cluster: Cluster, what: str, keys: Sequence[str], field: str) -> None:
    switch_on(cluster, API_SERVER)
    expect_refused(cluster, f"{what}", create_service(cluster, "new", topologyKeys=list(keys)), field)
    live = cluster.create_service(topologyKeys=[HOST])
    expect_refused(cluster, f"a change to {what}", patch(cluster, live.name, topologyKeys=list(keys)), field)
    expect_stored(cluster, live.name, "topologyKeys", [HOST])


@requirement(
    "KEP-536/api-limits-the-number-of-keys",
    "A Service has at most 16 topology keys.",
    level=MUST,
    features={TOPOLOGY_KEYS_FIELD},
    source=RELEASED,
    as_="released",
    kills={"unlimited-topology-keys"},
)
def test_number_of_keys_is_limited(three_zones: Cluster) -> None:
    switch_on(three_zones, API_SERVER)
    expect_accepted(three_zones, "16 topologyKeys", create_service(three_zones, "most", topologyKeys=_SIXTEEN))

    _expect_refused_keys(three_zones, "17 topologyKeys", ["example.com/first", *_SIXTEEN], FIELD)


@requirement(
    "KEP-536/api-refuses-a-key-that-repeats",
    "A Service cannot have the same topology key twice.",
    level=MUST,
    features={TOPOLOGY_KEYS_FIELD},
    source=RELEASED,
    as_="released",
    kills={"topology-keys-may-repeat", "names-no-field"},
)
def test_key_that_repeats_is_refused(three_zones: Cluster) -> None:
    _expect_refused_keys(three_zones, "topologyKeys that repeat", [HOST, RACK, HOST], f"{FIELD}[2]")


@requirement(
    "KEP-536/api-refuses-keys-that-are-no-label-names",
    "A topology key is a label name: an optional DNS subdomain prefix, and 1 to 63 characters.",
    level=MUST,
    features={TOPOLOGY_KEYS_FIELD},
    source="KEP-536, Summary (the value for a particular label, called the topology key); released",
    kills={"topology-keys-of-any-syntax"},
)
@pytest.mark.parametrize("key", ["", "a key", "-rack", "rack-", "/rack", "a/b/c", "Example.com/rack", "k" * 64])
def test_key_that_is_no_label_name_is_refused(three_zones: Cluster, key: str) -> None:
    _expect_refused_keys(three_zones, f"topology key {key!r}", [HOST, key], f"{FIELD}[1]")


@requirement(
    "KEP-536/api-refuses-a-star-that-is-not-last",
    "The topology key * must be the last topology key of a Service, because keys after * would never be used.",
    level=MUST,
    features={TOPOLOGY_KEYS_FIELD},
    source=RELEASED,
    as_="released",
    kills={"star-anywhere"},
)
def test_star_that_is_not_last_is_refused(three_zones: Cluster) -> None:
    _expect_refused_keys(three_zones, "topologyKeys with * in front", [HOST, ANY, ZONE], f"{FIELD}[1]")


@requirement(
    "KEP-536/api-describes-the-keys",
    "The OpenAPI documents of the API server declare topologyKeys as a list of strings and describe it.",
    level=MUST,
    features={OPENAPI, TOPOLOGY_KEYS_FIELD},
    source=API,
    kills={"describes-no-services"},
)
def test_openapi_documents_describe_the_keys(three_zones: Cluster) -> None:
    switch_on(three_zones, API_SERVER)
    for path, place in (("/openapi/v2", ("definitions",)), ("/openapi/v3/api/v1", ("components", "schemas"))):
        schemas = three_zones.api.request("GET", path).body
        for name in place:
            schemas = schemas.get(name) or {}
        field = field_of(schemas, "Service", "spec", "topologyKeys")
        three_zones.expect_equal(
            f"spec.topologyKeys of service objects in {path}",
            expected={"items": "string", "description": True},
            observed={"items": field.get("items", {}).get("type"), "description": bool(field.get("description"))},
        )
