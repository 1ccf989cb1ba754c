"""Converts a query packet from a client address to an answer packet, without using sockets, threads or clocks."""

from reference.client import Event
from reference.dns import messages
from reference.dns.index import ClusterIndex
from reference.dns.messages import Query
from reference.dns.records import find
from reference.dns.zone import Find, Zone


class Resolver:
    """Answers queries for a zone from the events that it has received."""

    def __init__(
        self,
        index: ClusterIndex,
        *,
        zone: str = "cluster.local",
        ttl: int = 5,
        largest: int = 4096,
        find: Find = find,
    ) -> None:
        """`ttl` is in seconds and applies to records and negative answers. `largest` is the largest UDP datagram."""
        self._index = index
        self._zone = Zone(index, zone, ttl, find)
        self._largest = largest

    def apply(self, event: Event) -> None:
        """Read a change of the cluster; later answers include it."""
        self._index.apply(event)

    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        """Return the answer to a packet from this client address, or None if the packet gets no answer."""
        query = messages.read(packet, largest=self._largest)
        if not isinstance(query, Query):
            return query
        name = query.name.canonicalize()
        if not name.is_subdomain(self._zone.name):
            return packet[:2] + messages.refuse(query)
        body = self._zone.body(name, query.type, self._index.labels_at(client))
        return packet[:2] + messages.reply(query, body, over_tcp=over_tcp)
