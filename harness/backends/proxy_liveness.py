"""Checks whether proxies process changes at all, in a cluster in which a requirement has just failed.

A hung proxy may report that it has processed everything. Its progress reports may continue, or may always have been
wrong. Then each requirement would time out and report a separate fault. So the check creates a plain Service with an
endpoint on each node. If earlier Services were reachable but this Service is not, the node's proxy has stopped working.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Protocol

from harness.api.client import RefusedError
from harness.backends.backend import Backend, WantedPod
from harness.backends.protocols import Probing
from harness.errors import HarnessError, StarvedError
from harness.eventually import last_value
from harness.model import manifests
from harness.model.manifests import Endpoint
from harness.model.outcomes import Observation, Reached, TimedOut, Unknown
from harness.model.workloads import pod_client
from harness.netns.addresses import SERVICE_CIDRS
from harness.probes.loop import Probe
from harness.run_delay import RUN_DELAY

_VIRTUAL = [ipaddress.ip_network(each) for each in SERVICE_CIDRS.values()]


class LivenessCluster(Backend, Probing, Protocol):
    """The cluster to check."""

    def remove_namespace(self, namespace: str) -> None:
        """Delete a namespace with all its objects, without waiting."""


class ProxyLiveness:
    """The check of one cluster's proxies. It also records whether any Service was ever reached."""

    def __init__(self, cluster: LivenessCluster) -> None:
        self._cluster = cluster
        self._reached_before = False
        self._asking = False
        self._number = 0

    def note(self, probes: Iterable[Probe], observed: Iterable[Observation]) -> bool:
        """Record whether a cluster IP was reached.

        Returns whether the proxies are in doubt: this probe received no answer, although Services were reached earlier.
        """
        self._reached_before = self._reached_before or any(
            isinstance(outcome, Reached) and _is_virtual(probe.address)
            for probe, outcome in zip(probes, observed, strict=True)
        )
        return (
            self._reached_before and not self._asking and any(isinstance(each, TimedOut | Unknown) for each in observed)
        )

    def unresponsive(self, nodes: Sequence[str], within: float) -> str:
        """Return the nodes that cannot reach a new Service within this number of seconds before the time scale.

        Returns "" if the Service is reachable from all nodes. Also returns "" if the result is unknown, because no
        Service was reached before or something else is broken.
        """
        if not self._reached_before or not nodes:
            return ""
        self._number += 1
        namespace = f"td-liveness-{self._number}"
        self._asking = True
        try:
            unreached = self._unreached(namespace, nodes, within)
        except (HarnessError, RefusedError):
            return ""
        finally:
            self._asking = False
            with contextlib.suppress(HarnessError, RefusedError):
                self._cluster.remove_namespace(namespace)
        return f"a new Service is not reachable from {', '.join(unreached)} after {within:g} s" if unreached else ""

    def _unreached(self, namespace: str, nodes: Sequence[str], within: float) -> list[str]:
        cluster, family = self._cluster, self._cluster.families[0]
        cluster.create_namespace(namespace)
        pods = cluster.run_pods(namespace, [WantedPod(f"liveness-{node}", node) for node in nodes])
        made = cluster.api.create("services", namespace, manifests.service("liveness"))
        endpoints = [Endpoint(pod.addresses, node=pod.node, zone=pod.zone) for pod in pods]
        written = manifests.endpoint_slice("liveness", "liveness", endpoints, family=family)
        cluster.api.create("endpointslices", namespace, written)
        left = list(nodes)

        def look() -> list[str]:
            probes = [Probe(cluster.source_of(pod_client(node)), "TCP", made["spec"]["clusterIP"], 80) for node in left]
            seen = zip(left, cluster.probe(probes), strict=True)
            left[:] = [node for node, outcome in seen if not isinstance(outcome, Reached)]
            return left

        try:
            return last_value(look, lambda seen: not seen, within=within, every=0.02, describe="a new Service")
        except StarvedError:
            if RUN_DELAY.stopped:  # whoever stopped a proxy, it processes no changes
                return left
            raise


def _is_virtual(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return any(parsed in each for each in _VIRTUAL)
