"""Validation of EndpointSlices, and the versions in which each hint field exists."""

from __future__ import annotations

import copy

import pytest

from reference.apiserver.kinds.endpointslices import EndpointSlices
from reference.features import Features

ZONES = [{"name": "zone-a"}]
NODES = [{"name": "a1"}]
BOTH = {"forZones": ZONES, "forNodes": NODES}
NODE_GATE = "PreferSameTrafficDistribution"
OLDER_GATE = "NodeLevelTopology"


def hints_of(obj):
    return [each.get("hints") for each in obj["endpoints"]]


def test_lists_and_port_fields_are_defaulted(rules, slice_of):
    created = rules.create("endpointslices", slice_of(endpoints=None, ports=[{"port": 80}]))
    assert created["endpoints"] == []
    assert created["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]


def test_conditions_are_not_defaulted(rules, slice_of, endpoint):
    created = rules.create("endpointslices", slice_of(endpoint(conditions={"serving": True})))
    assert created["endpoints"][0]["conditions"] == {"serving": True}


ACCEPTED = {
    "plain": {},
    "hints": {"hints": BOTH},
    "empty zone name": {"hints": {"forZones": [{"name": ""}]}},
    "eight zones": {"hints": {"forZones": [{"name": f"z{n}"} for n in range(8)]}},
    "eight nodes": {"hints": {"forNodes": [{"name": f"n{n}"} for n in range(8)]}},
    "no hints in hints": {"hints": {}},
    "conditions": {"conditions": {"ready": True, "serving": True, "terminating": False}},
    "place": {"nodeName": "a1", "zone": "zone-a", "hostname": "web-0"},
    "any target": {"targetRef": {"kind": "Anything", "name": "x"}},
    "hundred addresses": {"addresses": [f"10.0.0.{n}" for n in range(1, 101)]},
}


@pytest.mark.parametrize("fields", ACCEPTED.values(), ids=ACCEPTED)
def test_endpoint_is_accepted(rules, slice_of, endpoint, fields):
    assert rules.refusals("endpointslices", slice_of(endpoint(**fields))) == []


REFUSED = {
    "no address": ({"addresses": []}, "addresses: Required value: must contain at least 1 address"),
    "too many addresses": (
        {"addresses": [f"10.0.0.{n}" for n in range(1, 102)]},
        "addresses: Too many: 101: must have at most 100 items",
    ),
    "other family": (
        {"addresses": ["fd00::1"]},
        'addresses[0]: Invalid value: "fd00::1": must be a valid IPv4 address',
    ),
    "loopback": (
        {"addresses": ["127.0.0.1"]},
        'addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
    ),
    "link-local": (
        {"addresses": ["169.254.1.1"]},
        'addresses[0]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)',
    ),
    "nine zones": (
        {"hints": {"forZones": [{"name": f"z{n}"} for n in range(9)]}},
        "hints.forZones: Too many: 9: must have at most 8 items",
    ),
    "nine nodes": (
        {"hints": {"forNodes": [{"name": f"n{n}"} for n in range(9)]}},
        "hints.forNodes: Too many: 9: must have at most 8 items",
    ),
    "zone twice": ({"hints": {"forZones": ZONES * 2}}, 'hints.forZones[1].name: Duplicate value: "zone-a"'),
    "node twice": ({"hints": {"forNodes": NODES * 2}}, 'hints.forNodes[1].name: Duplicate value: "a1"'),
}


@pytest.mark.parametrize(("fields", "said"), REFUSED.values(), ids=REFUSED)
def test_endpoint_is_refused_with_one_error(rules, slice_of, endpoint, fields, said):
    refused = rules.refusals("endpointslices", slice_of(endpoint(), endpoint(**fields)))
    assert refused == [f"endpoints[1].{said}"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"hints": {"forZones": [{"name": "zone a"}]}}, "hints.forZones[0].name"),
        ({"hints": {"forNodes": [{"name": "Node_A"}]}}, "hints.forNodes[0].name"),
        ({"hints": {"forNodes": [{"name": ""}]}}, "hints.forNodes[0].name"),
        ({"nodeName": "Node A"}, "nodeName"),
        ({"hostname": "a.b"}, "hostname"),
    ],
)
def test_endpoint_with_a_malformed_name_is_refused(rules, slice_of, endpoint, fields, path):
    refused = rules.refusals("endpointslices", slice_of(endpoint(**fields)))
    assert refused
    assert all(each.startswith(f"endpoints[0].{path}: Invalid value") for each in refused)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"addressType": ""}, "addressType: Required value"),
        ({"addressType": "IP"}, 'addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"'),
        (
            {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]},
            'ports[1].name: Duplicate value: "a"',
        ),
        ({"ports": [{"port": 1}, {"port": 2}]}, 'ports[1].name: Duplicate value: ""'),
        (
            {"ports": [{"port": 1, "protocol": "ICMP"}]},
            'ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
        ),
    ],
)
def test_slice_is_refused(rules, slice_of, fields, said):
    assert rules.refusals("endpointslices", slice_of(**fields)) == [said]


