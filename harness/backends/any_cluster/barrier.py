"""Waits until proxies have processed all writes: changes its own objects last, and waits until clients see the effect.

Proxies watch Services and EndpointSlices in separate streams, so each round renames the port of the barrier's Service
and publishes an endpoint for the new port name. Until a proxy has received both changes, the endpoint of the previous
round answers at the same address. So every attempt gets an answer: without one, an attempt would take agnhost five
seconds, and its retransmitted SYNs would look like a fault.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from harness.api.client import Api
from harness.backends.any_cluster.agnhost_output import Reader
from harness.backends.any_cluster.pods import ClientPod
from harness.errors import InconclusiveError
from harness.eventually import eventually, last_value, time_scale
from harness.model import manifests
from harness.model.manifests import Endpoint, Hints, Port
from harness.model.outcomes import Observation, Reached, Unknown
from harness.probes.loop import Probe

NAME = "barrier"
OF_CONTROLLER = "barrier-of-the-controller"
LABEL = "trafficdist.dev/barrier"
PORT = 7000
TIMEOUT = 0.9
RESTARTED = 120.0
"""Time limit in seconds (times the time scale) after a component is replaced: its clients may be backing off."""

CANARY = "zone-canary"
NOWHERE = "nowhere"
LOOKS = 12
"""Probes per check. If a proxy balances over both endpoints, all probes reach the expected one in 1 of 4,096 checks."""
KNOWN = 10.0  # seconds, before `time_scale` is applied, within which a proxy must use its node's initial zone

Named = tuple[str, Mapping[str, str]]  # a pod's hostname, which its server sends as answer, and its addresses by family

QUIET = 0.3  # seconds, before `time_scale` is applied, without a write, after which slices are stable
LONGEST = 10.0  # maximum wait in seconds, before `time_scale` is applied; scenarios detect writes that never stop


class ProbeSender(Protocol):
    def probe(self, probes: Sequence[Probe], read: Reader = ...) -> list[Observation]:
        """Send probes, and return their outcomes (those of equal probes in any order). `read` parses answers."""


class Barrier:
    def __init__(self, api: Api, dialer: ProbeSender, namespace: str, labels: Mapping[str, str]) -> None:
        self._api = api
        self._dialer = dialer
        self._namespace = namespace
        self._labels = dict(labels)
        self._round = 0
        self._services = 0  # Services created to wait for the controller
        self._written: int | None = -1  # the API's count of writes when the barrier was last passed
        self._endpoint = ""  # the endpoint in the last slice
        wanted = manifests.service(NAME, labels=self._labels, ports=(self._port,), ipFamilyPolicy="PreferDualStack")
        made = api.create("services", namespace, wanted)
        self._addresses = dict(zip(made["spec"]["ipFamilies"], made["spec"]["clusterIPs"], strict=True))

    def expect_news(self) -> None:
        """Make the next `pass_` wait even if nothing was written, because proxies may have to list objects again."""
        self._written = None

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(self._addresses)

    @property
    def _port(self) -> Port:
        return Port(PORT, name=f"round-{self._round}")

    def pass_(
        self,
        clients: Sequence[ClientPod],
        endpoints: Sequence[tuple[str, Mapping[str, str]]],
        *,
        when_unable: Callable[[], None],
    ) -> None:
        """Wait until clients see the barrier's next change. Raises `InconclusiveError` or errors of `when_unable`."""
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
            within=RESTARTED if self._written is None else None,
            every=0.05,
            describe=lambda: f"the proxies of all nodes to have processed all events; not yet: {_places(waiting)}",
            error=InconclusiveError,
        )
        self._written = self._api.writes

    def hear_from_controller(self, pod: str) -> None:
        """Wait until the EndpointSlice controller has received all Services and pods. Raises `InconclusiveError`."""
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
                within=RESTARTED,
                every=0.25,
                describe="the EndpointSlice controller to receive Services and pods",
                error=InconclusiveError,
            )
        finally:
            self._api.delete("services", self._namespace, name)

    def _write(self, addresses: Mapping[str, str]) -> None:
        """Write the slice before the Service, because the Service's new port needs an endpoint from the start."""
        for family in self._addresses:
            wanted = manifests.endpoint_slice(
                f"{NAME}-{family.lower()}-{self._round % 2}",  # the other slice is from the previous round
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
    return Reached(answer.strip()) if answer.strip() else Unknown("an empty answer")


def _places(probes: set[Probe]) -> str:
    return ", ".join(sorted({f"{getattr(each.namespace, 'name', '?')} to {each.address}" for each in probes})[:4])


class ZoneCanary:
    """Shows which zone a node's proxy uses after the node's zone label has changed. A proxy watches Nodes separately,
    so a canary Service has one endpoint with a hint for the new zone, and one with hints for all other zones. If the
    proxy never uses the new zone, the scenario continues and can detect this fault.
    """

    def __init__(self, api: Api, dialer: ProbeSender, namespace: str, labels: Mapping[str, str]) -> None:
        self._api = api
        self._dialer = dialer
        self._namespace = namespace
        self._labels = dict(labels)
        self._made = 0
        self._follows: dict[ClientPod, bool] = {}  # whether the proxy of each client follows hints

    def before_the_change(
        self, client: ClientPod, zone: str | None, zones: Sequence[str], endpoints: Sequence[Named]
    ) -> None:
        """Check once, with hints for the node's current zone, whether the proxy on this client's node follows hints."""
        if client not in self._follows:
            shown = len(endpoints) > 1 and self._wait_for_zone(client, zone, zones, endpoints, KNOWN)
            self._follows[client] = shown

    def wait(self, client: ClientPod, zone: str | None, zones: Sequence[str], endpoints: Sequence[Named]) -> bool:
        """Wait until the proxy on a client's node uses `zone` (None: no zone). Return whether probes confirmed this."""
        ready = self._follows.get(client, False) and len(endpoints) > 1
        return ready and self._wait_for_zone(client, zone, zones, endpoints, None)

    def _wait_for_zone(
        self,
        client: ClientPod,
        zone: str | None,
        zones: Sequence[str],
        endpoints: Sequence[Named],
        within: float | None,
    ) -> bool:
        (here, its_addresses), (elsewhere, other_addresses) = endpoints[:2]
        its, others = Hints(zones=(zone or NOWHERE,)), Hints(zones=tuple(each for each in zones if each != zone))
        address = self._create(Endpoint(its_addresses, hints=its), Endpoint(other_addresses, hints=others))
        probe = Probe(client, "TCP", address, PORT, TIMEOUT)

        def shown() -> bool:
            seen = set(self._dialer.probe([probe] * LOOKS, read=word))
            return seen == ({Reached(here)} if zone else {Reached(here), Reached(elsewhere)})

        with contextlib.suppress(InconclusiveError):
            return eventually(shown, within=within, every=0.1, describe="the zone", error=InconclusiveError)
        return False

    def _create(self, *endpoints: Endpoint) -> str:
        """Replace the canary with a new Service, because a proxy may keep old rules. Return the new cluster IP."""
        before, name = f"{CANARY}-{self._made}", f"{CANARY}-{self._made + 1}"
        port = (Port(PORT, name="zone"),)
        wanted = manifests.service(name, labels=self._labels, ports=port, trafficDistribution="PreferClose")
        spec = self._api.create("services", self._namespace, wanted)["spec"]
        family = spec["ipFamilies"][0]
        self._api.create(
            "endpointslices",
            self._namespace,
            manifests.endpoint_slice(name, name, endpoints, family=family, ports=port, labels=self._labels),
        )
        if self._made:
            self._api.delete("services", self._namespace, before)
            self._api.delete("endpointslices", self._namespace, before)
        self._made += 1
        return str(spec["clusterIPs"][0])


class StableSlices:
    """Waits until EndpointSlices are stable, because a late write would look like the response to the next change."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._namespaces: set[str] = set()
        self._written = 0

    def begin(self, namespace: str) -> None:
        self._namespaces.add(namespace)

    def end(self, namespace: str) -> None:
        self._namespaces.discard(namespace)

    def wait(self) -> None:
        """Wait up to `LONGEST` s until no slice has changed for `QUIET` s. Return at once if nothing was written."""
        if not self._namespaces or self._api.writes == self._written:
            return
        last, since = "", time.monotonic()

        def is_stable(seen: str) -> bool:
            nonlocal last, since
            if seen != last:
                last, since = seen, time.monotonic()
            return time.monotonic() - since >= QUIET * time_scale()

        last_value(self._versions, is_stable, within=LONGEST, every=0.03, describe="slices without new writes")
        self._written = self._api.writes

    def _versions(self) -> str:
        found = [
            each["metadata"] for name in sorted(self._namespaces) for each in self._api.list("endpointslices", name)
        ]
        return " ".join(sorted(f"{each['uid']}:{each['resourceVersion']}" for each in found))
