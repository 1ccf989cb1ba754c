"""Defaults of the fields that a new Service omits."""

from __future__ import annotations

import copy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reference.apiserver.kinds import service_fields
from reference.apiserver.kinds.services import Services

FIELDS = st.fixed_dictionaries(
    {
        "ports": st.lists(
            st.fixed_dictionaries({"port": st.integers(1, 65535)}, optional={"targetPort": st.just("http")}), max_size=3
        )
    },
    optional={
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
        "clusterIP": st.sampled_from(["None", "10.96.0.7", "fd00:10:96::7", ""]),
        "ipFamilies": st.sampled_from([["IPv4"], ["IPv6"], ["IPv6", "IPv4"]]),
        "ipFamilyPolicy": st.sampled_from(["SingleStack", "PreferDualStack", "RequireDualStack"]),
        "sessionAffinity": st.sampled_from(["None", "ClientIP", ""]),
        "externalIPs": st.sampled_from([[], ["198.19.1.1"]]),
        "externalTrafficPolicy": st.sampled_from(["", "Local"]),
        "selector": st.sampled_from([{}, {"app": "web"}]),
    },
)


@given(FIELDS)
def test_defaulting_is_idempotent(spec):
    service = {"metadata": {"name": "web"}, "spec": spec}
    service_fields.set_defaults(service)
    once = copy.deepcopy(service)
    service_fields.set_defaults(service)
    assert service == once


@given(FIELDS, st.sampled_from([("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ("IPv6", "IPv4")]))
def test_family_selection_is_idempotent(spec, cluster):
    service_fields.choose_families(spec, cluster)
    once = copy.deepcopy(spec)
    service_fields.choose_families(spec, cluster)
    assert spec == once


GIVEN = {"IPv4": "10.96.0.7", "IPv6": "fd00:10:96::7"}


@given(FIELDS)
def test_accepted_service_can_be_written_back_unchanged(rules, spec):
    obj = {"kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    assume(rules.refusals("services", obj) == [])
    stored = rules.create("services", obj)
    families = Services().allocations(stored).ip_families
    if families:
        stored["spec"]["clusterIPs"] = [GIVEN[each] for each in families]
        stored["spec"]["clusterIP"] = GIVEN[families[0]]
    assert rules.update("services", stored, stored) == stored


def test_plain_service_gets_all_defaults(rules, service):
    spec = rules.create("services", service())["spec"]
    assert spec == {
        "selector": {"app": "web"},
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({"type": "NodePort"}, "Cluster"),
        ({"type": "LoadBalancer"}, "Cluster"),
        ({"externalIPs": ["198.19.1.1"]}, "Cluster"),
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, "Local"),
        ({}, None),
    ],
)
def test_external_policy_is_defaulted_for_externally_accessible_services(rules, service, spec, policy):
    assert rules.create("services", service(**spec))["spec"].get("externalTrafficPolicy") == policy


def test_external_name_gets_no_traffic_policy_and_no_family(rules, service):
    spec = rules.create("services", service(type="ExternalName", externalName="a.example", ports=None))["spec"]
    assert not {"internalTrafficPolicy", "externalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"} & spec.keys()


def test_client_affinity_timeout_defaults_to_three_hours(rules, service):
    spec = rules.create("services", service(sessionAffinity="ClientIP"))["spec"]
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


def test_load_balancer_gets_node_ports(rules, service):
    assert rules.create("services", service(type="LoadBalancer"))["spec"]["allocateLoadBalancerNodePorts"] is True


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({}, ["IPv4"]),
        ({"ipFamilies": ["IPv6"]}, ["IPv6"]),
        ({"clusterIP": "fd00:10:96::5"}, ["IPv6"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"]),
        ({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}, ["IPv6", "IPv4"]),
        ({"ipFamilyPolicy": "RequireDualStack", "clusterIP": "fd00:10:96::5"}, ["IPv6", "IPv4"]),
        ({"clusterIP": "None"}, ["IPv4"]),
    ],
)
def test_families_follow_from_addresses_policy_and_cluster(rules, service, spec, families):
    assert rules.create("services", service(**spec))["spec"]["ipFamilies"] == families


def test_prefer_dual_stack_gets_one_family_in_a_single_stack_cluster(rules_of, service):
    spec = rules_of(("IPv6",)).create("services", service(ipFamilyPolicy="PreferDualStack"))["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv6"], "PreferDualStack")


def test_status_of_a_new_service_is_empty(rules, service):
    created = rules.create("services", {**service(), "status": {"loadBalancer": {"ingress": [{"ip": "198.18.1.1"}]}}})
    assert created["status"] == {"loadBalancer": {}}


def test_ingress_ip_mode_defaults_to_vip(rules, service):
    old = rules.create("services", service(type="LoadBalancer"))
    new, _ = rules.update_status(
        "services", old, {**old, "status": {"loadBalancer": {"ingress": [{"ip": "198.18.1.1"}]}}}
    )
    assert new["status"]["loadBalancer"]["ingress"] == [{"ip": "198.18.1.1", "ipMode": "VIP"}]


ALLOCATIONS = [
    ({}, (("IPv4",), ("",), (), False)),
    ({"clusterIP": "10.96.0.7"}, (("IPv4",), ("10.96.0.7",), (), False)),
    ({"clusterIP": "10.96.0.7", "ipFamilyPolicy": "PreferDualStack"}, (("IPv4", "IPv6"), ("10.96.0.7", ""), (), False)),
    ({"clusterIP": "None"}, ((), (), (), False)),
    ({"type": "ExternalName", "externalName": "a.b"}, ((), (), (), False)),
    ({"type": "NodePort"}, (("IPv4",), ("",), (0,), False)),
    ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, (("IPv4",), ("",), (0,), True)),
    ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, (("IPv4",), ("",), (), False)),
]


@pytest.mark.parametrize(("spec", "wanted"), ALLOCATIONS)
def test_allocations_follow_from_the_spec(rules, service, spec, wanted):
    found = Services().allocations(rules.create("services", service(**spec)))
    assert (found.ip_families, found.cluster_ips, found.node_ports, found.health_check_node_port) == wanted


def test_explicit_node_port_is_kept_when_allocation_is_disabled(rules, service):
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30081}]
    assert Services().allocations(rules.create("services", service(ports=ports, **spec))).node_ports == (1,)
