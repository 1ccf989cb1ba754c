"""Nodes: labels, addresses, resources, pod ranges and taints."""

from __future__ import annotations

import pytest


def test_created_node_keeps_its_status(rules, node):
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}}
    assert rules.create("nodes", node(status=status))["status"] == status


def test_everything_of_the_capacity_is_allocatable_unless_said_otherwise(rules, node):
    created = rules.create("nodes", node(status={"capacity": {"cpu": "4"}}))
    assert created["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.parametrize("spec", [{"podCIDR": "10.244.1.0/24"}, {"podCIDRs": ["10.244.1.0/24"]}])
def test_pod_cidr_and_pod_cidrs_are_synchronized(rules, node, spec):
    created = rules.create("nodes", node(**spec))["spec"]
    assert created == {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}


ACCEPTED = [
    {"podCIDRs": ["10.244.1.0/24", "fd00:10:244:1::/64"]},
    {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]},
    {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "a1"}]}},
    {"status": {"capacity": {"cpu": "3920m", "memory": "8Gi", "pods": "110", "x.io/y": "1e3"}}},
    {"labels": {}},
]


@pytest.mark.parametrize("fields", ACCEPTED)
def test_node_is_accepted(rules, node, fields):
    assert rules.refusals("nodes", node(**fields)) == []


REFUSED = [
    ({"taints": [{"key": "a"}]}, "spec.taints[0].effect: Required value"),
    ({"taints": [{"key": "a", "effect": "Never"}]}, 'spec.taints[0].effect: Unsupported value: "Never"'),
    ({"taints": [{"key": "a b", "effect": "NoSchedule"}]}, "spec.taints[0].key: Invalid value"),
    ({"taints": [{"key": "a", "effect": "NoExecute"}] * 2}, "spec.taints[1]: Duplicate value"),
    ({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}] * 2}}, "status.addresses[1]: Duplicate"),
    ({"status": {"capacity": {"cpu": "four"}}}, "status.capacity[cpu]: Invalid value"),
    ({"status": {"capacity": {"cpu": "-1"}}}, "status.capacity[cpu]: Invalid value"),
    ({"labels": {"topology.kubernetes.io/zone": "zone a"}}, 'metadata.labels: Invalid value: "zone a"'),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_node_is_refused(rules, node, fields, said):
    assert rules.refusals("nodes", node(**fields))[0].startswith(said)


def test_status_write_is_validated(rules, node):
    old = rules.create("nodes", node())
    [refused] = rules.update_status("nodes", old, {**old, "status": {"allocatable": {"cpu": "lots"}}})[1]
    assert refused.startswith("status.allocatable[cpu]: Invalid value")


def test_update_keeps_the_status_and_changes_the_labels(rules, node):
    old = rules.create("nodes", node(status={"capacity": {"cpu": "4"}}))
    new = rules.update("nodes", old, node(labels={"topology.kubernetes.io/zone": "zone-b"}))
    assert new["status"] == old["status"]
    assert new["metadata"]["labels"] == {"topology.kubernetes.io/zone": "zone-b"}
