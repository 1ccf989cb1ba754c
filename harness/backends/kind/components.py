"""Starts, stops and replaces the components of a kind cluster.

An image is pulled before anything changes, so the cluster stays the same if the version does not exist. A `Release`
with version "" means the version at boot. "1.30" means the latest 1.30 patch among the control plane node's images, or
else the latest published patch, unless `patches` specifies another. While the API server is replaced, the controller
manager and the scheduler are stopped. With leader election, they would exit after ten seconds without an API server,
and the kubelet would delay restarts. Without leader election, they would use old data for up to a minute, and report
nodes as dead because they did not receive the nodes' heartbeats.
"""

import contextlib
import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import yaml

from harness.api.client import Api, Object, Response
from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind import static_pods
from harness.backends.kind.config import gates_for_mode
from harness.backends.kind.nodes import lift_icmp_limit, ready_nodes, silence_port
from harness.backends.kind.proxy_pods import KubeProxies, ProxyPods, mode_of
from harness.binaries.component import component_named
from harness.binaries.release import KUBERNETES_MIRROR, Releases
from harness.binaries.versions import Version, VersionSpec, parse_version, parse_wanted
from harness.errors import InconclusiveError, UnavailableError
from harness.eventually import eventually
from harness.model.abilities import Ability
from harness.model.release import Component, Release

ABILITIES = frozenset(
    {
        Ability.RESTART_API_SERVER,
        Ability.RESTART_CONTROLLER,
        Ability.RESTART_PROXY,
        Ability.CHANGE_RELEASE,
        Ability.CONTROLLER_METRICS,
        Ability.STOP_NODES,
        Ability.EVERY_REFUSAL,
    }
)
START_SECONDS = 180.0  # seconds before `time_scale` is applied; a static pod starts in 5 to 30 s
PULL_SECONDS = 600.0
_LOOK = 0.5
_ENTER_SECONDS = 10.0  # seconds for an engine to start a command on a node
_MANIFESTS, _ASIDE = "/etc/kubernetes/manifests", "/etc/kubernetes"  # one file system, so that a rename is atomic
_CLIENT = "/run/trafficdist-client"
_WRITE_CERTIFICATE = "umask 077; " + "; ".join(
    f"sed -n 's/^ *client-{word}-data: //p' /etc/kubernetes/admin.conf | base64 -d > {_CLIENT}.{suffix}"
    for word, suffix in (("certificate", "crt"), ("key", "key"))
)
_SERVER, _MANAGER, _SCHEDULER = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
_STATIC = {Component.API_SERVER: _SERVER, Component.CONTROLLER: _MANAGER}
_CLIENTS = (_MANAGER, _SCHEDULER)
_BUILD = re.compile(r'(?s).*^kubernetes_build_info\{[^}]*git_version="([^"]*)".*', re.MULTILINE)
_PORTS = {_SERVER: 6443, _MANAGER: 10257, _SCHEDULER: 10259}
_HEALTH = {_SERVER: "/readyz", _MANAGER: "/healthz", _SCHEDULER: "/healthz"}


def newest_patch(wanted: VersionSpec) -> Version:
    """Return the latest patch of a minor version from https://dl.k8s.io. Raises `UnavailableError` and `UsageError`."""
    try:
        return Releases().resolve(component_named("kube-proxy"), wanted)
    except UnavailableError as error:
        raise UnavailableError(
            f"the latest patch of Kubernetes {wanted} cannot be looked up; give this machine access to "
            f"{KUBERNETES_MIRROR}\n{error}"
        ) from None


