"""Run kube-proxies of wanted releases on the nodes of a kind cluster, through the API.

A proxy is replaced in two steps, stop and start. If two proxies ran at once, both would write rules, and the older
proxy might write last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.api.client import MERGE_PATCH, Api, Object, RefusedError
from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind import kube_proxies as sets
from harness.backends.kind.inotify_limits import naming_exhausted_limit
from harness.backends.kind.static_pods import tag_at
from harness.backends.kind.workloads import is_serving
from harness.errors import UnavailableError
from harness.eventually import eventually

POD_SECONDS = 120.0
_LOOK = 0.25
_DAEMON_SETS = f"/apis/apps/v1/namespaces/{sets.NAMESPACE}/daemonsets"
_HEALTH = "http://localhost:10256/healthz"


@dataclass(frozen=True, slots=True)
class Running:
    """The image tag of a node's proxy, and its feature gates."""

    tag: str
    gates: tuple[tuple[str, bool], ...] = ()


class ProxyPods:
    """The proxies of one cluster. Node names are the API server's names."""

    def __init__(self, shell: ContainerEngine, api: Api) -> None:
        self._shell = shell
        self._api = api
        self._elsewhere: dict[str, Running | None] = {}  # nodes without kubeadm's proxy; None: without any proxy

    @cached_property
    def daemon_set(self) -> Object:
        """kubeadm's DaemonSet, before any change."""
        return self._ask("GET", f"{_DAEMON_SETS}/{sets.NAME}")

    @cached_property
    def config_map(self) -> Object:
        return self._api.get("configmaps", sets.NAMESPACE, sets.NAME)

    @property
    def image(self) -> str:
        return str(self.daemon_set["spec"]["template"]["spec"]["containers"][0]["image"])

    @property
    def tag(self) -> str:
        return tag_at(self.image)

    def start(self, nodes: Sequence[str], running: Running | None) -> None:
        """Replace the proxies of these nodes by this proxy, or for None by kubeadm's proxy."""
        self.stop(nodes)
        for node in nodes:
            if running is None:
                del self._elsewhere[node]
            else:
                self._elsewhere[node] = running
        self._apply()
        with naming_exhausted_limit(self._shell, nodes):
            eventually(
                lambda: self._are_up(nodes),
                within=POD_SECONDS,
                every=_LOOK,
                describe=f"kube-proxy {running.tag if running else self.tag} on {', '.join(nodes)}",
                error=UnavailableError,
            )

    def stop(self, nodes: Sequence[str]) -> None:
        """Stop the proxies of these nodes; rules in the kernel stay."""
        self._elsewhere |= dict.fromkeys(nodes)
        self._apply()

        def gone() -> bool:
            left = {pod["spec"].get("nodeName") for pod in self._pods()} & set(nodes)
            if left:
                raise AssertionError(f"still on {', '.join(sorted(left))}")
            return True

        eventually(gone, within=POD_SECONDS, every=_LOOK, describe="kube-proxy to be gone", error=UnavailableError)

    def close(self) -> None:
        """Run kubeadm's proxy on every node again, and remove all others. Idempotent."""
        if self._elsewhere:
            self.start(sorted(self._elsewhere), None)
        if "daemon_set" in self.__dict__:
            self._ask("PATCH", f"{_DAEMON_SETS}/{sets.NAME}", sets.restoring(self.daemon_set))
            del self.daemon_set

    def _apply(self) -> None:
        """Change the DaemonSets to match `_elsewhere`."""
        self._ask("PATCH", f"{_DAEMON_SETS}/{sets.NAME}", sets.excluding(self.daemon_set, list(self._elsewhere)))
        wanted: dict[Running, list[str]] = {}
        for node, running in self._elsewhere.items():
            if running is not None:
                wanted.setdefault(running, []).append(node)
        names = {sets.variant_name(each.tag, dict(each.gates)) for each in wanted}
        listed = self._ask("GET", _DAEMON_SETS, query={"labelSelector": sets.RELEASE_LABEL}).get("items") or ()
        there = {each["metadata"]["name"] for each in listed}
        for name in there - names:
            self._ask("DELETE", f"{_DAEMON_SETS}/{name}")
            self._api.delete("configmaps", sets.NAMESPACE, name)
        for running, nodes in wanted.items():
            self._place(running, nodes, there)

    def _place(self, running: Running, nodes: Sequence[str], there: set[str]) -> None:
        gates = dict(running.gates)
        made = sets.variant(self.daemon_set, running.tag, gates, nodes)
        name = made["metadata"]["name"]
        if name in there:
            affinity = made["spec"]["template"]["spec"]["affinity"]
            patch = {"spec": {"template": {"spec": {"affinity": affinity}}}}
            self._ask("PATCH", f"{_DAEMON_SETS}/{name}", patch)
            return
        configuration = sets.variant_configuration(self.config_map, running.tag, gates)
        self._api.delete("configmaps", sets.NAMESPACE, name)
        self._api.create("configmaps", sets.NAMESPACE, configuration)
        self._ask("POST", _DAEMON_SETS, made)

    def _are_up(self, nodes: Sequence[str]) -> bool:
        running = {pod["spec"].get("nodeName") for pod in self._pods() if is_serving(pod)}
        missing = sorted(set(nodes) - running)
        if missing:
            raise AssertionError(f"not running on {', '.join(missing)}")
        for node in nodes:
            try:
                self._shell.execute(node, "curl", "-sS", "--fail", "--max-time", "5", _HEALTH)
            except UnavailableError as error:
                raise AssertionError(f"on {node}: {error}") from None
        return True

    def _pods(self) -> list[Object]:
        own = self._api.list("pods", sets.NAMESPACE, label_selector=f"k8s-app={sets.NAME}")
        return own + self._api.list("pods", sets.NAMESPACE, label_selector=sets.RELEASE_LABEL)

    def _ask(
        self, method: str, path: str, body: Object | None = None, query: Mapping[str, str] | None = None
    ) -> Object:
        content = MERGE_PATCH if method == "PATCH" else "application/json"
        answer = self._api.request(method, path, body, query=query, content_type=content)
        if answer.code >= 400 and not (method == "DELETE" and answer.code == 404):
            raise RefusedError(method, path, answer)
        return answer.body
