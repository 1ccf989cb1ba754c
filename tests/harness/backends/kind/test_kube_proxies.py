"""Tests proxies of other releases, with the objects that kubeadm 1.34 writes for kind and a stub of its API server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import yaml

from harness.api.client import Response
from harness.backends.kind.proxy_pods import (
    KubeProxies,
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


def test_a_release_runs_on_its_node_from_its_own_configuration() -> None:
    made = variant(DAEMON_SET, "v1.30.13", GATES, "w1")
    configuration = variant_configuration(CONFIG_MAP, "v1.30.13", GATES)["metadata"]["name"]
    assert made["spec"]["nodeName"] == "w1"
    assert made["spec"]["containers"][0]["image"] == "registry.k8s.io/kube-proxy:v1.30.13"
    assert made["spec"]["volumes"][0]["configMap"]["name"] == configuration


def test_kubeadm_daemon_set_does_not_adopt_pods_of_a_release() -> None:
    assert "k8s-app" not in variant(DAEMON_SET, "v1.30.13", {}, "w1")["metadata"]["labels"]


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


class FakeCluster:
    """kubeadm's DaemonSet on nodes w1 and w2, single pods, and ConfigMaps; also the shell of nodes."""

    def __init__(self) -> None:
        self.excluded: set[str] = set()
        self.pods: dict[str, Any] = {}
        self.configured: set[str] = set()

    def request(self, method: str, path: str, body: Any = None, **_: Any) -> Response:
        assert path == "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
        if method == "PATCH":
            affinity = body["spec"]["template"]["spec"]["affinity"]
            self.excluded = {each["values"][0] for each in terms(body["spec"])[0]["matchFields"]} if affinity else set()
        return Response(200, DAEMON_SET)

    def get(self, *_: str) -> Any:
        return CONFIG_MAP

    def create(self, resource: str, _: str, obj: Any) -> None:
        if resource == "configmaps":
            self.configured.add(obj["metadata"]["name"])
        else:
            assert obj["spec"]["nodeName"] in self.excluded
            self.pods[obj["metadata"]["name"]] = {
                **obj,
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }

    def delete(self, resource: str, _: str, name: str) -> None:
        if resource == "configmaps":
            self.configured.discard(name)
        else:
            del self.pods[name]

    def list(self, _: str, __: str, *, label_selector: str) -> list[Any]:
        if label_selector != "k8s-app=kube-proxy":
            return list(self.pods.values())
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        on = {"w1", "w2"} - self.excluded
        return [{"metadata": {}, "spec": {"nodeName": node}, "status": ready} for node in on]

    def execute(self, *_: str) -> str:
        return ""


def test_one_node_runs_another_release_and_then_kubeadms_again() -> None:
    cluster = FakeCluster()
    proxies = KubeProxies(cast("Any", cluster), cast("Any", cluster))
    proxies.start_release(["w2"], "v1.30.13", GATES)
    assert (cluster.excluded, len(cluster.pods), len(cluster.configured)) == ({"w2"}, 1, 1)
    proxies.start_release(["w1"], "v1.30.13", GATES)
    assert (cluster.excluded, len(cluster.pods), len(cluster.configured)) == ({"w1", "w2"}, 2, 1)
    proxies.start(["w2"])
    assert (cluster.excluded, len(cluster.pods)) == ({"w1"}, 1)
    proxies.close()
    assert (cluster.excluded, cluster.pods, cluster.configured) == (set(), {}, set())
