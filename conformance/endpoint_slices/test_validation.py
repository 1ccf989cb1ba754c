"""Validation of EndpointSlices by the API server."""

from __future__ import annotations

from typing import Any

from conformance.features import HINTS_FIELD
from conformance.kep_4444_traffic_distribution.test_validation import expect_accepted
from trafficdist import MERGE_PATCH, MUST, Cluster, Endpoint, Response, manifests, path_of, requirement

LONGEST = "a" * 63
"""A DNS label of maximum length."""


def slice_with(*, ports: list[dict[str, Any]] | None = None, family: str = "IPv4", **endpoint: Any) -> dict[str, Any]:
    """Return a slice with one endpoint that has these additional fields. `ports` replaces the default port."""
    body = manifests.endpoint_slice("web", "web", [Endpoint({family: "10.244.1.9"}, extra=endpoint)], family=family)
    return body if ports is None else {**body, "ports": ports}


def of(*addresses: str, family: str = "IPv4") -> dict[str, Any]:
    """Return a slice whose endpoint has these addresses."""
    return slice_with(addresses=list(addresses), family=family)


HUNDRED = [f"10.244.1.{each}" for each in range(100)]
VALID = {
    "one hundred addresses": of(*HUNDRED),
    "an IPv6 address": of("fd00::9", family="IPv6"),
    "a name of two labels": of("web.example.com", family="FQDN"),
    "a hostname of 63 letters": slice_with(hostname=LONGEST),
    "a port name of 63 letters": slice_with(ports=[{"name": LONGEST, "port": 80}]),
    "ports of each protocol": slice_with(
        ports=[{"name": each.lower(), "port": 80, "protocol": each} for each in ("TCP", "UDP", "SCTP")]
    ),
    "one port without a name": slice_with(ports=[{"port": 80}]),
    "no port": slice_with(ports=[]),
}
ADDRESSES = "endpoints[0].addresses"
INVALID = {
    "no address": (of(), ADDRESSES),
    "one hundred and one addresses": (of(*HUNDRED, "10.244.2.1"), ADDRESSES),
    "an IPv6 address in a slice of IPv4": (of("fd00::9"), ADDRESSES),
    "an IPv4 address in a slice of IPv6": (of("10.244.1.9", family="IPv6"), ADDRESSES),
    "a text that is no address": (of("web"), ADDRESSES),
    "a second address that is none": (of("10.244.1.9", "web"), ADDRESSES),
    "a name that is none of DNS": (of("not a name", family="FQDN"), ADDRESSES),
    "no type of addresses": (slice_with() | {"addressType": ""}, "addressType"),
    "an unknown type of addresses": (slice_with() | {"addressType": "IPv5"}, "addressType"),
    "a hostname in capitals": (slice_with(hostname="WEB"), "endpoints[0].hostname"),
    "a hostname of 64 letters": (slice_with(hostname=LONGEST + "a"), "endpoints[0].hostname"),
    "a port name in capitals": (slice_with(ports=[{"name": "HTTP", "port": 80}]), "ports[0].name"),
    "a port name of 64 letters": (slice_with(ports=[{"name": LONGEST + "a", "port": 80}]), "ports[0].name"),
    "two ports of one name": (
        slice_with(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}, {"name": "a", "port": 82}]),
        "ports[2].name",
    ),
    "two ports without a name": (slice_with(ports=[{"port": 80}, {"port": 81}]), "ports[1].name"),
    "an unknown protocol": (slice_with(ports=[{"port": 80, "protocol": "HTTP"}]), "ports[0].protocol"),
}
"""Invalid slices, and the field path (or part of the path) that the error must name."""


@requirement(
    "SLICE/api-refuses-malformed-slices",
    "An EndpointSlice is valid only if its endpoints have 1 to 100 addresses of the slice's address type, hostnames "
    "and port names are DNS labels, port names are unique, and protocols are known; the address type is immutable.",
    level=MUST,
    features={HINTS_FIELD},
    source="discovery/v1 EndpointSlice.addressType (immutable), Endpoint (addresses, hostname), EndpointPort",
    kills={"slices-of-any-syntax", "slices-change-their-type"},
)
def test_malformed_slices_are_refused(three_zones: Cluster) -> None:
    path = path_of("endpointslices", three_zones.namespace)
    for number, (what, body) in enumerate(VALID.items()):
        named = {**body, "metadata": {**body["metadata"], "name": f"valid-{number}"}}
        expect_accepted(three_zones, what, three_zones.api.request("POST", path, named))
    for what, (body, field) in INVALID.items():
        expect_refused(three_zones, what, three_zones.api.request("POST", path, body), field)
    valid = f"{path}/valid-0"
    changed = three_zones.api.request("PATCH", valid, {"addressType": "FQDN"}, content_type=MERGE_PATCH)
    expect_refused(three_zones, "another type of a slice", changed, "addressType")


def expect_refused(cluster: Cluster, what: str, answer: Response, field: str) -> None:
    """Expect a 422 Invalid response whose causes name this field."""
    named = [each["field"] for each in answer.causes]
    cluster.expect_equal(
        f"answer to {what}",
        expected=(422, field),
        observed=(answer.code, field if any(each.startswith(field) for each in named) else ", ".join(named)),
        explanation=str(answer.body.get("message", "")),
    )


@requirement(
    "SLICE/api-limits-endpoints",
    "An EndpointSlice has at most 1,000 endpoints.",
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
