"""Tests DaemonSets of proxies, with the objects that kubeadm 1.34 writes for kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from harness.backends.kind.kube_proxies import (
    excluding,
    mode_of,
    restoring,
    variant,
    variant_configuration,
    variant_name,
)

CONFIG_MAP, DAEMON_SET = yaml.safe_load_all(
    (Path(__file__).parent / "kubeadm" / "kube-proxy.yaml").read_text(encoding="utf-8")
)
GATES = {"ServiceTrafficDistribution": True}


def terms(spec: Any) -> Any:
    affinity = spec["template"]["spec"]["affinity"]["nodeAffinity"]
    return affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def test_nodes_are_excluded_by_name_and_no_other_proxy_restarts() -> None:
    spec = excluding(DAEMON_SET, ["w2", "w1"])["spec"]
    assert spec["updateStrategy"]["type"] == "OnDelete"
    assert terms(spec) == [  # one term, so that both expressions must match; a field takes one value
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("w1", "w2")]}
    ]


def test_a_daemon_set_of_some_nodes_stays_on_those() -> None:
    linux = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [linux]}}
    there = {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required, "podAntiAffinity": {"x": []}}}}}}
    spec = excluding(there, ["w1"])["spec"]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": ["w1"]}]
    assert terms(spec) == [{**linux, "matchFields": fields}]
    assert spec["template"]["spec"]["affinity"]["podAntiAffinity"] == {"x": []}


def test_template_without_nodes_equals_that_of_running_pods() -> None:
    assert excluding(DAEMON_SET, [])["spec"]["template"]["spec"] == {"affinity": None}
    assert restoring(DAEMON_SET)["spec"]["updateStrategy"] == {"type": "RollingUpdate"}


def test_a_release_runs_on_its_nodes_only_from_its_own_configuration() -> None:
    made = variant(DAEMON_SET, "v1.30.13", GATES, ["w2", "w1"])
    name, spec = made["metadata"]["name"], made["spec"]["template"]["spec"]
    assert [term["matchFields"][0]["values"] for term in terms(made["spec"])] == [["w1"], ["w2"]]
    assert spec["containers"][0]["image"] == "registry.k8s.io/kube-proxy:v1.30.13"
    assert spec["volumes"][0]["configMap"]["name"] == name
    assert variant_configuration(CONFIG_MAP, "v1.30.13", GATES)["metadata"]["name"] == name


def test_kubeadm_daemon_set_does_not_adopt_pods_of_a_release() -> None:
    made = variant(DAEMON_SET, "v1.30.13", {}, ["w1"])
    assert made["spec"]["selector"]["matchLabels"] == made["spec"]["template"]["metadata"]["labels"]
    assert "k8s-app" not in made["spec"]["template"]["metadata"]["labels"]


def test_the_configuration_of_a_release_differs_in_its_gates_only() -> None:
    before, after = (
        yaml.safe_load(each["data"]["config.conf"])
        for each in (CONFIG_MAP, variant_configuration(CONFIG_MAP, "v1.30.13", GATES))
    )
    assert (before.pop("featureGates"), after.pop("featureGates")) == ({"PreferSameTrafficDistribution": True}, GATES)
    assert before == after
    assert mode_of(CONFIG_MAP) == "iptables"


def test_names_of_releases_differ_and_are_valid_labels() -> None:
    names = {variant_name("v1.30.13", {}), variant_name("v1.30.13", GATES), variant_name("v1.31.0", {})}
    assert len(names) == 3
    assert all(re.fullmatch(r"[a-z0-9-]{1,63}", name) for name in names)
