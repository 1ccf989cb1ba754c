"""Waits until proxies have processed all writes: it writes last, and waits until clients see the effect.

Proxies generally do not report their progress. They watch Services in one stream and EndpointSlices in another, so a
Service and a slice that change after all other writes are also programmed last. Each round renames the Service's port
and publishes an endpoint for the new port name. When that endpoint answers a client, the proxy on the client's node has
received both changes and all earlier changes. Until then, the previous round's endpoint answers at the same address.
This avoids unanswered attempts: agnhost would wait five seconds for each, and its retransmitted SYNs would look like
the effect of a fault. If nothing else was written since the last round, the barrier writes nothing, unless components
were replaced. In that case, proxies may have to restart their watches, which takes up to a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from harness.api.client import Api
from harness.backends.any_cluster.agnhost_output import Reader
from harness.backends.any_cluster.pods import ClientPod
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.model import manifests
from harness.model.manifests import Endpoint, Port
from harness.model.outcomes import Observation, Reached, Unknown
from harness.probes.loop import Probe

NAME = "barrier"
OF_CONTROLLER = "barrier-of-the-controller"
LABEL = "trafficdist.dev/barrier"
PORT = 7000
TIMEOUT = 0.9


class ProbeSender(Protocol):
    """Sends probes from client pods."""

    def probe(self, probes: Sequence[Probe], read: Reader = ...) -> list[Observation]:
        """Return the outcomes, with equal probes' outcomes in any order. `read` parses agnhost's answers."""


class Barrier:
    """One worker's Service that shows the progress of proxies. Its endpoints are dedicated pods."""

    def __init__(self, api: Api, dialer: ProbeSender, namespace: str, labels: Mapping[str, str]) -> None:
        self._api = api
        self._dialer = dialer
        self._namespace = namespace
        self._labels = dict(labels)
        self._round = 0
        self._services = 0  # Services created to wait for the controller
        self._written: int | None = -1  # the API's count of writes when the barrier was last passed
        self._endpoint = ""  # the endpoint in the last slice
        self._addresses: Mapping[str, str] = {}

    def expect_news(self) -> None:
        """Make the next call run the barrier even without writes, because proxies may have to list again."""
        self._written = None

    @property
    def expects_news(self) -> bool:
        """True if no round has been completed since `expect_news`."""
        return self._written is None

    @property
    def families(self) -> tuple[str, ...]:
        """The IP families of Services in this cluster, starting with the primary family."""
        return tuple(self._addresses)

    def create(self) -> None:
        wanted = manifests.service(NAME, labels=self._labels, ports=(self._port,), ipFamilyPolicy="PreferDualStack")
        made = self._api.create("services", self._namespace, wanted)
        self._addresses = dict(zip(made["spec"]["ipFamilies"], made["spec"]["clusterIPs"], strict=True))

    @property
    def _port(self) -> Port:
        return Port(PORT, name=f"round-{self._round}")

    def pass_(
        self,
        clients: Sequence[ClientPod],
        endpoints: Sequence[tuple[str, Mapping[str, str]]],
        *,
        within: float | None,
        when_unable: Callable[[], None],
    ) -> None:
        """Wait until all clients see the barrier's next change. `endpoints` are hostnames with addresses by family.

        `when_unable` is called when a client cannot send. Raises `InconclusiveError` and the errors of `when_unable`.
        """
        if self._api.writes == self._written:
            return
        self._round += 1
        name, addresses = next((each for each in endpoints if each[0] != self._endpoint), endpoints[0])
        self._endpoint = name
        self._write(addresses)
        waiting = {Probe(client, "TCP", ip, PORT, TIMEOUT) for client in clients for ip in self._addresses.values()}

        def arrived() -> bool:
            probes = sorted(waiting, key=str)
            seen = dict(zip(probes, self._dialer.probe(probes, read=word), strict=True))
            waiting.difference_update(probe for probe, outcome in seen.items() if outcome == Reached(name))
            if any(isinstance(outcome, Unknown) for outcome in seen.values()):
                when_unable()
            return not waiting

        eventually(
            arrived,
            within=within,
            every=0.05,
            describe=lambda: f"the proxies of all nodes to have processed all events; not yet: {_places(waiting)}",
            error=InconclusiveError,
        )
        self._written = self._api.writes

    def hear_from_controller(self, pod: str, *, within: float) -> None:
        """Wait until the EndpointSlice controller receives Services and pods again, in separate streams.

        This method labels a pod and creates a Service that selects the label. Then the Service's slice must receive an
        endpoint. Raises `InconclusiveError`.
        """
        self._services += 1
        label, name = {LABEL: str(self._services)}, f"{OF_CONTROLLER}-{self._services}"
        self._api.patch("pods", self._namespace, pod, {"metadata": {"labels": label}})
        self._api.create("services", self._namespace, manifests.service(name, labels=self._labels, selector=label))

        def has_endpoint() -> bool:
            of_this = f"kubernetes.io/service-name={name}"
            slices = self._api.list("endpointslices", self._namespace, label_selector=of_this)
            return any(each.get("endpoints") for each in slices)

        try:
            eventually(
                has_endpoint,
                within=within,
                every=0.25,
                describe="the EndpointSlice controller to receive Services and pods",
                error=InconclusiveError,
            )
        finally:
            self._api.delete("services", self._namespace, name)

    def _write(self, addresses: Mapping[str, str]) -> None:
        """Write the slice first, then the Service. A proxy with only the new Service would have no endpoint for it."""
        for family in self._addresses:
            wanted = manifests.endpoint_slice(
                f"{NAME}-{family.lower()}-{self._round % 2}",  # the remaining endpoint is from the previous round
                NAME,
                [Endpoint(addresses)],
                family=family,
                ports=(self._port,),
                labels=self._labels,
            )
            if self._round > 2:
                self._api.replace("endpointslices", self._namespace, wanted)
            else:
                self._api.create("endpointslices", self._namespace, wanted)
        self._api.patch("services", self._namespace, NAME, {"spec": {"ports": [self._port.manifest()]}})


def word(answer: str) -> Observation:
    """Return the outcome for an answer that consists of a pod's name."""
    return Reached(answer.strip()) if answer.strip() else Unknown("an empty answer")


def _places(probes: set[Probe]) -> str:
    return ", ".join(sorted({f"{getattr(each.namespace, 'name', '?')} to {each.address}" for each in probes})[:4])
