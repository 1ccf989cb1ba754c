"""Rules for the pod fields that affect routing."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.apiserver.kinds.pods import Pods
from reference.features import Features


def with_ports(*ports):
    return {"containers": [{"name": "main", "image": "server:1", "ports": list(ports)}]}


def test_pod_gets_policies_and_a_grace_period(rules, pod):
    spec = rules.create("pods", pod())["spec"]
    wanted = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}
    assert wanted.items() <= spec.items()


def test_grace_period_of_zero_is_kept(rules, pod):
    spec = rules.create("pods", pod(terminationGracePeriodSeconds=0))["spec"]
    assert spec["terminationGracePeriodSeconds"] == 0


def test_new_pod_is_pending_regardless_of_its_status(rules, pod):
    created = rules.create("pods", {**pod(nodeName="a1"), "status": {"phase": "Running", "podIP": "10.244.1.5"}})
    assert created["status"] == {"phase": "Pending"}
    assert created["spec"]["nodeName"] == "a1"


def test_port_protocol_defaults_to_tcp(rules, pod):
    created = rules.create("pods", pod(**with_ports({"containerPort": 80})))
    assert created["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_host_network_pod_has_its_ports_on_the_host(rules, pod):
    created = rules.create("pods", pod(hostNetwork=True, **with_ports({"containerPort": 80})))
    assert created["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


@given(st.lists(st.sampled_from(["server", "server:latest", "server:1", "reg:5000/server@sha256:0"])), st.booleans())
def test_defaulting_is_idempotent(images, host_network):
    containers = [{"name": f"c{n}", "image": image, "ports": [{"containerPort": 80}]} for n, image in enumerate(images)]
    obj = {"metadata": {"name": "web"}, "spec": {"containers": containers, "hostNetwork": host_network}}
    Pods().default(obj)
    once = copy.deepcopy(obj)
    Pods().default(obj)
    assert obj == once


PORT = "spec.containers[0].ports"
REFUSED = {
    "no containers": ({"containers": []}, "spec.containers: Required value"),
    "no name": ({"containers": [{"image": "x"}]}, "spec.containers[0].name: Required value"),
    "no image": ({"containers": [{"name": "x"}]}, "spec.containers[0].image: Required value"),
    "name twice": (
        {"containers": [{"name": "x", "image": "i"}, {"name": "x", "image": "i"}]},
        'spec.containers[1].name: Duplicate value: "x"',
    ),
    "port number": (
        with_ports({"containerPort": 70000}),
        f"{PORT}[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    "no port number": (with_ports({"name": "http"}), f"{PORT}[0].containerPort: Required value"),
    "port name twice": (
        with_ports({"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}),
        f'{PORT}[1].name: Duplicate value: "a"',
    ),
    "port name syntax": (
        with_ports({"name": "1", "containerPort": 1}),
        f'{PORT}[0].name: Invalid value: "1": must contain at least one letter (a-z)',
    ),
    "protocol": (
        with_ports({"containerPort": 1, "protocol": "tcp"}),
        f'{PORT}[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"',
    ),
    "host port": (
        with_ports({"containerPort": 1, "hostPort": 65536}),
        f"{PORT}[0].hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
    ),
    "restart policy": (
        {"restartPolicy": "Sometimes"},
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"',
    ),
    "grace": (
        {"terminationGracePeriodSeconds": -1},
        "spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0",
    ),
}


@pytest.mark.parametrize(("spec", "said"), REFUSED.values(), ids=REFUSED)
def test_pod_is_refused(rules, pod, spec, said):
    assert said in rules.refusals("pods", pod(**spec))


def test_same_port_name_in_two_containers_is_accepted(rules, pod):
    containers = [{"name": n, "image": "i", "ports": [{"name": "http", "containerPort": 80}]} for n in ("a", "b")]
    assert rules.refusals("pods", pod(containers=containers)) == []


def test_pod_spec_is_immutable(rules, pod):
    old = rules.create("pods", pod())
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["ports"] = [{"containerPort": 81}]
    [refused] = rules.update_refusals("pods", old, new)
    assert refused.startswith("spec: Forbidden: pod updates may not change fields other than")


def test_image_of_a_pod_may_change(rules, pod):
    old = rules.create("pods", pod())
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["image"] = "server:2"
    assert rules.update_refusals("pods", old, new) == []


def test_node_can_be_assigned_once(rules, pod):
    waiting, placed = rules.create("pods", pod()), rules.create("pods", pod(nodeName="a1"))
    assert rules.update("pods", waiting, placed)["spec"]["nodeName"] == "a1"
    assert rules.update_refusals("pods", placed, rules.create("pods", pod(nodeName="b1")))


@pytest.mark.parametrize(
    "status",
    [
        {"podIP": "10.244.1.5"},
        {"podIPs": [{"ip": "10.244.1.5"}]},
        {"podIP": "10.244.1.5", "podIPs": [{"ip": "10.244.1.5"}]},
    ],
)
def test_pod_ip_and_pod_ips_are_synchronized(rules, pod, status):
    old = rules.create("pods", pod())
    new, refused = rules.update_status("pods", old, {**old, "status": status})
    assert refused == []
    assert (new["status"]["podIP"], new["status"]["podIPs"]) == ("10.244.1.5", [{"ip": "10.244.1.5"}])


def test_changing_one_address_changes_the_list(rules, pod):
    first = {"phase": "Running", "podIP": "10.244.1.5", "podIPs": [{"ip": "10.244.1.5"}]}
    old = {**rules.create("pods", pod()), "status": first}
    new, _ = rules.update_status("pods", old, {**old, "status": {**first, "podIP": "10.244.1.6"}})
    assert new["status"]["podIPs"] == [{"ip": "10.244.1.6"}]


STATUS = [
    ({"phase": "Sleeping"}, "status.phase: Unsupported value"),
    ({"podIPs": [{"ip": "ten"}]}, 'status.podIPs[0]: Invalid value: "ten": must be a valid IP address'),
    ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}, "status.podIPs: Invalid value"),
    ({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}]}, "status.podIPs[0].ip: Invalid value"),
]


@pytest.mark.parametrize(("status", "said"), STATUS)
def test_status_is_refused(rules, pod, status, said):
    old = rules.create("pods", pod())
    [refused] = rules.update_status("pods", old, {**old, "status": status})[1]
    assert refused.startswith(said)


def test_status_write_keeps_the_spec(rules, pod):
    old = rules.create("pods", pod())
    new, _ = rules.update_status("pods", old, {**pod(nodeName="b1"), "status": {"phase": "Running"}})
    assert new["spec"] == old["spec"]


@pytest.mark.parametrize(("minor", "has"), [(32, False), (33, True)])
def test_pods_have_a_generation_since_1_33(minor, has):
    assert Features((1, minor)).at_least(Pods.generation_since) is has
