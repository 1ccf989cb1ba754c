"""Pods that remain running between scenarios, because a kubelet needs a second or more to start a pod.

A scenario gets pooled pods where it needs only an address with a server: a ready pod without labels, in its own netns.
Earlier scenarios leave no state behind, because servers end with their scenario and each probe uses a new port. A pod
does not return to the pool if a scenario deleted, evicted or terminated it, or made it unready.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

from harness.backends.any_cluster import pods
from harness.backends.any_cluster.pod_runner import PodRunner
from harness.backends.backend import WantedPod
from harness.backends.containers.in_pod import EnteredNetns, PodKey, Serve
from harness.errors import InconclusiveError
from harness.netns.fabric import Host
from harness.netns.namespace import Namespace
from harness.probes.loop import Server

MOST = 6
"""The maximum number of pooled pods per node. Only scenarios with many endpoints need more pods."""


def fits_pool(wanted: WantedPod) -> bool:
    """Return whether the scenario uses this pod only through its address, so that a pooled pod can serve."""
    return not wanted.labels and wanted.ready and not wanted.host_network


class PodPool:
    """One worker's pooled pods, in a separate Kubernetes namespace."""

    def __init__(self, runner: PodRunner, entered: EnteredNetns, namespace: str) -> None:
        self._runner = runner
        self._entered = entered
        self._namespace = namespace
        self._lock = threading.Lock()
        self._made = 0
        self._free: dict[str, list[PodKey]] = {}  # by node
        self._lent: dict[PodKey, PodKey] = {}  # the API's name of a pod, by the scenario's name of that pod
        self._changed: set[PodKey] = set()

    def close(self) -> None:
        """Start to delete all pooled pods. If the API server is unavailable, the end of the run deletes them."""
        with suppress(InconclusiveError):
            if self._made:
                self._runner.delete_namespace(self._namespace)

    def lend(self, namespace: str, wanted: Sequence[WantedPod], serves: Sequence[Serve]) -> list[Host]:
        """Serve a pooled pod for each requested pod, and return the pods. Missing pods are created.

        Raises the errors of `PodRunner.run_servers`.
        """
        with self._lock:
            found = [self._take(each.node) for each in wanted]
        missing = iter(self._make([each.node for each, key in zip(wanted, found, strict=True) if key is None]))
        hosts = []
        for each, key, serve in zip(wanted, found, serves, strict=True):
            own = key or next(missing)
            hosts.append(self._entered.rename(own, (namespace, each.name), serve))
            self._lent[namespace, each.name] = own
        return hosts

    def begin_to_change(self, namespace: str, name: str) -> PodKey:
        """Return the API's name of a scenario's pod. A pooled pod does not return to the pool after this."""
        if (namespace, name) not in self._lent:
            return namespace, name
        self._changed.add((namespace, name))
        return self._lent[namespace, name]

    def take_back(self, namespace: str) -> None:
        """End the servers of a scenario, and return its pods to the pool. Changed and surplus pods do not return."""
        with self._lock:
            for key in [each for each in self._lent if each[0] == namespace]:
                own = self._lent.pop(key)
                if key in self._changed:
                    self._changed.discard(key)
                    self._drop(key, own)
                else:
                    self._keep(key, own)

    def _keep(self, key: PodKey, own: PodKey) -> None:
        free = self._free.setdefault(self._entered.host(key).node, [])
        if len(free) >= MOST:
            self._drop(key, own)
        else:
            self._entered.rename(key, own, _nothing)
            free.append(own)

    def _take(self, node: str) -> PodKey | None:
        """Return a free pod on a node. Pods whose netns ended because their node was switched off are dropped."""
        free = self._free.setdefault(node, [])
        while free:
            if self._entered.is_alive(own := free.pop()):
                return own
            self._drop(own, own)
        return None

    def _drop(self, key: PodKey, own: PodKey) -> None:
        self._entered.leave(key.__eq__)
        self._runner.begin_to_delete(*own)

    def _make(self, nodes: Sequence[str]) -> list[PodKey]:
        """Run one new pod on each of these nodes."""
        if not nodes:
            return []
        with self._lock:
            if not self._made:
                self._runner.create_namespace(self._namespace)
            names = [f"kept-{number}" for number in range(self._made, self._made + len(nodes))]
            self._made += len(nodes)
        made = self._runner.run_servers(
            self._namespace,
            [WantedPod(name, node) for name, node in zip(names, nodes, strict=True)],
            before_ready=lambda created: self._entered.enter(created, [_nothing] * len(created)),
        )
        keys = [(self._namespace, name) for name in names]
        for key, obj in zip(keys, made, strict=True):
            self._entered.set_addresses(key, pods.addresses(obj).values())
        return keys


def _nothing(_: Namespace) -> Sequence[Server]:
    return ()
