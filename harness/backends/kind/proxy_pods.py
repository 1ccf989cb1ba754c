"""Stops and starts proxies on individual nodes of a kind cluster, by changing the nodes that their DaemonSets exclude.

A proxy is stopped before its replacement starts, because the old proxy might write its rules last. A DaemonSet has only
one template, so a proxy of another release is a bare pod with a ConfigMap for that release. The node affinity selects
nodes by the field `metadata.name`, because a changed label would disturb proxies and controllers. While nodes are
excluded, a DaemonSet replaces pods only when they are deleted (`OnDelete`). Otherwise, a change of the affinity would
restart the proxies on all other nodes.
"""

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import yaml

from harness.api.client import MERGE_PATCH, Api, Object, RefusedError
from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind.static_pods import image_at
from harness.backends.kind.workloads import is_serving, selector_of, url_of
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.recipes.installation import Workload

NAME, NAMESPACE = "kube-proxy", "kube-system"
RELEASE_LABEL = "trafficdist.dev/kube-proxy"
CONFIGURATION = "config.conf"  # kubeadm's key in the ConfigMap
POD_SECONDS = 120.0
_LOOK = 0.25
_HEALTH = "http://localhost:10256/healthz"
_KUBE_PROXY = Workload("DaemonSet", NAMESPACE, NAME)


class ProxyPods:
    def __init__(self, api: Api, name: str, workloads: Sequence[Workload]) -> None:
        self._api = api
        self._name = name
        self._workloads = workloads
        self._before: dict[Workload, Object] = {}
        self._without: set[str] = set()

    def start(self, nodes: Sequence[str]) -> None:
        self.stop(nodes)
        self._without -= set(nodes)
        self._apply()
        self._wait(nodes, there=True)

    def stop(self, nodes: Sequence[str]) -> None:
        """Stop the proxies on these nodes. Their rules remain in the kernel."""
        self._without |= set(nodes)
        self._apply()
        self._wait(nodes, there=False)

    def close(self) -> None:
        if self._without:
            self.start(sorted(self._without))
        for workload, before in self._before.items():
            self._ask("PATCH", workload, restoring(before))
        self._before.clear()

    def _apply(self) -> None:
        for each in self._workloads:
            self._ask("PATCH", each, excluding(self._installed(each), sorted(self._without)))

    def _installed(self, workload: Workload) -> Object:
        if workload not in self._before:
            self._before[workload] = self._ask("GET", workload)
        return self._before[workload]

    def _pods(self) -> Iterator[tuple[Workload, list[Object]]]:
        for each in self._workloads:
            selector = selector_of(self._api, each)
            yield each, self._api.list("pods", each.namespace, label_selector=selector)

    def _wait(self, nodes: Sequence[str], *, there: bool) -> None:
        def done() -> bool:
            for workload, pods in self._pods():
                on = {each["spec"].get("nodeName") for each in pods}
                well = {each["spec"].get("nodeName") for each in pods if is_serving(each)}
                if wrong := set(nodes) - well if there else set(nodes) & on:
                    how = "not ready" if there else "still"
                    raise AssertionError(f"{workload}: {how} on {', '.join(sorted(wrong))}")
            return True

        what = f"{self._name} {'on' if there else 'to end on'} {', '.join(nodes)}"
        eventually(done, within=POD_SECONDS, every=_LOOK, describe=what, error=UnavailableError)

    def _ask(self, method: str, workload: Workload, body: Object | None = None) -> Object:
        path = url_of(workload)
        answer = self._api.request(method, path, body, content_type=MERGE_PATCH)
        if answer.code >= 400:
            raise RefusedError(method, path, answer)
        return answer.body


