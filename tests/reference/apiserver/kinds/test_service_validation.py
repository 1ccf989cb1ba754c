"""Validation of a new Service."""

from __future__ import annotations

import pytest

LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "  # two spaces, as in Kubernetes
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
ONLY_LB = "may only be used when `type` is 'LoadBalancer'"


def ports(*every):
    return {"ports": list(every)}


ACCEPTED = {
    "cluster-ip": {},
    "node-port": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]},
    "load-balancer": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
    "load-balancer-without-node-ports": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
    "load-balancer-class": {"type": "LoadBalancer", "loadBalancerClass": "example.com/fast"},
    "source-ranges": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8 ", "fd00::/8"]},
    "external-name": {"type": "ExternalName", "externalName": "example.com.", "ports": None},
    "headless": {"clusterIP": "None"},
    "headless-without-ports": {"clusterIP": "None", "ports": None},
    "no-selector": {"selector": None},
    "same-port-two-protocols": ports({"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53}),
    "same-node-port-two-protocols": {
        "type": "NodePort",
        **ports(
            {"name": "a", "port": 53, "nodePort": 30053, "protocol": "UDP"},
            {"name": "b", "port": 53, "nodePort": 30053},
        ),
    },
    "named-target": ports({"port": 80, "targetPort": "http"}),
    "sctp": ports({"port": 80, "protocol": "SCTP"}),
    "app-protocol": ports({"port": 80, "appProtocol": "kubernetes.io/h2c"}),
    "external-ips": {"externalIPs": ["198.19.1.1", "fd00:198:19:1::1"], "externalTrafficPolicy": "Local"},
    "internal-local": {"internalTrafficPolicy": "Local"},
    "affinity": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86400}}},
    "both-families": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]},
    "both-addresses": {
        "ipFamilyPolicy": "PreferDualStack",
        "clusterIP": "10.96.0.9",
        "clusterIPs": ["10.96.0.9", "fd00:10:96::9"],
    },
    "load-balancer-ip": {"type": "LoadBalancer", "loadBalancerIP": "198.18.1.1"},
    "publish-not-ready": {"publishNotReadyAddresses": True},
    **{
        f"distribution-{value}": {"trafficDistribution": value}
        for value in ("PreferClose", "PreferSameZone", "PreferSameNode")
    },
    "distribution-on-external-name": {
        "type": "ExternalName",
        "externalName": "a.b",
        "ports": None,
        "trafficDistribution": "PreferClose",
    },
}


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED)
def test_service_is_accepted(rules, service, spec):
    assert rules.refusals("services", service(**spec)) == []


