"""KEP-4444, Implementation specific heuristics: values with a domain prefix, and their effects.

Released Kubernetes rejects all such values.
"""

from __future__ import annotations

import pytest

from conformance.features import (
    DOMAIN_HEURISTICS,
    DOMAIN_VALUES,
    ROUTING,
    SAMPLE_HEURISTIC,
    TRAFFIC_DISTRIBUTION_FIELD,
)
from conformance.kep_4444_traffic_distribution.test_validation import (
    create_service,
    expect_accepted,
    expect_refused,
    expect_stored,
)
from trafficdist import (
    MUST,
    Cluster,
    Hints,
    expect_hints,
    expect_traffic,
    requirement,
)

WEB = {"app": "web"}
FIELD = "spec.trafficDistribution"


@requirement(
    "KEP-4444/api-stores-values-with-a-domain",
    "The API server accepts and returns a value of trafficDistribution that consists of a domain, a slash and a name.",
    level=MUST,
    features={DOMAIN_VALUES, TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Implementation specific heuristics",
    as_="kep",
    kills={"refuses-values-with-a-domain", "loses-the-field"},
)
def test_values_with_a_domain_are_stored(three_zones: Cluster) -> None:
    for name, value in (("one", "example.org/Cheapest"), ("two", "acme.example.com/least-latency.v2")):
        created = create_service(three_zones, name, trafficDistribution=value)
        expect_accepted(three_zones, f"trafficDistribution {value}", created)
        expect_stored(three_zones, name, "trafficDistribution", value)


@requirement(
    "KEP-4444/api-refuses-malformed-domains",
    "A trafficDistribution with a slash whose domain or name is malformed or missing is rejected with an error that "
    "names the field.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="KEP-4444, Implementation specific heuristics (a domain and the name of a heuristic)",
    kills={"takes-any-value-with-a-slash"},
)
def test_malformed_domains_are_refused(three_zones: Cluster) -> None:
    for value in ("/Cheapest", "example.org/", "example.org/a/b", "exa mple.org/Cheapest", "example.org/Cheap est"):
        response = create_service(three_zones, trafficDistribution=value)
        expect_refused(three_zones, f"trafficDistribution {value!r}", response, FIELD)


@requirement(
    "KEP-4444/api-refuses-values-with-a-domain",
    "A trafficDistribution with a domain prefix is rejected with an error that names the field.",
    level=MUST,
    features={TRAFFIC_DISTRIBUTION_FIELD},
    source="Kubernetes, validation of Services; KEP-4444 allows such values",
    as_="released",
    instead_of="KEP-4444/api-stores-values-with-a-domain",
    kills={"accepts-every-value", "takes-any-value-with-a-slash"},
)
def test_values_with_a_domain_are_refused(three_zones: Cluster) -> None:
    response = create_service(three_zones, trafficDistribution="example.org/Cheapest")
    expect_refused(three_zones, "trafficDistribution 'example.org/Cheapest'", response, FIELD)


@requirement(
    "KEP-4444/unknown-domain-is-no-preference",
    "If trafficDistribution has a domain that a controller does not know, the controller writes no hints and removes "
    "the hints of the previous value; traffic goes to all endpoints.",
    level=MUST,
    features={DOMAIN_HEURISTICS, ROUTING},
    source="KEP-4444, Implementation specific heuristics",
    as_="kep",
    kills={"domains-mean-prefer-close"},
)
def test_unknown_domain_is_no_preference(three_zones: Cluster) -> None:
    service = three_zones.create_service(selector=WEB, traffic_distribution="PreferClose")
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_hints(three_zones, service, {"a1": Hints(zones=("a",)), "b1": Hints(zones=("b",))})

    three_zones.patch_service(service, {"spec": {"trafficDistribution": "example.org/nobody-has-this"}})
    expect_hints(three_zones, service, {"a1": None, "b1": None})
    expect_traffic(three_zones, service, {"a2": {a1, b1}, "b2": {a1, b1}})


@requirement(
    "KEP-4444/heuristic-of-a-domain-is-applied",
    "In each IP family, with trafficDistribution trafficdist.dev/PreferNextZone, traffic stays in the client's zone, "
    "or goes to the next zone with endpoints if the client's zone has none, including after an endpoint is removed.",
    level=MUST,
    features={DOMAIN_HEURISTICS, ROUTING, SAMPLE_HEURISTIC},
    source="KEP-4444, Implementation specific heuristics",
    as_="kep",
    kills={"domains-mean-prefer-close", "knows-no-heuristics", "hints-of-a-heuristic-cut-short"},
    fixes={"names": "the next zone is the next by name"},
)
@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_heuristic_of_a_domain_is_applied(three_zones: Cluster, family: str) -> None:
    service = three_zones.create_service(
        selector=WEB, traffic_distribution="trafficdist.dev/PreferNextZone", ipFamilies=[family]
    )
    a1, b1 = three_zones.run_servers(["a1", "b1"], labels=WEB)
    expect_hints(three_zones, service, {"a1": Hints(zones=("a", "c")), "b1": Hints(zones=("b",))}, family=family)
    expect_traffic(three_zones, service, {"a2": {a1}, "b2": {b1}, "c1": {a1}}, family=family)

    three_zones.delete_pod(a1)
    expect_hints(three_zones, service, {"b1": Hints(zones=("b", "a", "c"))}, family=family)
    expect_traffic(three_zones, service, {"a2": {b1}, "c1": {b1}}, family=family)
