"""Whether proxies have worked on everything that was written: a canary goes the same way, and arrives.

Somebody's proxies do not say what they have worked on. But they watch Services in one stream and EndpointSlices in
another, so a Service and a slice of ours that are changed after all that is waited for are programmed after it too: the
Service gets another port, and its slice another endpoint. When a client on each node is answered at the new port by the
new endpoint, its proxy has been told of everything before. Nothing is written while nothing else was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness import manifests
from harness.api import Api
from harness.backends.any_cluster.dialing import ClientPod, Dialer
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.manifests import Endpoint, Port
from harness.outcomes import Observation, Reached, Unknown
from harness.probes.loop import Probe

NAME = "canary"
FIRST_PORT = 7000
PORTS = 1000
TIMEOUT = 0.9


class Barrier:
    """The canary of one worker, in its namespace. Its endpoints are client pods."""

    def __init__(self, api: Api, dialer: Dialer, namespace: str, labels: Mapping[str, str]) -> None:
        self._api = api
        self._dialer = dialer
        self._namespace = namespace
        self._labels = dict(labels)
        self._round = 0
        self._written = -1
        self._addresses: Mapping[str, str] = {}

    @property
    def families(self) -> tuple[str, ...]:
        """The families of Services of this cluster, the primary one first."""
        return tuple(self._addresses)

    def create(self) -> None:
        """Make the Service. Raises `RefusedError`."""
        wanted = manifests.service(
            NAME, labels=self._labels, ports=(Port(self._port),), ipFamilyPolicy="PreferDualStack"
        )
        made = self._api.create("services", self._namespace, wanted)
        self._addresses = dict(zip(made["spec"]["ipFamilies"], made["spec"]["clusterIPs"], strict=True))

    @property
    def _port(self) -> int:
        return FIRST_PORT + self._round % PORTS

    def pass_(
        self,
        clients: Sequence[ClientPod],
        endpoints: Sequence[tuple[str, Mapping[str, str]]],
        *,
        within: float,
        when_unable: Callable[[], None],
    ) -> None:
        """Return when all clients have seen the canary go round once more. `endpoints`: hostname, addresses by family.

        Raises `InconclusiveError`, and what `when_unable` raises, which is called when a client could not ask.
        """
        if self._api.writes == self._written:
            return
        self._round += 1
        name, addresses = endpoints[self._round % len(endpoints)]
        self._write(addresses)
        waiting = {
            Probe(client, "TCP", ip, self._port, TIMEOUT) for client in clients for ip in self._addresses.values()
        }

        def arrived() -> bool:
            probes = sorted(waiting, key=str)
            seen = dict(zip(probes, self._dialer.probe(probes, read=_word), strict=True))
            waiting.difference_update(probe for probe, outcome in seen.items() if outcome == Reached(name))
            if any(isinstance(outcome, Unknown) for outcome in seen.values()):
                when_unable()
            return not waiting

        eventually(
            arrived,
            within=within,
            every=0.02,
            describe=lambda: f"the proxies of all nodes to have worked on all events; not yet: {_places(waiting)}",
            error=InconclusiveError,
        )
        self._written = self._api.writes

    def _write(self, addresses: Mapping[str, str]) -> None:
        ports = [Port(self._port).manifest()]
        self._api.patch("services", self._namespace, NAME, {"spec": {"ports": ports}})
        for family in self._addresses:
            wanted = manifests.endpoint_slice(
                f"{NAME}-{family.lower()}", NAME, [Endpoint(addresses)], family=family, labels=self._labels
            )
            if self._round > 1:
                self._api.replace("endpointslices", self._namespace, wanted)
            else:
                self._api.create("endpointslices", self._namespace, wanted)


def _word(answer: str) -> Observation:
    return Reached(answer.strip()) if answer.strip() else Unknown("an empty answer")


def _places(probes: set[Probe]) -> str:
    return ", ".join(sorted({f"{getattr(each.namespace, 'name', '?')} to {each.address}" for each in probes})[:4])
