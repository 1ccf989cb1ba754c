"""Waits until a cluster's components have processed all changes, and reports a component that has crashed or hangs."""

import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from harness import eventually
from harness.api.client import RefusedError
from harness.backends.backend import Backend, WantedPod
from harness.backends.protocols import Probing
from harness.errors import EndedError, HarnessError, InconclusiveError, StarvedError
from harness.eventually import last_value
from harness.model import manifests
from harness.model.manifests import Endpoint
from harness.model.outcomes import Observation, Reached, TimedOut, Unknown
from harness.model.release import PROXY
from harness.model.workloads import pod_client
from harness.netns.addresses import SERVICE_CIDRS
from harness.probes.loop import Probe
from harness.run_delay import RUN_DELAY

AGAIN = 1.0
"""Time limit of a wait in seconds (times the time scale) if the previous wait timed out."""

CHECK_SECONDS = 10.0
"""Seconds (times the time scale) between two checks of proxies that have stopped processing changes."""

CHAIN = 1.5  # factor that extends the time limit: components also process the writes of the components before them

_VIRTUAL = [ipaddress.ip_network(each) for each in SERVICE_CIDRS.values()]


class ComponentSync:
    """Waits until all components are idle. Each component processes writes by the components before it in `names`."""

    def __init__(
        self,
        names: Sequence[str],
        synced: Callable[[str], bool],
        missing: Callable[[str], str] = lambda _: "",
        unresponsive: Callable[[float], str] = lambda _: "",
        hangs: Callable[[], str] = lambda: "",
    ) -> None:
        """`synced` returns whether a component has processed all events, and raises `EndedError` if it has crashed. The
        other functions return an error text, or "". `unresponsive` takes a time limit in seconds.
        """
        self._names, self._synced, self._missing, self._unresponsive = names, synced, missing, unresponsive
        self._hangs = hangs
        self._stopped, self._checked_at = "", 0.0
        self._failed: tuple[str, str] | None = None  # the error text, and the component
        self._starved = ""  # the error text if the components got too little CPU time in the last wait

    def started(self) -> None:
        """Record that a component was replaced, so that the next wait uses the full time limit again."""
        self._failed = None
        self._stopped = self._starved = ""

    def settle(self, within: float | None = None) -> float:
        """Wait until all components are idle. Return for how many seconds they had unfinished work. Raises `EndedError`
        for the first component that crashed or timed out, and `StarvedError` if they got too little CPU time.
        """
        if self._stopped:
            self.check_progress()
        begin = busy_at = time.monotonic()
        behind = ""

        def idle() -> bool:
            nonlocal behind, busy_at
            looked_at = time.monotonic()
            behind = next((name for name in self._names if not self._check(name)), "")
            if behind:
                busy_at = looked_at
                self.check_hung()
                self._check_starved(begin)
            return not behind

        try:
            eventually.eventually(
                idle,
                within=AGAIN if self._failed else within or CHAIN * eventually.FAR,
                describe=lambda: f"{behind} to have processed all events{self._why(behind)}",
                error=InconclusiveError,
            )
        except StarvedError as error:
            self._starved = self._starved or str(error)
            raise
        except EndedError:
            raise
        except InconclusiveError as error:
            self._failed = self._failed or (f"{behind} has stopped processing changes: {error}", behind)
            raise EndedError(*self._failed) from error
        self._failed, self._starved = None, ""
        return busy_at - begin

    def _check_starved(self, begin: float) -> None:
        """Raise `StarvedError` if the components got too little CPU time in the last wait and since `begin`."""
        passed = time.monotonic() - begin
        if self._starved and passed >= AGAIN * eventually.time_scale() and RUN_DELAY.lost(begin) >= passed / 2:
            raise StarvedError(f"{self._starved}. The machine is still too busy")

    def _why(self, name: str) -> str:
        missing = self._missing(name)
        return f" ({missing})" if missing else ""

    def check(self) -> None:
        for name in self._names:
            self._check(name)

    def check_progress(self) -> None:
        """Raise `EndedError` if the proxies do not process changes, even if they report that they do."""
        if self._stopped and time.monotonic() - self._checked_at < CHECK_SECONDS * eventually.time_scale():
            raise EndedError(self._stopped, PROXY)
        reason = self._unresponsive(AGAIN if self._stopped else eventually.FAR)
        self._checked_at = time.monotonic()
        if not reason:
            self._stopped = ""
            return
        claim = "though it claims to have processed everything"
        self._stopped = self._stopped or f"{PROXY} has stopped processing changes: {reason}, {claim}"
        raise EndedError(self._stopped, PROXY)

    def check_hung(self) -> None:
        """Raise `EndedError` if the proxies hang. Call this repeatedly while waiting for proxies."""
        if reason := self._hangs():
            self._stopped = f"{PROXY} has stopped processing changes: {reason}"
            self._checked_at = time.monotonic()
            raise EndedError(self._stopped, PROXY)

    def _check(self, name: str) -> bool:
        try:
            return self._synced(name)
        except EndedError as error:
            raise EndedError(str(error), name) from error


class LivenessCheckBackend(Backend, Probing, Protocol):
    def remove_namespace(self, namespace: str) -> None:
        """Delete a namespace with all its objects, without waiting."""


class ProxyLiveness:
    """Checks whether proxies process changes at all, after a requirement has failed. A hung proxy may report that it
    has processed everything. So the check creates a plain Service. If earlier Services were reachable but this Service
    is not, the proxy has stopped working.
    """

    def __init__(self, cluster: LivenessCheckBackend) -> None:
        self._cluster = cluster
        self._reached_before = False
        self._asking = False
        self._number = 0

    def note(self, probes: Iterable[Probe], observed: Iterable[Observation]) -> bool:
        """Record whether a cluster IP was reached. Return True if proxies may have stopped: a Service was reached
        before, but one of these probes got no answer.
        """
        self._reached_before = self._reached_before or any(
            isinstance(outcome, Reached) and _is_virtual(probe.address)
            for probe, outcome in zip(probes, observed, strict=True)
        )
        return (
            self._reached_before and not self._asking and any(isinstance(each, TimedOut | Unknown) for each in observed)
        )

    def unresponsive(self, nodes: Sequence[str], within: float) -> str:
        """Create a Service. Return a text that names the nodes that cannot reach it after `within` seconds, or ""."""
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
            if RUN_DELAY.stopped:  # a stopped proxy processes no changes, whatever the reason
                return left
            raise


def _is_virtual(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return any(parsed in each for each in _VIRTUAL)
