"""An example: a zone without endpoints uses those of one other zone, instead of those of all zones.

With PreferSameZone the clients of such a zone use every endpoint of the Service. Here they use the next zone in the
order of names, wrapping around: one zone, known beforehand, whose endpoints can be sized for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reference.heuristics.heuristic import Endpoint, Hints, Node


class PreferNextZone:
    """`trafficdist.dev/PreferNextZone`: own zone first, or else the next zone that has endpoints."""

    def hints(self, endpoints: Sequence[Endpoint], nodes: Mapping[str, Node]) -> Mapping[Endpoint, Hints]:
        """Endpoints with unknown zone get no hints, so that proxies ignore all hints and keep every endpoint."""
        serving = sorted({endpoint.zone for endpoint in endpoints} - {""})
        lent_to = {zone: [zone] for zone in serving}
        for zone in sorted({node.zone for node in nodes.values()} - {"", *serving}):
            if serving:
                lent_to[next((other for other in serving if other > zone), serving[0])].append(zone)
        return {endpoint: Hints(zones=lent_to[endpoint.zone]) for endpoint in endpoints if endpoint.zone}
