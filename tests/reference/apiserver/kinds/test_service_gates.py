"""The releases and feature gates in which each Service field exists."""

from __future__ import annotations

import copy

import pytest

from reference.apiserver.kinds.services import Services
from reference.features import Features


def stored_value(rules, obj, name, **how):
    return rules.create("services", obj, **how)["spec"].get(name)


@pytest.mark.parametrize(
    ("version", "gates", "kept"),
    [
        ("1.29", {}, False),
        ("1.30", {}, False),
        ("1.30", {"ServiceTrafficDistribution": True}, True),
        ("1.31", {}, True),
        ("1.31", {"ServiceTrafficDistribution": False}, False),
        ("1.33", {}, True),
    ],
)
def test_traffic_distribution_is_dropped_on_create_while_disabled(rules, service, version, gates, kept):
    value = stored_value(
        rules, service(trafficDistribution="PreferClose"), "trafficDistribution", version=version, gates=gates
    )
    assert value == ("PreferClose" if kept else None)


GATE = "PreferSameTrafficDistribution"


@pytest.mark.parametrize(
    ("how", "accepted"),
    [
        ({"version": "1.32"}, False),
        ({"version": "1.33"}, False),
        ({"version": "1.33", "gates": {GATE: True}}, True),
        ({"version": "1.34"}, True),
        ({"version": "1.34", "gates": {GATE: False}}, False),
        ({"version": "1.35"}, True),
    ],
)
@pytest.mark.parametrize("value", ["PreferSameZone", "PreferSameNode"])
def test_same_zone_and_same_node_require_their_gate(rules, service, value, how, accepted):
    refused = rules.refusals("services", service(trafficDistribution=value), **how)
    said = f'spec.trafficDistribution: Unsupported value: "{value}": supported values: "PreferClose"'
    assert refused == ([] if accepted else [said])


def test_update_keeps_a_disabled_field_that_is_in_use(rules, service):
    old = rules.create("services", service(trafficDistribution="PreferClose"), version="1.31")
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"changed": "yes"}
    assert rules.update("services", old, new, version="1.30")["spec"]["trafficDistribution"] == "PreferClose"


def test_update_drops_a_disabled_field_that_is_not_in_use(rules, service):
    old = rules.create("services", service(), version="1.30")
    new = copy.deepcopy(old)
    new["spec"]["trafficDistribution"] = "PreferClose"
    assert "trafficDistribution" not in rules.update("services", old, new, version="1.30")["spec"]


def test_server_without_the_field_drops_stored_values(rules, service):
    old = rules.create("services", service(trafficDistribution="PreferClose"), version="1.31")
    assert "trafficDistribution" not in rules.update("services", old, old, version="1.29")["spec"]


@pytest.mark.parametrize(
    ("follows", "refused"),
    [
        ("kep", []),
        (
            "released",
            ['spec.trafficDistribution: Unsupported value: "PreferSameNode": supported values: "PreferClose"'],
        ),
    ],
)
def test_stored_value_survives_its_disabled_gate_only_as_the_kep_says(rules, service, follows, refused):
    old = rules.create("services", service(trafficDistribution="PreferSameNode"), version="1.34")
    how = {"version": "1.34", "gates": {GATE: False}, "follows": follows}
    assert rules.update_refusals("services", old, old, **how) == refused


def test_value_with_a_disabled_gate_does_not_replace_another(rules, service):
    old = rules.create("services", service(trafficDistribution="PreferSameNode"), version="1.34")
    new = copy.deepcopy(old)
    new["spec"]["trafficDistribution"] = "PreferSameZone"
    assert rules.update_refusals("services", old, new, version="1.34", gates={GATE: False}) != []


@pytest.mark.parametrize(
    ("version", "gates", "policy"),
    [
        ("1.20", {}, None),
        ("1.21", {}, None),
        ("1.21", {"ServiceInternalTrafficPolicy": True}, "Local"),
        ("1.22", {}, "Local"),
        ("1.22", {"ServiceInternalTrafficPolicy": False}, None),
        ("1.26", {}, "Local"),
    ],
)
def test_internal_policy_is_dropped_while_disabled(rules, service, version, gates, policy):
    assert (
        stored_value(
            rules, service(internalTrafficPolicy="Local"), "internalTrafficPolicy", version=version, gates=gates
        )
        == policy
    )


def test_internal_policy_is_not_defaulted_while_disabled(rules, service):
    assert "internalTrafficPolicy" not in rules.create("services", service(), version="1.21")["spec"]


@pytest.mark.parametrize(
    ("version", "gates", "kept"),
    [
        ("1.17", {}, False),
        ("1.17", {"ServiceTopology": True}, True),
        ("1.21", {}, False),
        ("1.21", {"ServiceTopology": True}, True),
        ("1.22", {}, False),
        ("1.22", {"ServiceTopology": True}, True),
        ("1.37", {}, False),
        ("1.37", {"ServiceTopology": True}, True),
        ("1.37", {"ServiceTopology": False}, False),
    ],
)
def test_topology_keys_require_their_gate(rules, service, version, gates, kept):
    keys = ["kubernetes.io/hostname", "*"]
    assert stored_value(rules, service(topologyKeys=keys), "topologyKeys", version=version, gates=gates) == (
        keys if kept else None
    )


TOPOLOGY = {"version": "1.20", "gates": {"ServiceTopology": True}}