REFUSED = {
    "unknown type": (
        {"type": "Magic"},
        (
            'spec.type: Unsupported value: "Magic": '
            'supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
        ),
    ),
    "no type but policy": (
        {"type": "Magic", "internalTrafficPolicy": "Zone"},
        'spec.internalTrafficPolicy: Unsupported value: "Zone": supported values: "Cluster", "Local"',
    ),
    "no ports": ({"ports": []}, "spec.ports: Required value"),
    "port zero": (ports({"port": 0}), "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"),
    "port too large": (
        ports({"port": 65536, "targetPort": 1}),
        "spec.ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
    ),
    "name required": (ports({"port": 80}, {"name": "b", "port": 81}), "spec.ports[0].name: Required value"),
    "name twice": (
        ports({"name": "a", "port": 80}, {"name": "a", "port": 81}),
        'spec.ports[1].name: Duplicate value: "a"',
    ),
    "port twice": (
        ports({"name": "a", "port": 80}, {"name": "b", "port": 80}),
        'spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}',
    ),
    "protocol": (
        ports({"port": 80, "protocol": "ICMP"}),
        'spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ),
    "target name": (
        ports({"port": 80, "targetPort": "a-name-that-is-too-long"}),
        'spec.ports[0].targetPort: Invalid value: "a-name-that-is-too-long": must be no more than 15 characters',
    ),
    "target number": (
        ports({"port": 80, "targetPort": 70000}),
        "spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    "node port on cluster ip": (
        ports({"port": 80, "nodePort": 30080}),
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
    ),
    "node port twice": (
        {
            "type": "NodePort",
            **ports({"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "nodePort": 30080}),
        },
        "spec.ports[1].nodePort: Duplicate value: 30080",
    ),
    "kubelet port": (
        {"type": "LoadBalancer", **ports({"port": 10250})},
        "spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet",
    ),
    "headless load balancer": (
        {"type": "LoadBalancer", "clusterIP": "None"},
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services",
    ),
    "headless node port": (
        {"type": "NodePort", "clusterIP": "None"},
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ),
    "external name missing": ({"type": "ExternalName"}, "spec.externalName: Required value"),
    "external name with address": (
        {"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.96.0.1"},
        "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
    ),
    "affinity": (
        {"sessionAffinity": "Cookie"},
        'spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"',
    ),
    "affinity time": (
        {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}},
        (
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: "
            "must be greater than 0 and less than 86400"
        ),
    ),
    "external ip syntax": (
        {"externalIPs": ["example.com"]},
        (
            'spec.externalIPs[0]: Invalid value: "example.com": '
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        ),
    ),
    "external ip loopback": (
        {"externalIPs": ["127.0.0.1"]},
        'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
    ),
    "external policy without outside": (
        {"externalTrafficPolicy": "Local"},
        'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
    ),
    "external policy value": (
        {"type": "NodePort", "externalTrafficPolicy": "Zone"},
        'spec.externalTrafficPolicy: Unsupported value: "Zone": supported values: "Cluster", "Local"',
    ),
    "internal policy value": (
        {"internalTrafficPolicy": "Zone"},
        'spec.internalTrafficPolicy: Unsupported value: "Zone": supported values: "Cluster", "Local"',
    ),
    "health check port": (
        {"type": "LoadBalancer", "healthCheckNodePort": 30000},
        (
            "spec.healthCheckNodePort: Invalid value: 30000: "
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        ),
    ),
    "class": ({"loadBalancerClass": "a/b"}, f"spec.loadBalancerClass: Forbidden: {ONLY_LB}"),
    "allocate": (
        {"allocateLoadBalancerNodePorts": True},
        f"spec.allocateLoadBalancerNodePorts: Forbidden: {ONLY_LB}",
    ),
    "ranges": (
        {"loadBalancerSourceRanges": ["10.0.0.0/8"]},
        f"spec.LoadBalancerSourceRanges: Forbidden: {ONLY_LB}",
    ),
    "range syntax": (
        {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0"]},
        (
            'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.0": '
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        ),
    ),
    "distribution": (
        {"trafficDistribution": "PreferFar"},
        (
            'spec.trafficDistribution: Unsupported value: "PreferFar": '
            'supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'
        ),
    ),
    "distribution empty": (
        {"trafficDistribution": ""},
        (
            'spec.trafficDistribution: Unsupported value: "": '
            'supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'
        ),
    ),
    "distribution of a malformed domain": (
        {"trafficDistribution": "/mine"},
        (
            'spec.trafficDistribution: Invalid value: "/mine": must be of the form <domain>/<name>, '
            "when it is not one of the standard values: prefix part must be non-empty"
        ),
    ),
    "family": (
        {"ipFamilies": ["IPv5"]},
        'spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"',
    ),
    "family policy": (
        {"ipFamilyPolicy": "Both"},
        (
            'spec.ipFamilyPolicy: Unsupported value: "Both": '
            'supported values: "PreferDualStack", "RequireDualStack", "SingleStack"'
        ),
    ),
    "families without policy": (
        {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"},
        (
            'spec.ipFamilyPolicy: Invalid value: "SingleStack": '
            "must be RequireDualStack or PreferDualStack when multiple IP families are specified"
        ),
    ),
    "one and many differ": (
        {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.2"]},
        'spec.clusterIPs: Invalid value: ["10.96.0.2"]: first value must match `clusterIP`',
    ),
    "many without one": (
        {"clusterIPs": ["10.96.0.2"]},
        'spec.clusterIPs: Invalid value: ["10.96.0.2"]: must be empty when `clusterIP` is not specified',
    ),
    "address syntax": (
        {"clusterIP": "ten"},
        'spec.clusterIPs[0]: Invalid value: "ten": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    "address of the other family": (
        {"clusterIP": "10.96.0.1", "ipFamilies": ["IPv6"]},
        'spec.clusterIPs[0]: Invalid value: "10.96.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`',
    ),
    "two addresses of a family": (
        {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "10.96.0.2"], "ipFamilyPolicy": "PreferDualStack"},
        'spec.clusterIPs: Invalid value: ["10.96.0.1","10.96.0.2"]: may specify no more than one IP for each IP family',
    ),
}


@pytest.mark.parametrize(("spec", "said"), REFUSED.values(), ids=REFUSED)
def test_service_is_refused_in_the_released_words(rules, service, spec, said):
    assert said in rules.refusals("services", service(**spec))


@pytest.mark.parametrize("spec", [case[0] for name, case in REFUSED.items() if name.startswith("distribution")])
def test_unknown_distribution_is_a_single_error(rules, service, spec):
    assert len(rules.refusals("services", service(**spec))) == 1


@pytest.mark.parametrize(("follows", "complaints"), [("kep", 0), ("released", 1)])
def test_distribution_with_a_domain_is_accepted_only_as_the_kep_says(rules, service, follows, complaints):
    named = service(trafficDistribution="example.com/mine")
    assert len(rules.update_refusals("services", service(), named, follows=follows)) == complaints


@pytest.mark.parametrize("value", ["example.com/", "Example.com/mine", "a/b/c", "example.com/my name", "//"])
def test_malformed_distribution_error_states_the_format(rules, service, value):
    refused = rules.refusals("services", service(trafficDistribution=value))
    assert refused
    assert all("must be of the form <domain>/<name>" in each for each in refused)


def test_unknown_type_is_a_single_error(rules, service):
    assert len(rules.refusals("services", service(type="Magic"))) == 1


@pytest.mark.parametrize("name", ["1web", "web.app", "Web", "web-", "w" * 64])
def test_service_name_is_an_rfc_1035_label(rules, service, name):
    named = service()
    named["metadata"]["name"] = name
    assert any(each.startswith("metadata.name: Invalid value") for each in rules.refusals("services", named))


def test_service_name_error_shows_rule_and_example(rules, service):
    named = service()
    named["metadata"]["name"] = "1web"
    assert rules.refusals("services", named) == [f'metadata.name: Invalid value: "1web": {LABEL_1035}']


OLD, NEW = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


@pytest.mark.parametrize("annotations", [{OLD: "Auto"}, {NEW: "Auto"}, {OLD: "x", NEW: "x"}, {NEW: "anything at all"}])
def test_topology_annotations_alone_or_equal_are_accepted(rules, service, annotations):
    assert rules.refusals("services", service(annotations=annotations)) == []


def test_topology_annotations_that_differ_are_one_error_on_the_new_key(rules, service):
    assert rules.refusals("services", service(annotations={OLD: "Auto", NEW: "Disabled"})) == [
        f'metadata.annotations[{NEW}]: Invalid value: "Disabled": must match annotations[{OLD}] when both are specified'
    ]


def test_topology_annotations_may_differ_before_the_new_key_existed(rules, service):
    assert rules.refusals("services", service(annotations={OLD: "Auto", NEW: "x"}), version="1.26") == []


def test_source_ranges_annotation_needs_a_load_balancer(rules, service):
    key = "service.beta.kubernetes.io/load-balancer-source-ranges"
    assert rules.refusals("services", service(annotations={key: "10.0.0.0/8"})) == [
        f"metadata.annotations[{key}]: Forbidden: {ONLY_LB}"
    ]


def test_dual_stack_cannot_be_required_of_a_single_stack_cluster(rules_of, service):
    refused = rules_of(("IPv4",)).refusals("services", service(ipFamilyPolicy="RequireDualStack"))
    assert refused == [
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
    ]


def test_family_must_be_one_of_the_cluster(rules_of, service):
    refused = rules_of(("IPv4",)).refusals("services", service(ipFamilies=["IPv6"]))
    assert refused == ['spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster']


def test_address_must_be_of_a_family_of_the_cluster(rules_of, service):
    refused = rules_of(("IPv4",)).refusals("services", service(clusterIP="fd00:10:96::1", ipFamilies=["IPv6"]))
    assert 'spec.clusterIPs[0]: Invalid value: ["fd00:10:96::1"]: IPv6 is not configured on this cluster' in refused


def test_headless_service_without_selector_may_have_a_family_of_another_cluster(rules_of, service):
    headless = service(clusterIP="None", selector=None, ipFamilies=["IPv6"])
    assert rules_of(("IPv4",)).refusals("services", headless) == []


STATUS = {
    "name is an address": (
        {"hostname": "10.0.0.1"},
        'hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
    ),
    "address syntax": (
        {"ip": "lb"},
        'ip: Invalid value: "lb": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    "mode": (
        {"ip": "198.18.1.1", "ipMode": "NAT"},
        'ipMode: Unsupported value: "NAT": supported values: "Proxy", "VIP"',
    ),
    "mode without address": (
        {"hostname": "lb.example", "ipMode": "VIP"},
        "ipMode: Forbidden: may not be specified when `ip` is not set",
    ),
}


@pytest.mark.parametrize(("ingress", "said"), STATUS.values(), ids=STATUS)
def test_load_balancer_status_is_refused(rules, service, ingress, said):
    old = rules.create("services", service(type="LoadBalancer"))
    _, refused = rules.update_status("services", old, {**old, "status": {"loadBalancer": {"ingress": [ingress]}}})
    assert refused == [f"status.loadBalancer.ingress[0].{said}"]


def test_load_balancer_status_needs_the_type(rules, service):
    old = rules.create("services", service())
    new = {**old, "status": {"loadBalancer": {"ingress": [{"ip": "198.18.1.1"}]}}}
    assert rules.update_status("services", old, new)[1] == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]
