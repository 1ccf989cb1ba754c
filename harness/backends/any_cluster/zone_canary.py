"""Shows which zone a node's proxy uses after the node's zone label has changed.

The barrier shows that a proxy has processed Services and slices. A proxy watches Nodes separately, and may receive a
label later. So a canary Service has one endpoint with a hint for the label's zone, and one with hints for all other
zones. The endpoint that answers shows the zone. For a proxy that ignores hints, the canary does not wait. If the proxy
never uses the new zone, the scenario continues, because scenarios must detect a proxy that does not reread its Node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from harness.api.client import Api
from harness.backends.any_cluster.barrier import PORT, TIMEOUT, ProbeSender, word
from harness.backends.any_cluster.pods import ClientPod
from harness.errors import InconclusiveError
from harness.eventually import eventually
from harness.model import manifests
from harness.model.manifests import Endpoint, Hints, Port
from harness.model.outcomes import Reached
from harness.probes.loop import Probe

NAME = "zone-canary"
NOWHERE = "nowhere"
LOOKS = 12
"""Probes per check. A proxy that balances over two endpoints seems to use only one with a probability of 1/4,096."""
KNOWN = 10.0
"""Seconds, before the time scale, within which a proxy must use its node's initial zone."""

Named = tuple[str, Mapping[str, str]]
"""A pod's hostname, which is also its answer, and its addresses by family."""


class ZoneCanary:
    """One worker's canary Services, of which only one exists at a time. Their endpoints are two pods of the barrier."""

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
        """Determine once whether the proxy on this client's node follows hints, by means of the node's current zone."""
        if client not in self._follows:
            shown = len(endpoints) > 1 and self._wait_for_zone(client, zone, zones, endpoints, KNOWN)
            self._follows[client] = shown

    def wait(self, client: ClientPod, zone: str | None, zones: Sequence[str], endpoints: Sequence[Named]) -> bool:
        """Wait until the proxy on this client's node uses this zone, or no zone if None. Return whether it does."""
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
        """Create a Service with these endpoints, delete the previous Service, and return the new address.

        A change of the previous Service would be wrong: its old rules would answer until the proxy has processed the
        change. If answers came from both old and new rules, the proxy would seem to ignore hints.
        """
        before, name = f"{NAME}-{self._made}", f"{NAME}-{self._made + 1}"
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