@pytest.mark.parametrize("version", ["1.20", "1.37"])
def test_stored_topology_keys_survive_their_disabled_gate(rules, service, version):
    on, off = ({"version": version, "gates": {"ServiceTopology": value}} for value in (True, False))
    old = rules.create("services", service(topologyKeys=["rack"]), **on)
    kept = rules.update("services", old, old, **off)
    other = rules.update("services", old, service(topologyKeys=["zone"]), **off)
    assert (kept["spec"]["topologyKeys"], other["spec"]["topologyKeys"]) == (["rack"], ["zone"])
    assert "topologyKeys" not in rules.update("services", old, service(), **off)["spec"]


@pytest.mark.parametrize("how", [{"version": "1.20"}, {"version": "1.37", "gates": {"ServiceTopology": False}}])
def test_topology_keys_are_not_added_to_a_stored_service_while_their_gate_is_off(rules, service, how):
    old = rules.create("services", service(), **how)
    assert "topologyKeys" not in rules.update("services", old, service(topologyKeys=["rack"]), **how)["spec"]


def test_release_without_topology_keys_drops_even_stored_ones(rules, service):
    old = rules.create("services", service(topologyKeys=["rack"]), **TOPOLOGY)
    assert "topologyKeys" not in rules.update("services", old, old, version="1.22")["spec"]


def test_empty_list_of_topology_keys_is_not_stored(rules, service):
    assert "topologyKeys" not in rules.create("services", service(topologyKeys=[]), **TOPOLOGY)["spec"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([f"example.com/k{n}" for n in range(17)], "spec.topologyKeys: Too many: 17: must have at most 16 items"),
        (["a", "a"], 'spec.topologyKeys[1]: Duplicate value: "a"'),
        (["*", "a"], 'spec.topologyKeys[0]: Invalid value: "*": "*" must be the last value specified'),
        (["a", "b", "a"], 'spec.topologyKeys[2]: Duplicate value: "a"'),
        (["*", "*"], 'spec.topologyKeys[1]: Duplicate value: "*"'),
        (["a b"], "spec.topologyKeys[0]: Invalid value"),
        ([""], "spec.topologyKeys[0]: Invalid value"),
        (["a", "a/b/c"], "spec.topologyKeys[1]: Invalid value"),
        (["/rack"], "spec.topologyKeys[0]: Invalid value"),
        (["Example.com/rack"], "spec.topologyKeys[0]: Invalid value"),
        (["k" * 64], "spec.topologyKeys[0]: Invalid value"),
    ],
)
def test_topology_keys_are_refused(rules, service, keys, said):
    refused = rules.refusals("services", service(topologyKeys=keys), **TOPOLOGY)
    assert any(each.startswith(said) for each in refused)


@pytest.mark.parametrize("keys", [["*"], ["topology.kubernetes.io/zone", "*"], [f"k{n}" for n in range(16)]])
def test_topology_keys_are_accepted(rules, service, keys):
    assert rules.refusals("services", service(topologyKeys=keys), **TOPOLOGY) == []


def test_topology_keys_do_not_go_with_an_external_policy_of_local(rules, service):
    spec = {"type": "NodePort", "externalTrafficPolicy": "Local", "topologyKeys": ["*"]}
    assert rules.refusals("services", service(**spec), **TOPOLOGY) == [
        "spec.topologyKeys: Forbidden: may not be specified when `externalTrafficPolicy=Local`"
    ]


def test_topology_keys_and_external_policy_local_exclude_each_other_on_update(rules, service):
    keyed = service(type="NodePort", topologyKeys=["rack"])
    local = service(type="NodePort", externalTrafficPolicy="Local")
    both = service(type="NodePort", externalTrafficPolicy="Local", topologyKeys=["rack"])
    for before in (keyed, local):
        old = rules.create("services", before, **TOPOLOGY)
        assert len(rules.update_refusals("services", old, both, **TOPOLOGY)) == 1
        assert rules.update_refusals("services", old, local if before is keyed else keyed, **TOPOLOGY) == []


@pytest.mark.parametrize("fields", [{"internalTrafficPolicy": "Local"}, {"clusterIP": "None"}])
def test_topology_keys_go_with_an_internal_policy_and_with_headless_services(rules, service, fields):
    how = {"version": "1.37", "gates": {"ServiceTopology": True}}
    assert rules.refusals("services", service(topologyKeys=["rack"], **fields), **how) == []


WARNINGS = [
    (
        {"trafficDistribution": "PreferClose"},
        ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
    ),
    ({"trafficDistribution": "PreferSameZone"}, []),
    (
        {"annotations": {"service.kubernetes.io/topology-aware-hints": "Auto"}},
        [
            (
                "annotation service.kubernetes.io/topology-aware-hints is deprecated, "
                "please use service.kubernetes.io/topology-mode instead"
            )
        ],
    ),
    ({"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}, []),
    ({"externalName": "a.b"}, ['spec.externalName is ignored when spec.type is not "ExternalName"']),
    ({"clusterIP": "None", "sessionAffinity": "ClientIP"}, ["spec.SessionAffinity is ignored for headless services"]),
]


@pytest.mark.parametrize(
    ("fields", "since"),
    [
        ({"trafficDistribution": "PreferClose"}, 35),
        ({"annotations": {"service.kubernetes.io/topology-aware-hints": "Auto"}}, 27),
        ({"externalIPs": ["198.19.1.1"]}, 36),
    ],
)
def test_fields_are_deprecated_from_their_release_on(rules, service, fields, since):
    obj = rules.create("services", service(**fields))
    assert Services().warnings(obj, Features((1, since - 1))) == []
    assert len(Services().warnings(obj, Features((1, since)))) == 1


@pytest.mark.parametrize(("fields", "said"), WARNINGS)
def test_deprecated_and_ignored_fields_cause_warnings(rules, service, fields, said):
    assert Services().warnings(rules.create("services", service(**fields)), Features()) == said
