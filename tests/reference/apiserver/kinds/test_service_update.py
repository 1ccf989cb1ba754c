"""Updates of a Service: fields that are preserved, released or immutable."""

from __future__ import annotations

import copy

import pytest

DUAL = {"ipFamilyPolicy": "PreferDualStack"}


@pytest.fixture
def stored(rules, service):
    """Return a Service to which addresses and ports have been allocated."""

    def build(**spec):
        obj = rules.create("services", service(**spec))
        families = obj["spec"].get("ipFamilies", [])
        given = {"IPv4": "10.96.0.7", "IPv6": "fd00:10:96::7"}
        if families and obj["spec"].get("clusterIP") != "None":
            obj["spec"]["clusterIPs"] = [given[each] for each in families]
            obj["spec"]["clusterIP"] = obj["spec"]["clusterIPs"][0]
        if obj["spec"]["type"] in {"NodePort", "LoadBalancer"}:
            for index, port in enumerate(obj["spec"]["ports"]):
                port.setdefault("nodePort", 30080 + index)
        if obj["spec"]["type"] == "LoadBalancer" and obj["spec"]["externalTrafficPolicy"] == "Local":
            obj["spec"]["healthCheckNodePort"] = 31000
        return obj

    return build


def changed(obj, **spec):
    new = copy.deepcopy(obj)
    for name, value in spec.items():
        if value is None:
            new["spec"].pop(name, None)
        else:
            new["spec"][name] = value
    return new


@pytest.mark.parametrize(
    "spec",
    [
        {},
        DUAL,
        {"clusterIP": "None"},
        {"type": "NodePort"},
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
        {"type": "ExternalName", "externalName": "a.b", "ports": None},
        {"trafficDistribution": "PreferSameNode"},
        {"sessionAffinity": "ClientIP"},
    ],
)
def test_writing_back_a_read_service_changes_nothing(rules, stored, spec):
    old = stored(**spec)
    assert rules.update("services", old, old) == old


@pytest.mark.parametrize(
    "spec", [{}, DUAL, {"type": "NodePort"}, {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}]
)
def test_writing_back_the_created_manifest_keeps_allocations(rules, service, stored, spec):
    old = stored(**spec)
    assert rules.update("services", old, service(**spec)) == old


@pytest.mark.parametrize(
    ("new_type", "released"),
    [
        ("ClusterIP", {"externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"}),
        ("NodePort", {"healthCheckNodePort", "allocateLoadBalancerNodePorts"}),
        ("ExternalName", {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "externalTrafficPolicy"}),
    ],
)
def test_type_change_releases_what_no_longer_fits(rules, stored, new_type, released):
    old = stored(type="LoadBalancer", externalTrafficPolicy="Local", loadBalancerClass="a/b")
    new = rules.update("services", old, changed(old, type=new_type, externalName="a.b"))["spec"]
    assert not (released | {"loadBalancerClass"}) & new.keys()
    assert ("nodePort" in new["ports"][0]) == (new_type == "NodePort")


def test_turning_into_a_load_balancer_keeps_the_node_port(rules, stored):
    old = stored(type="NodePort")
    assert rules.update("services", old, changed(old, type="LoadBalancer"))["spec"]["ports"][0]["nodePort"] == 30080


def test_node_port_follows_the_name_of_its_port(rules, stored):
    old = stored(type="NodePort", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}])
    ports = [{"name": "b", "port": 8081}, {"name": "c", "port": 82}]
    new = rules.update("services", old, changed(old, ports=ports))["spec"]["ports"]
    assert [each.get("nodePort") for each in new] == [30081, None]


def test_node_port_is_not_kept_when_another_port_took_it(rules, stored):
    old = stored(type="NodePort", ports=[{"name": "a", "port": 80}])
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30080}]
    new = rules.update("services", old, changed(old, ports=ports))["spec"]["ports"]
    assert [each.get("nodePort") for each in new] == [None, 30080]


def test_single_stack_policy_removes_the_second_address(rules, stored):
    old = stored(**DUAL)
    new = rules.update("services", old, changed(old, ipFamilyPolicy="SingleStack"))["spec"]
    assert (new["clusterIPs"], new["ipFamilies"]) == (["10.96.0.7"], ["IPv4"])


def test_dual_stack_policy_adds_the_second_family(rules, stored):
    old = stored()
    new = rules.update("services", old, changed(old, ipFamilyPolicy="PreferDualStack"))["spec"]
    assert (new["clusterIPs"], new["ipFamilies"]) == (["10.96.0.7"], ["IPv4", "IPv6"])


def test_change_from_external_name_assigns_families(rules, stored):
    old = stored(type="ExternalName", externalName="a.b")
    assert rules.update("services", old, changed(old, type="ClusterIP"))["spec"]["ipFamilies"] == ["IPv4"]


def test_type_change_removes_the_load_balancer_status(rules, stored):
    old = stored(type="LoadBalancer")
    old["status"] = {"loadBalancer": {"ingress": [{"ip": "198.18.1.1", "ipMode": "VIP"}]}}
    assert rules.update("services", old, changed(old))["status"] == old["status"]
    assert rules.update("services", old, changed(old, type="ClusterIP"))["status"] == {"loadBalancer": {}}


REFUSED = [
    ({}, {"clusterIP": "10.96.0.8"}, 'spec.clusterIPs[0]: Invalid value: ["10.96.0.8"]: may not change once set'),
    (
        DUAL,
        {"ipFamilies": ["IPv6", "IPv4"]},
        'spec.ipFamilies[0]: Invalid value: ["IPv6","IPv4"]: may not change once set',
    ),
    (
        DUAL,
        {"clusterIPs": ["10.96.0.7"]},
        (
            'spec.ipFamilyPolicy: Invalid value: "PreferDualStack": '
            "must be set to 'SingleStack' when releasing the secondary clusterIP"
        ),
    ),
    (
        {},
        {"clusterIP": "None", "clusterIPs": ["None"]},
        'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set',
    ),
    (
        {"type": "LoadBalancer", "loadBalancerClass": "a/b"},
        {"loadBalancerClass": "a/c"},
        'spec.loadBalancerClass: Invalid value: "a/c": may not change once set',
    ),
    (
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
        {"healthCheckNodePort": 31001},
        "spec.healthCheckNodePort: Forbidden: field is immutable",
    ),
]


@pytest.mark.parametrize(("spec", "change", "said"), REFUSED)
def test_update_is_refused(rules, stored, spec, change, said):
    old = stored(**spec)
    assert said in rules.update_refusals("services", old, changed(old, **change))


def test_name_of_a_stored_object_is_immutable(rules, stored):
    old, new = stored(), stored()
    new["metadata"]["name"] = "other"
    assert 'metadata.name: Invalid value: "other": field is immutable' in rules.update_refusals("services", old, new)


def test_status_write_does_not_change_the_spec(rules, stored):
    old = stored()
    assert (
        rules.update_status("services", old, changed(old, trafficDistribution="PreferClose"))[0]["spec"] == old["spec"]
    )