class KindComponents:
    """Changes the API server, controller, proxies and nodes of one kind cluster. Methods raise `UnavailableError`."""

    def __init__(
        self,
        shell: ContainerEngine,
        api: Api,
        *,
        control_plane: str,
        node_names: Mapping[str, str],
        booted: Release,
        patches: Mapping[str, str] | None = None,
        stays: bool = False,
        own_proxies: ProxyPods | None = None,
    ) -> None:
        """`patches` maps minor versions to patch versions. If `stays`, the cluster is kept after the run."""
        self._shell = shell
        self._control_plane = control_plane
        self._node_names = dict(node_names)
        self._booted = booted
        self._patches = dict(patches or {})
        self._stays = stays
        self._api = api
        self._ready: set[str] = set()  # nodes that were ready before the API server was stopped
        self._may_ask = False
        self._texts: dict[str, str] = {}  # the original manifests of changed static pods
        self._away: set[str] = set()  # static pods whose manifests are moved away
        self._manager: Object | None = None  # the manifest of the last started controller manager
        self._proxies = own_proxies or KubeProxies(shell, api)
        self._off: set[str] = set()  # nodes that are switched off

    def start(self, component: Component, release: Release, nodes: Sequence[str]) -> None:
        if component is Component.PROXY:
            self._start_proxies(release, nodes)
        else:
            self._start_static(component, release)

    def stop(self, component: Component, nodes: Sequence[str]) -> None:
        match component:
            case Component.API_SERVER:
                self._prepare_nodes()
                self._move_manifests_away(_SERVER, *_CLIENTS)
                self._wait(lambda: not self._pods_of(_SERVER), f"{_SERVER} to end")
            case Component.CONTROLLER:
                self._run_manager(static_pods.without_election(static_pods.without_slices(self._original(_MANAGER))))
            case Component.PROXY:
                self._proxies.stop([self._node_names[node] for node in nodes])

    def stop_node(self, node: str) -> None:
        """Kill a node's container, as a power failure would. Do not wait until the control plane notices."""
        self._off.add(node)
        self._shell.ask("kill", self._node_names[node])

    def start_node(self, node: str) -> None:
        self._shell.ask("start", self._node_names[node])
        lift_icmp_limit(self._shell, self._node_names[node])
        self._off.discard(node)

    def close(self) -> None:
        """Restore kubeadm's manifests and the proxies' DaemonSets if the cluster is kept. Scenarios leave behind a
        controller manager without leader election, and DaemonSets that replace a pod only when the pod is deleted.
        """
        if not self._stays:
            return
        if _SERVER in self._away:
            self._silence_server(silent=False)
        for node in sorted(self._off):
            self.start_node(node)
        for name, text in self._texts.items():
            self._write(name, text)
            self._wait(functools.partial(self._is_up, name, 0), f"{name} to be restored")
        self._texts.clear()
        self._proxies.close()

    def controller_metrics(self) -> str:
        try:
            return self._get(_MANAGER, "/metrics")
        except UnavailableError as error:
            raise InconclusiveError(f"the metrics of {Component.CONTROLLER} cannot be read: {error}") from error

    def ask_pod(self, node: str, url: str, seconds: float) -> Response:
        """Send a GET request to a pod from its node, without the API server. Raises `InconclusiveError`."""
        command = ("curl", "-sS", "--globoff", "--max-time", f"{seconds:.1f}", "--write-out", "\n%{http_code}", url)
        try:
            output = self._shell.execute(self._node_names[node], *command, seconds=seconds + _ENTER_SECONDS)
        except UnavailableError as error:
            raise InconclusiveError(f"a pod on node {node} does not answer: {error}") from error
        body, _, code = output.rpartition("\n")
        with contextlib.suppress(ValueError):
            return Response(int(code), json.loads(body))
        raise InconclusiveError(f"a pod on node {node} sent an unexpected answer: {output[-200:]!r}")

    # API server and controller manager

    def _start_static(self, component: Component, release: Release) -> None:
        name = _STATIC[component]
        pod = self._original(name)
        if release != self._booted:
            pod = static_pods.of_release(pod, self._tag(release, static_pods.image_of(pod)), release.gates)
        self._pull([self._control_plane], static_pods.image_of(pod))
        if component is Component.API_SERVER:
            self._replace_server(pod)
        else:
            self._run_manager(static_pods.without_election(pod))
            self._wait_for_version(name, pod)

    def _replace_server(self, pod: Object) -> None:
        self._prepare_nodes()
        try:
            self._move_manifests_away(*_CLIENTS)
            self._run({_SERVER: pod})
            self._wait_for_version(_SERVER, pod)
        finally:
            self._silence_server(silent=False)
        scheduler, manager = (static_pods.without_election(self._original(each)) for each in (_SCHEDULER, _MANAGER))
        self._run({_SCHEDULER: scheduler, _MANAGER: self._manager or manager})
        self._wait(self._nodes_are_back, "the nodes to be ready again")

    def _wait_for_version(self, name: str, pod: Object) -> None:
        tag = static_pods.tag_of(pod)
        with self._explaining(name):
            self._wait(lambda: self._reports(name, tag), f"{name} to be changed")

    def _prepare_nodes(self) -> None:
        self._ready |= ready_nodes(self._api)
        self._silence_server(silent=True)

    def _silence_server(self, *, silent: bool) -> None:
        silence_port(self._shell, self._control_plane, _PORTS[_SERVER], silent=silent)

    def _run_manager(self, pod: Object) -> None:
        """Run `pod` as the controller manager. While the API server is stopped, leave this to `_replace_server`."""
        self._manager = pod
        if _SERVER not in self._away:
            self._run({_MANAGER: pod})

    def _nodes_are_back(self) -> bool:
        missing = self._ready - ready_nodes(self._api)
        if missing:
            raise AssertionError(f"not ready: {', '.join(sorted(missing))}")
        self._ready = set()
        return True

    def _run(self, wanted: Mapping[str, Object]) -> None:
        start = time.time_ns() // 1000  # unique over all workers of a run
        for name, pod in wanted.items():
            self._write(name, yaml.safe_dump(static_pods.with_start(pod, start), sort_keys=False))
        for name, pod in wanted.items():
            with self._explaining(name):
                self._wait(functools.partial(self._is_up, name, start), f"{name} {static_pods.tag_of(pod)} to be ready")

    def _original(self, name: str) -> Object:
        if name not in self._texts:
            self._texts[name] = self._on_control_plane("cat", f"{_MANIFESTS}/{name}.yaml")
        pod: Object = yaml.safe_load(self._texts[name])
        return pod

    def _write(self, name: str, text: str) -> None:
        """Write a manifest to another file and rename that file, because the kubelet might read a partial file."""
        self._on_control_plane("cp", "/dev/stdin", f"{_ASIDE}/{name}.next.yaml", text=text)
        self._on_control_plane("mv", "-f", f"{_ASIDE}/{name}.next.yaml", f"{_MANIFESTS}/{name}.yaml")
        self._away.discard(name)

    def _move_manifests_away(self, *names: str) -> None:
        for name in names:
            self._original(name)
            if name not in self._away:
                self._on_control_plane("mv", "-f", f"{_MANIFESTS}/{name}.yaml", f"{_ASIDE}/{name}.stopped.yaml")
                self._away.add(name)

    def _is_up(self, name: str, start: int) -> bool:
        starts = self._pods_of(name)
        if starts != [start]:
            raise AssertionError(f"running pods: label {static_pods.START_LABEL} has values {starts}, not [{start}]")
        answer = self._get(name, _HEALTH[name])
        if answer != "ok":
            raise AssertionError(f"{_HEALTH[name]} answers {answer[-200:]!r}")
        return True

    def _pods_of(self, name: str) -> list[int]:
        """Return the start numbers of the running pods. kubeadm's own pods have the number 0."""
        listed = self._on_control_plane(
            "crictl", "pods", "--state", "ready", "--label", f"component={name}", "-o", "json"
        )
        return [int(each["labels"].get(static_pods.START_LABEL, 0)) for each in json.loads(listed)["items"]]

    def _reports(self, name: str, tag: str) -> bool:
        if name == _SERVER:
            version = json.loads(self._get(name, "/version"))["gitVersion"]
        else:
            version = _BUILD.sub(r"\1", self._get(name, "/metrics"))
        if version != tag:
            raise AssertionError(f"{name} reports version {version[:200]!r} instead of {tag}")
        return True

    def _get(self, name: str, path: str) -> str:
        if not self._may_ask:
            self._on_control_plane("sh", "-c", _WRITE_CERTIFICATE)
            self._may_ask = True
        url = f"https://localhost:{_PORTS[name]}{path}"
        client = ("--cert", f"{_CLIENT}.crt", "--key", f"{_CLIENT}.key")
        return self._on_control_plane("curl", "-sS", "--insecure", "--max-time", "5", *client, url)

    @contextlib.contextmanager
    def _explaining(self, name: str) -> Iterator[None]:
        try:
            yield
        except UnavailableError as error:
            raise UnavailableError(f"{error}\n{self._end_of_log(name)}".rstrip()) from None

    def _end_of_log(self, name: str) -> str:
        with contextlib.suppress(UnavailableError):
            container = self._on_control_plane("crictl", "ps", "--all", "--latest", "--name", name, "-q").strip()
            if container:
                return self._on_control_plane("sh", "-c", f"crictl logs --tail 5 {container} 2>&1")
        return ""

    # Proxies

    def _start_proxies(self, release: Release, nodes: Sequence[str]) -> None:
        real = [self._node_names[node] for node in nodes]
        if release == self._booted:
            self._proxies.start(real)
            return
        if not isinstance(self._proxies, KubeProxies):
            raise UnavailableError(f"the recipe's proxy cannot be changed to release {release}")
        tag = self._tag(release, self._proxies.image)
        version = parse_version(tag)
        needed = gates_for_mode(mode_of(self._proxies.config_map), version) if version else {}
        self._pull(real, static_pods.image_at(self._proxies.image, tag))
        self._proxies.start_release(real, tag, {**needed, **release.gates})

    # Both

    def _tag(self, release: Release, booted: str) -> str:
        """Return the image tag of a release. `booted` is the image at boot. Raises `UnavailableError`, `UsageError`."""
        wanted = parse_wanted(self._patches.get(release.version, release.version))
        tag = static_pods.tag_at(booted)
        version = parse_version(tag)
        if not release.version or (version is not None and wanted.allows(version)):
            return tag
        return (wanted.exact or self._newest_here(booted, wanted) or newest_patch(wanted)).tag

    def _newest_here(self, booted: str, wanted: VersionSpec) -> Version | None:
        listed = json.loads(self._on_control_plane("crictl", "images", "-o", "json"))["images"]
        prefix = static_pods.image_at(booted, "")
        names = [name for each in listed for name in each.get("repoTags") or () if name.startswith(prefix)]
        found = filter(None, (parse_version(name.removeprefix(prefix)) for name in names))
        return next(iter(wanted.choose(found)), None)

    def _pull(self, nodes: Sequence[str], image: str) -> None:
        for node in nodes:
            if self._shell.execute(node, "sh", "-c", f"crictl inspecti -q {image} 2>/dev/null || true").strip():
                continue
            try:
                self._shell.execute(node, "crictl", "pull", image, seconds=PULL_SECONDS)
            except UnavailableError as error:
                raise UnavailableError(
                    f"image {image} cannot be pulled on node {node}; check the network, or load it there with "
                    f"`kind load docker-image {image}`\n{error}"
                ) from None

    def _on_control_plane(self, *command: str, text: str | None = None) -> str:
        return self._shell.execute(self._control_plane, *command, text=text)

    def _wait(self, check: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            try:
                return check()
            except UnavailableError as error:  # errors of curl and crictl while the component starts
                raise AssertionError(str(error)) from None

        eventually(look, within=START_SECONDS, every=_LOOK, describe=what, error=UnavailableError)
