"""Runs kube-proxy on every node: a binary of any version, configured for a bare netns.

A setting differs from its default only if a netns requires it, or if the default would distort observations.
"""

import functools
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.binaries import Version, find_entry
from harness.checks.program_requirements import absent
from harness.control_planes.control_plane import ControlPlane
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.model.files import file_name
from harness.model.manifests import zone_of
from harness.model.release import Release
from harness.model.topology import ZONE_LABEL
from harness.netns import http
from harness.netns.namespace import Namespace
from harness.proxies.kube_proxy_log import BarrierObjects, LogFollower
from harness.proxies.proxy import rules_of
from harness.recipes.node_processes import ApiServerAccess, NodeProcesses

HEALTH_PORT, METRICS_PORT = 10256, 10249

READY_SECONDS = 20.0
BARRIER_SECONDS = 1.0  # time limit for one call of `synced`
_LABEL_SECONDS = 1.0  # seconds from readiness to the log line with the node's labels
_STARTS = 5  # maximum number of starts until a proxy knows its node's zone
_QUIET_SECONDS = 0.05  # seconds without a log line, for versions that do not log the IP family of a sync
_LOOK = 0.002

_QUEUED = re.compile(
    r"^kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds(?:\{[^}]*ip_family=\"(\w+)\"[^}]*\})? (\S+)$",
    re.MULTILINE,
)
_UNKNOWN_GATE = re.compile(r"unrecognized feature gate: (\w+)")
_TOOLS = {"nftables": ("nft",), "iptables": ("iptables", "ip6tables"), "ipvs": ("iptables", "ip6tables", "ipset")}
_EXECS_CONNTRACK = (1, 31)  # up to this version, kube-proxy runs the program conntrack to delete UDP entries


class KubeProxy:
    """One kube-proxy per node, in the requested version or in the version of a scenario's release."""

    name = "kube-proxy"

    def __init__(
        self,
        plane: ControlPlane,
        *,
        pod_cidrs: Sequence[str],
        mode: str = "nftables",
        version: str = "",
        booted: str = "",
    ) -> None:
        """`version` is the initial version. Raises `UnavailableError` for a missing program or feature."""
        self.mode = mode
        self._asked, self._booted = version, booted
        self._pod_cidrs = pod_cidrs
        entry = find_entry("kube-proxy", version)
        require(mode, entry.version)
        self.version = entry.version.tag
        self._connections = ApiServerAccess(plane)
        self._processes = NodeProcesses(self._connections, "kube-proxy")
        self._barrier_objects = BarrierObjects(self._connections.api)
        self._followers: dict[str, LogFollower] = {}
        self._revision = ""  # resource version up to which the proxies have processed all writes

    def setup(self, node: str, namespace: Namespace, release: Release) -> None:
        of_release = release.version if release.version != self._booted else ""
        entry = find_entry("kube-proxy", of_release or self._asked)
        require(self.mode, entry.version)
        self.stop(node)  # stop the old proxy first, because it exits when its configuration changes
        wanted = configuration(
            node,
            mode=self.mode,
            version=entry.version,
            kubeconfig=self._connections.kubeconfig,
            pod_cidrs=self._pod_cidrs,
            gates=dict(release.gates),
        )
        self._configuration(node).write_text(json.dumps(wanted, indent=2), encoding="utf-8")
        command = [str(entry.path), f"--config={self._configuration(node)}", "-v=4"]
        self._revision = ""
        for _ in range(_STARTS):
            self._processes.stop(node)
            self._followers[node] = LogFollower(self._processes.log(node))
            starting = self._processes.start(node, namespace, command, {"TZ": "UTC"})
            try:
                self._processes.await_ready(node, functools.partial(self._not_ready, node), READY_SECONDS)
            except DistrustError as error:
                if unknown := _UNKNOWN_GATE.search(starting.said()):
                    raise UnavailableError(f"kube-proxy {entry.version} has no feature gate {unknown[1]}") from None
                raise error from None
            if self._knows_its_zone(node):
                return
        process = self._processes.running[node]
        self._processes.stop(node)
        raise process.broken(f"did not receive the zone of its node in {_STARTS} starts")

    def _configuration(self, node: str) -> Path:
        return self._connections.folder / f"{file_name(node)}-configuration.json"

    def _not_ready(self, node: str) -> str:
        try:
            code = http.get(self._connections.namespace(node), "127.0.0.1", HEALTH_PORT, "/healthz").code
        except OSError as error:
            return f"/healthz: {error.strerror or error}"
        return "" if code == 200 else f"/healthz: {code}"

    def _knows_its_zone(self, node: str) -> bool:
        """Since 1.34, kube-proxy may miss its zone: it starts its node watch before it registers the label handlers."""
        if not zone_of(self._connections.api.get("nodes", "", node)):
            return True
        follower, deadline = self._followers[node], time.monotonic() + _LABEL_SECONDS
        while follower.labels is None and time.monotonic() < deadline:
            time.sleep(_LOOK)
            follower.update()
        return follower.labels is not None

    def stop(self, node: str) -> None:
        self._processes.stop(node)
        self._connections.clear(node)

    def close(self) -> None:
        self._processes.close()
        self._connections.close()

    def synced(self) -> bool:
        self._processes.check()
        if self._revision and self._barrier_objects.revision() == self._revision:
            return True
        for follower in self._followers.values():
            follower.update()
            follower.forget_barrier_objects()
        name, revision = self._barrier_objects.write()
        synced = self._have_synced(name, self._zones())
        self._revision = revision if synced else ""
        return synced

    def _zones(self) -> dict[str, str]:
        try:
            nodes = self._connections.api.list("nodes", "")
        except InconclusiveError:
            return {}
        return {each["metadata"]["name"]: zone_of(each) for each in nodes}

    def _have_synced(self, name: str, zones: Mapping[str, str]) -> bool:
        waiting: dict[str, dict[str, float] | None] = dict.fromkeys(self._processes.running)
        deadline = time.monotonic() + BARRIER_SECONDS
        while True:
            for node in list(waiting):
                if waiting[node] is None and self._has_seen(node, name, zones):
                    waiting[node] = self._last_queued(node)
                queued = waiting[node]
                if queued is not None and self._has_synced(node, queued):
                    del waiting[node]
            if not waiting:
                return True
            if time.monotonic() > deadline:
                self._processes.check()
                return False
            time.sleep(_LOOK)

    def _has_seen(self, node: str, name: str, zones: Mapping[str, str]) -> bool:
        follower = self._followers[node]
        follower.update()
        if node in zones and (follower.labels or {}).get(ZONE_LABEL, "") != zones[node]:
            return False
        return not name or (name in follower.services and name in follower.slices)

    def _last_queued(self, node: str) -> dict[str, float] | None:
        """Return by IP family ("" before 1.33) when a sync was last queued (None: unknown, or before `labels_at`)."""
        try:
            answer = http.get(self._connections.namespace(node), "127.0.0.1", METRICS_PORT, "/metrics")
        except OSError:
            return None
        queued = {family: float(when) for family, when in _QUEUED.findall(answer.text)}
        return queued if min(queued.values(), default=0.0) >= self._followers[node].labels_at else None

    def _has_synced(self, node: str, queued: dict[str, float]) -> bool:
        """Return whether syncs that began after the times `queued` have ended. All times use this machine's clock."""
        follower = self._followers[node]
        follower.update()
        known = follower.syncs
        if not known or any(each.under_way for each in known.values()):
            return False
        if "" in queued or "" in known:  # only the later time of both families is known
            last = max(each.ended for each in known.values())
            began = max(each.began for each in known.values())
            return began >= max(queued.values()) and time.time() - last > _QUIET_SECONDS
        return all(known[family].began >= when for family, when in queued.items() if family in known)

    def explain(self, node: str, namespace: str, service: str) -> str:
        about = f"{namespace}/{service}"
        return self._processes.explain(node, re.escape(about), about)

    def decisions(self, node: str) -> str:  # noqa: ARG002  of any node
        """Return "", because kube-proxy's log does not list decisions."""
        return ""

    def evidence(self, node: str) -> dict[str, str]:
        texts = self._processes.evidence(node)
        if texts:
            texts |= rules_of(node, self._connections.namespace(node), self.mode)
            texts[f"kube-proxy-{node}.json"] = self._configuration(node).read_text(encoding="utf-8")
        return texts


