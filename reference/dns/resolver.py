"""Answers a packet from a client address with a packet. No socket, no thread, no clock.

Clients are grouped by their values of the node labels that some Service has as topology keys. Clients of one group get
the same answers, so each group has a cache of replies by query bytes; groups that differ by labels that a Service does
not use share its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reference.client import Event, Key
from reference.dns import messages
from reference.dns.index import ClusterIndex
from reference.dns.messages import Body, Query, Reply
from reference.dns.names import service_of
from reference.dns.records import find
from reference.dns.zone import Find, Zone
from reference.objects.topology_keys import Labels

if TYPE_CHECKING:
    import dns.name
    import dns.rdatatype

MOST = 100_000
"""The most clients, and the most replies, in the cache. Beyond that it is cleared."""

Group = tuple[str | None, ...] | None
"""Values of node labels, None for one that a node lacks; None for clients whose node is unknown."""
Shelf = dict[bytes | tuple[bytes], Reply]


class Resolver:
    """Answers queries for a zone from the events so far."""

    def __init__(
        self,
        index: ClusterIndex,
        *,
        zone: str = "cluster.local",
        ttl: int = 5,
        largest: int = 4096,
        find: Find = find,
    ) -> None:
        """`ttl` in seconds, for records and negative answers; `largest` is the largest UDP datagram."""
        self._index = index
        self._zone = Zone(index, zone, ttl, find)
        self._largest = largest
        self._keys: tuple[str, ...] = ()
        self._shelves: dict[Group, Shelf] = {}
        self._shelf_of: dict[str, Shelf] = {}  # by the address of a client
        self._bodies: dict[Key | None, dict[tuple[object, ...], Body]] = {}  # by the Service that they depend on
        self._replies = 0

    def apply(self, event: Event) -> None:
        """Read a change of the cluster; later answers include it."""
        changed = self._index.apply(event)
        if changed.keys:
            self._keys = self._index.label_keys
            self._shelf_of.clear()
            self._shelves.clear()
        for client in changed.clients:
            self._shelf_of.pop(client, None)
        for key in changed.services:
            for body in self._bodies.pop(key, {}).values():
                body.stale = True

    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        """Return the answer to a packet from a client's address; None if there is none."""
        shelf = self._shelf_of.get(client)
        if shelf is None:
            shelf = self._shelf(client)
        question = (packet[2:],) if over_tcp else packet[2:]
        reply = shelf.get(question)
        if reply is None or reply.body.stale:
            asked = messages.read(packet, largest=self._largest)
            if not isinstance(asked, Query):
                return asked
            reply = self._reply(asked, client, over_tcp=over_tcp)
            shelf[question] = reply
        return reply.wire(packet[:2])

    def _shelf(self, client: str) -> Shelf:
        if len(self._shelf_of) >= MOST:
            self._shelf_of.clear()
        labels = self._index.labels_at(client)
        group = _values(labels, self._keys)
        shelf = self._shelf_of[client] = self._shelves.setdefault(group, {})
        return shelf

    def _reply(self, query: Query, client: str, *, over_tcp: bool) -> Reply:
        """Make a new reply. Beyond `MOST` replies the cache is cleared."""
        self._replies += 1
        if self._replies > MOST:
            self._replies = 0
            self._bodies.clear()
            for each in self._shelves.values():
                each.clear()
        name = query.name.canonicalize()
        if not name.is_subdomain(self._zone.name):
            return messages.refuse(query)
        return messages.reply(query, self._body(name, query.type, self._index.labels_at(client)), over_tcp=over_tcp)

    def _body(self, name: dns.name.Name, kind: dns.rdatatype.RdataType, where: Labels | None) -> Body:
        key = service_of(self._zone.subject(name))
        service = self._index.service(key) if key is not None and key[1] else None
        values = None if service is None else _values(where, service.keys)
        bodies = self._bodies.setdefault(key, {})
        asked = (name, kind, values)
        if asked not in bodies:
            bodies[asked] = self._zone.body(name, kind, where)
        return bodies[asked]


def _values(labels: Labels | None, keys: Sequence[str]) -> Group:
    """Return the values that a node has for these keys."""
    if labels is None:
        return None
    own = dict(labels)
    return tuple(own.get(each) for each in keys)