def test_address_type_decides_the_syntax(rules, slice_of, endpoint):
    for kind, address in (("IPv6", "fd00::1"), ("FQDN", "web.example.com"), ("FQDN", "web.example.com.")):
        assert rules.refusals("endpointslices", slice_of(endpoint(addresses=[address]), addressType=kind)) == []
    assert rules.refusals("endpointslices", slice_of(endpoint(addresses=["web"]), addressType="FQDN"))


def test_address_type_is_immutable(rules, slice_of):
    old = rules.create("endpointslices", slice_of())
    refused = rules.update_refusals("endpointslices", old, {**old, "addressType": "IPv6"})
    assert refused == ['addressType: Invalid value: "IPv6": field is immutable']


def test_thousand_endpoints_fit_and_one_more_does_not(rules, slice_of, endpoint):
    many = [endpoint() for _ in range(1001)]
    assert rules.refusals("endpointslices", slice_of(*many[:1000])) == []
    assert rules.refusals("endpointslices", slice_of(*many)) == [
        "endpoints: Too many: 1001: must have at most 1000 items"
    ]


@pytest.mark.parametrize(("version", "limit"), [("1.20", 100), ("1.21", 20000)])
def test_limit_of_ports_depends_on_the_release(rules, slice_of, version, limit):
    obj = slice_of(ports=[{"name": f"p{n}", "port": 1} for n in range(limit + 1)])
    assert rules.refusals("endpointslices", obj, version=version) == [
        f"ports: Too many: {limit + 1}: must have at most {limit} items"
    ]


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({"version": "1.20"}, None),
        ({"version": "1.21"}, None),
        ({"version": "1.21", "gates": {"TopologyAwareHints": True}}, {"forZones": ZONES}),
        ({"version": "1.24"}, {"forZones": ZONES}),
        ({"version": "1.24", "gates": {"TopologyAwareHints": False}}, None),
        ({"version": "1.32"}, {"forZones": ZONES}),
        ({"version": "1.32", "gates": {OLDER_GATE: True}}, BOTH),
        ({"version": "1.32", "gates": {OLDER_GATE: False}}, {"forZones": ZONES}),
        ({"version": "1.33"}, {"forZones": ZONES}),
        ({"version": "1.33", "gates": {NODE_GATE: True}}, BOTH),
        ({"version": "1.34"}, BOTH),
        ({"version": "1.34", "gates": {NODE_GATE: False}}, {"forZones": ZONES}),
        ({"version": "1.34", "gates": {NODE_GATE: False, OLDER_GATE: True}}, BOTH),
        ({"version": "1.35"}, BOTH),
    ],
)
def test_create_drops_hints_that_are_disabled(rules, slice_of, endpoint, how, kept):
    assert hints_of(rules.create("endpointslices", slice_of(endpoint(hints=BOTH)), **how)) == [kept]