def require(mode: str, version: Version) -> None:
    if mode == "ipvs" and not Path("/proc/net/ip_vs").exists():
        raise UnavailableError(
            "IPVS mode needs the kernel module ip_vs (CONFIG_IP_VS), which is not loaded: run `modprobe ip_vs` as root "
            "on the machine"
        )
    if mode == "nftables" and version < Version(1, 29, 0):
        raise UnavailableError(
            f"kube-proxy {version} has no nftables mode, which was added in 1.29; use --mode iptables"
        )
    tools = list(_TOOLS[mode])
    if (version.major, version.minor) <= _EXECS_CONNTRACK:
        tools.append("conntrack")
    for tool in tools:
        if why := absent(tool):
            raise UnavailableError(f"kube-proxy {version} in {mode} mode runs `{tool}`, which is {why}")


def configuration(
    node: str, *, mode: str, version: Version, kubeconfig: Path, pod_cidrs: Sequence[str], gates: dict[str, bool]
) -> dict[str, Any]:
    """Return a KubeProxyConfiguration for a node that is only a netns."""
    if mode == "nftables" and (version.major, version.minor) < (1, 31):
        gates = {"NFTablesProxyMode": True, **gates}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": mode,
        "featureGates": gates,
        "hostnameOverride": node,
        "bindAddress": "0.0.0.0",  # noqa: S104  kube-proxy takes it as: the addresses of the Node
        "clientConnection": {
            "kubeconfig": str(kubeconfig),
            "contentType": "application/json",
            "acceptContentTypes": "application/json",
            "qps": 1000.0,
            "burst": 2000,
        },
        "healthzBindAddress": f"0.0.0.0:{HEALTH_PORT}",
        "metricsBindAddress": f"127.0.0.1:{METRICS_PORT}",
        "detectLocalMode": "ClusterCIDR",
        "clusterCIDR": ",".join(pod_cidrs),
        # Otherwise kube-proxy writes sysctls, some of which exist only in the initial netns, and exits.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        # Loopback is excluded, because iptables mode would set route_localnet. 0s would mean the default, one second.
        "nodePortAddresses": ["10.0.0.0/8", "fd00:10::/32"],
        mode: {"minSyncPeriod": "1ms", "syncPeriod": "30s"},
        "oomScoreAdj": 0,
    }
