"""The destinations of control probes in a cluster on this machine. See harness.probes.control_probes."""

import copy
import socket
from collections.abc import Callable, Collection, Mapping, Sequence

from harness.model.manifests import TARGET_PORT
from harness.model.workloads import pod_client
from harness.netns.addresses import Family
from harness.netns.conntrack import ConntrackOverflow
from harness.netns.fabric import NetworkPeer
from harness.probes.loop import Server
from harness.probes.probe import SocketSource

Running = dict[tuple[str, str], tuple[NetworkPeer, Sequence[Server]]]
"""Pods with an echo server, keyed by Kubernetes namespace and name."""


class NetnsControlTargets:
    """Finds clients and destinations for the control probes of one cluster, except on nodes that are switched off."""

    def __init__(
        self,
        nodes: Mapping[str, NetworkPeer],
        external: NetworkPeer,
        running: Running,
        clients: dict[str, NetworkPeer],
        off: Collection[str],
    ) -> None:
        self._nodes = nodes
        self._external: NetworkPeer | None = external
        self._running = running
        self._clients = clients
        self._off = off
        self._targets: Callable[[], Mapping[str, NetworkPeer]] = self.running
        self._overflows = [ConntrackOverflow(host.namespace) for host in nodes.values()]

    def close(self) -> None:
        for each in self._overflows:
            each.close()

    def leave_out_external(self) -> None:
        """Send no control probes from the external client, because it has no direct path to pods."""
        self._external = None

    def who(self, client: SocketSource) -> str:
        return next((name for name, host in self._all_clients() if host.namespace is client), "")

    def _all_clients(self) -> list[tuple[str, NetworkPeer]]:
        named = [(str(pod_client(node)), host) for node, host in self._clients.copy().items()]
        named += self.running().items()
        named += [(f"node {name}", host) for name, host in self._nodes.items()]
        named += [("outside", self._external)] if self._external else []
        return [(name, host) for name, host in named if host.node not in self._off]

    def of_pod(self, name: str, pod: NetworkPeer) -> "NetnsControlTargets":
        made = copy.copy(self)
        made._targets = lambda: {name: pod}
        return made

    def pods(self, family: int) -> Mapping[str, tuple[str, int]]:
        """Return the address and server port of each running pod, keyed by pod name, except on disconnected nodes."""
        of: Family = "IPv6" if family == socket.AF_INET6 else "IPv4"
        return {
            name: (host.addresses[of], TARGET_PORT) for name, host in self._targets().items() if of in host.addresses
        }

    def running(self) -> dict[str, NetworkPeer]:
        """Return the pods that have an echo server, keyed by pod name, except on disconnected nodes."""
        pods = {name: host for (_, name), (host, _) in self._running.copy().items()}
        return {name: host for name, host in pods.items() if host.node not in self._off}

    def overflows(self) -> Callable[[], int]:
        before = [(each, each.read()) for each in self._overflows]
        return lambda: sum(each.since(counters) for each, counters in before)