@pytest.mark.parametrize(("follows", "kept"), [("kep", {"forZones": ZONES}), ("released", BOTH)])
def test_update_keeps_disabled_node_hints_in_use_as_released_alone(rules, slice_of, endpoint, follows, kept):
    how = {"version": "1.34", "gates": {NODE_GATE: False}, "follows": follows}
    old = rules.create("endpointslices", slice_of(endpoint(hints=BOTH), endpoint()), version="1.34")
    new = rules.update("endpointslices", old, slice_of(endpoint(), endpoint(hints=BOTH)), **how)
    assert hints_of(new) == [None, kept]


@pytest.mark.parametrize("follows", ["kep", "released"])
def test_update_drops_disabled_node_hints_when_no_old_endpoint_has_them(rules, slice_of, endpoint, follows):
    how = {"version": "1.34", "gates": {NODE_GATE: False}, "follows": follows}
    old = rules.create("endpointslices", slice_of(endpoint(hints={"forZones": ZONES})), version="1.34")
    assert hints_of(rules.update("endpointslices", old, slice_of(endpoint(hints=BOTH)), **how)) == [{"forZones": ZONES}]


@pytest.mark.parametrize(("before", "kept"), [({"forZones": ZONES}, {"forZones": [{"name": "zone-b"}]}), (None, None)])
def test_update_keeps_disabled_hints_only_while_in_use(rules, slice_of, endpoint, before, kept):
    old = rules.create("endpointslices", slice_of(endpoint(**({"hints": before} if before else {}))), version="1.24")
    new = slice_of(endpoint(hints={"forZones": [{"name": "zone-b"}]}))
    gates = {"TopologyAwareHints": False}
    assert hints_of(rules.update("endpointslices", old, new, version="1.24", gates=gates)) == [kept]


def test_server_without_node_hints_drops_stored_ones(rules, slice_of, endpoint):
    old = rules.create("endpointslices", slice_of(endpoint(hints=BOTH)))
    assert hints_of(rules.update("endpointslices", old, old, version="1.32")) == [{"forZones": ZONES}]


def test_free_form_topology_cannot_be_written(rules, slice_of, endpoint):
    labelled = endpoint(deprecatedTopology={"topology.kubernetes.io/zone": "zone-a"})
    assert "deprecatedTopology" not in rules.create("endpointslices", slice_of(labelled))["endpoints"][0]


def test_stored_topology_is_checked_when_the_endpoints_did_not_change(rules, slice_of, endpoint):
    old = slice_of(endpoint(deprecatedTopology={"topology.kubernetes.io/zone": "zone-a"}))
    [refused] = rules.update_refusals("endpointslices", old, {**old, "ports": []})
    assert refused.startswith("endpoints[0].deprecatedTopology[topology.kubernetes.io/zone]: Invalid value")


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        (lambda obj: obj["endpoints"][0].update(hints={"forZones": ZONES}), True),
        (lambda obj: obj["ports"].append({"name": "x", "port": 1}), True),
        (lambda obj: obj["metadata"].update(labels={"a": "b"}), True),
        (lambda obj: obj["metadata"].update(annotations={"a": "b"}), False),
    ],
    ids=["hints", "ports", "labels", "annotations"],
)
def test_generation_counts_endpoints_ports_and_labels(slice_of, endpoint, change, counted):
    old = slice_of(endpoint())
    new = copy.deepcopy(old)
    change(new)
    assert EndpointSlices().spec_changed(new, old) is counted


def test_names_as_addresses_cause_a_warning(slice_of):
    assert EndpointSlices().warnings(slice_of(addressType="FQDN"), Features()) == [
        "spec.addressType: FQDN endpoints are deprecated"
    ]
    assert EndpointSlices().warnings(slice_of(), Features()) == []
