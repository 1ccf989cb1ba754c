"""Stops and starts the proxies on single nodes of a kind cluster through the API. Their DaemonSets exclude these nodes.

A proxy is stopped before its replacement starts. If both ran at the same time, both would write rules, and the old
proxy might write last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from harness.api.client import MERGE_PATCH, Api, Object, RefusedError
from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind import kube_proxies as objects
from harness.backends.kind.workloads import is_serving, selector_of, url_of
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.recipes.installation import Workload

POD_SECONDS = 120.0
_LOOK = 0.25
_HEALTH = "http://localhost:10256/healthz"
_KUBE_PROXY = Workload("DaemonSet", objects.NAMESPACE, objects.NAME)


class ProxyPods:
    """The proxies of one cluster, as pods of DaemonSets. Nodes have the API server's names."""

    def __init__(self, api: Api, name: str, workloads: Sequence[Workload]) -> None:
        self._api = api
        self._name = name
        self._workloads = workloads
        self._before: dict[Workload, Object] = {}
        self._without: set[str] = set()

    def start(self, nodes: Sequence[str]) -> None:
        """Replace the proxies on these nodes. Raises `UnavailableError` if the new proxies do not become ready."""
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
        """Run the proxies on every node again, as installed originally. Idempotent."""
        if self._without:
            self.start(sorted(self._without))
        for workload, before in self._before.items():
            self._ask("PATCH", workload, objects.restoring(before))
        self._before.clear()

    def _apply(self) -> None:
        for each in self._workloads:
            self._ask("PATCH", each, objects.excluding(self._installed(each), sorted(self._without)))

    def _installed(self, workload: Workload) -> Object:
        """Return the DaemonSet as it was before any change."""
        if workload not in self._before:
            self._before[workload] = self._ask("GET", workload)
        return self._before[workload]

    def _pods(self) -> Iterator[tuple[Workload, list[Object]]]:
        for each in self._workloads:
            selector = selector_of(self._api, each)
            yield each, self._api.list("pods", each.namespace, label_selector=selector)

    def _wait(self, nodes: Sequence[str], *, there: bool) -> None:
        """Wait until each DaemonSet has a ready pod on each of these nodes, or no pod on any of them."""

        def done() -> bool:
            for workload, pods in self._pods():
                on = {each["spec"].get("nodeName") for each in pods}
                well = {each["spec"].get("nodeName") for each in pods if is_serving(each)}
                if wrong := set(nodes) - well if there else set(nodes) & on:
                    how = "not ready" if there else "still"
                    raise AssertionError(f"{workload}: {how} on {', '.join(sorted(wrong))}")
            return True

        what = f"{self._name} {'on' if there else 'to be gone from'} {', '.join(nodes)}"
        eventually(done, within=POD_SECONDS, every=_LOOK, describe=what, error=UnavailableError)

    def _ask(self, method: str, workload: Workload, body: Object | None = None) -> Object:
        path = url_of(workload)
        answer = self._api.request(method, path, body, content_type=MERGE_PATCH)
        if answer.code >= 400:
            raise RefusedError(method, path, answer)
        return answer.body


class KubeProxies(ProxyPods):
    """kube-proxies, as kubeadm's DaemonSet and single pods of other releases."""

    def __init__(self, shell: ContainerEngine, api: Api) -> None:
        super().__init__(api, objects.NAME, [_KUBE_PROXY])
        self._shell = shell
        self._configured: set[str] = set()  # names of releases that have their ConfigMap

    @cached_property
    def config_map(self) -> Object:
        return self._api.get("configmaps", objects.NAMESPACE, objects.NAME)

    @property
    def image(self) -> str:
        return str(self._installed(_KUBE_PROXY)["spec"]["template"]["spec"]["containers"][0]["image"])

    def start_release(self, nodes: Sequence[str], tag: str, gates: Mapping[str, bool]) -> None:
        """Replace the proxies on these nodes by proxies with this image tag and exactly these feature gates."""
        self.stop(nodes)
        configuration = objects.variant_configuration(self.config_map, tag, gates)
        name = configuration["metadata"]["name"]
        if name not in self._configured:
            self._api.delete("configmaps", objects.NAMESPACE, name)
            self._api.create("configmaps", objects.NAMESPACE, configuration)
            self._configured.add(name)
        for node in nodes:
            self._api.create("pods", objects.NAMESPACE, objects.variant(self._installed(_KUBE_PROXY), tag, gates, node))
        self._wait(nodes, there=True)

    def stop(self, nodes: Sequence[str]) -> None:
        for pod in self._of_releases():
            if pod["spec"].get("nodeName") in nodes:
                self._api.delete("pods", objects.NAMESPACE, pod["metadata"]["name"])
        super().stop(nodes)

    def close(self) -> None:
        """Also remove the ConfigMaps of other releases."""
        super().close()
        for name in self._configured:
            self._api.delete("configmaps", objects.NAMESPACE, name)
        self._configured.clear()

    def _of_releases(self) -> list[Object]:
        return self._api.list("pods", objects.NAMESPACE, label_selector=objects.RELEASE_LABEL)

    def _pods(self) -> Iterator[tuple[Workload, list[Object]]]:
        for workload, pods in super()._pods():
            yield workload, [*pods, *self._of_releases()]

    def _wait(self, nodes: Sequence[str], *, there: bool) -> None:
        """Also wait until each started proxy is healthy."""

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
