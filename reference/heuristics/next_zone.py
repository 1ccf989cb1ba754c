"""An example heuristic: clients in a zone without endpoints go to one other zone, so you can plan its capacity."""

from collections.abc import Mapping, Sequence

from reference.heuristics.heuristic import Endpoint, Hints, Node


class PreferNextZone:
    """`trafficdist.dev/PreferNextZone`: use the client's own zone, or else the next zone that has endpoints."""

    def hints(self, endpoints: Sequence[Endpoint], nodes: Mapping[str, Node]) -> Mapping[Endpoint, Hints]:
        """Return the zone hints. If any endpoint has no zone, it gets no hints, and proxies ignore all hints."""
        serving = sorted({endpoint.zone for endpoint in endpoints} - {""})
        lent_to = {zone: [zone] for zone in serving}
        for zone in sorted({node.zone for node in nodes.values()} - {"", *serving}):
            if serving:
                lent_to[next((other for other in serving if other > zone), serving[0])].append(zone)
        return {endpoint: Hints(zones=lent_to[endpoint.zone]) for endpoint in endpoints if endpoint.zone}