class KubeProxies(ProxyPods):
    def __init__(self, shell: ContainerEngine, api: Api) -> None:
        super().__init__(api, NAME, [_KUBE_PROXY])
        self._shell = shell
        self._configured: set[str] = set()  # names of the ConfigMaps that this object has created

    @cached_property
    def config_map(self) -> Object:
        return self._api.get("configmaps", NAMESPACE, NAME)

    @property
    def image(self) -> str:
        return str(self._installed(_KUBE_PROXY)["spec"]["template"]["spec"]["containers"][0]["image"])

    def start_release(self, nodes: Sequence[str], tag: str, gates: Mapping[str, bool]) -> None:
        """Replace the proxies on these nodes. The new proxies have this image tag and exactly these feature gates."""
        self.stop(nodes)
        configuration = variant_configuration(self.config_map, tag, gates)
        name = configuration["metadata"]["name"]
        if name not in self._configured:
            self._api.delete("configmaps", NAMESPACE, name)
            self._api.create("configmaps", NAMESPACE, configuration)
            self._configured.add(name)
        for node in nodes:
            self._api.create("pods", NAMESPACE, variant(self._installed(_KUBE_PROXY), tag, gates, node))
        self._wait(nodes, there=True)

    def stop(self, nodes: Sequence[str]) -> None:
        for pod in self._of_releases():
            if pod["spec"].get("nodeName") in nodes:
                self._api.delete("pods", NAMESPACE, pod["metadata"]["name"])
        super().stop(nodes)

    def close(self) -> None:
        super().close()
        for name in self._configured:
            self._api.delete("configmaps", NAMESPACE, name)
        self._configured.clear()

    def _of_releases(self) -> list[Object]:
        return self._api.list("pods", NAMESPACE, label_selector=RELEASE_LABEL)

    def _pods(self) -> Iterator[tuple[Workload, list[Object]]]:
        for workload, pods in super()._pods():
            yield workload, [*pods, *self._of_releases()]

    def _wait(self, nodes: Sequence[str], *, there: bool) -> None:

        def healthy() -> bool:
            for node in nodes:
                try:
                    self._shell.execute(node, "curl", "-sS", "--fail", "--max-time", "5", _HEALTH)
                except UnavailableError as error:
                    raise AssertionError(f"on {node}: {error}") from None
            return True

        super()._wait(nodes, there=there)
        if there:
            what = "kube-proxy to be healthy"
            eventually(healthy, within=POD_SECONDS, every=_LOOK, describe=what, error=UnavailableError)


def variant_name(tag: str, gates: Mapping[str, bool]) -> str:
    """Return the name of the ConfigMap of a release. Equal releases have equal names."""
    digest = hashlib.sha256(repr((tag, sorted(gates.items()))).encode()).hexdigest()
    return f"{NAME}-{tag.replace('.', '-')}-{digest[:6]}"


def excluding(daemon_set: Object, nodes: Sequence[str]) -> Object:
    before = daemon_set["spec"]["template"]["spec"].get("affinity") or {}
    required = (before.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # The API allows exactly one value.
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(nodes)]
    terms = [
        {**each, "matchFields": [*(each.get("matchFields") or ()), *fields]}
        for each in required.get("nodeSelectorTerms") or [{}]
    ]
    of_nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {**before, "nodeAffinity": of_nodes} if nodes else before or None
    strategy = {"type": "OnDelete", "rollingUpdate": None}
    return {"spec": {"updateStrategy": strategy, "template": {"spec": {"affinity": affinity}}}}


def restoring(daemon_set: Object) -> Object:
    strategy: Object = daemon_set["spec"].get("updateStrategy") or {"type": "RollingUpdate"}
    affinity = daemon_set["spec"]["template"]["spec"].get("affinity")
    return {"spec": {"updateStrategy": strategy, "template": {"spec": {"affinity": affinity}}}}


def variant(daemon_set: Object, tag: str, gates: Mapping[str, bool], node: str) -> Object:
    """Return kubeadm's kube-proxy pod for this node, with image tag `tag` and a label that no DaemonSet selects."""
    name = variant_name(tag, gates)
    spec = copy.deepcopy(daemon_set["spec"]["template"]["spec"])
    spec["containers"][0]["image"] = image_at(spec["containers"][0]["image"], tag)
    for volume in spec["volumes"]:
        if volume.get("configMap", {}).get("name") == NAME:
            volume["configMap"]["name"] = name
    return {"metadata": {"name": f"{name}-{node}", "labels": {RELEASE_LABEL: name}}, "spec": {**spec, "nodeName": node}}


def variant_configuration(config_map: Object, tag: str, gates: Mapping[str, bool]) -> Object:
    name = variant_name(tag, gates)
    data = dict(config_map["data"])
    configuration = yaml.safe_load(data[CONFIGURATION])
    configuration["featureGates"] = dict(gates)
    data[CONFIGURATION] = yaml.safe_dump(configuration, sort_keys=False)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {RELEASE_LABEL: name}},
        "data": data,
    }


def mode_of(config_map: Object) -> str:
    return str(yaml.safe_load(config_map["data"][CONFIGURATION]).get("mode") or "iptables")
