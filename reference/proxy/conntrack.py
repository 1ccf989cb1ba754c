"""Deletes conntrack entries that would send UDP packets to a wrong endpoint.

The rules see only the first packet of a connection, and a UDP connection has no visible end. If a client keeps sending,
its packets go to the old endpoint even after the endpoint has left the Service. If a client's first packet arrived
before the rules were loaded, its packets are never translated. TCP needs no deletions, because a new SYN replaces the
entry of a closed connection.

Linux 6.8 and newer can delete entries that match a filter. A deletion takes 0.5 ms, or 10 ms with 50,000 connections in
all network namespaces, which share one table and block each other. On older kernels, and for many deletions, this
module dumps and searches the table. A dump takes 16 ms even for an empty table, because the kernel locks 262,144
buckets. So `KernelWriter` requests deletions only for tags in the set `tags`.
"""

import errno
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from reference.proxy import uapi
from reference.proxy.decision import Family
from reference.proxy.expressions import NFPROTO
from reference.proxy.flows import ONLY_UDP, Flow, end, matching, read_flow, untranslated
from reference.proxy.netlink import KernelError, NetlinkSocket, attributes, nested
from reference.proxy.ruleset import Endpoint, ServiceAddress, StaleUdp

MOST_FILTERS = 3
"""With this number of deletions or more, a dump takes no more CPU time than filters (Linux 6.18). Deletions by filter
wait for each other across all network namespaces, but dumps do not.
"""

MOST_SPARING_FILTERS = 24
"""The limit that replaces MOST_FILTERS if connections that await a reply are kept. Only a filter reliably keeps them,
because it checks and deletes atomically. After a dump, a client may send a packet before the deletions.
"""

MOST_AT_ONCE = 5_000
"""The number of entries above which one UDP dump per IP family is faster than one dump of all protocols."""

Allowed = Mapping[ServiceAddress, Iterable[Endpoint] | None]
Endpoints = Callable[[ServiceAddress], frozenset[Endpoint] | None]


class Conntrack(NetlinkSocket):
    """A netlink socket to conntrack (ctnetlink). Its methods raise `KernelError`."""

    def __init__(self) -> None:
        super().__init__(uapi.NFNL_SUBSYS_CTNETLINK)
        self._can_filter = True

    def forget(self, family: Family, stale: Sequence[StaleUdp], endpoints: Endpoints, *, awaited: bool = True) -> None:
        """Delete the connections `stale`. Without `awaited`, connections that may still await a reply are kept.

        `endpoints` returns the current endpoints of a service (None if removed), whose connections are kept.
        """
        if not stale or not self.entries():
            return
        now = {service: endpoints(service) for service in {each.service for each in stale}}
        stale = [  # without connections whose endpoint is part of the Service again
            each
            for each in stale
            if (now[each.service] is not None if each.untranslated else each.endpoint not in (now[each.service] or ()))
        ]
        by_filter = family == "IPv4" or not any(each.untranslated for each in stale)
        if self._can_filter and by_filter and len(stale) < (MOST_FILTERS if awaited else MOST_SPARING_FILTERS):
            try:
                for each in stale:
                    named = untranslated(each.service) if each.untranslated else None
                    self._request(uapi.IPCTNL_MSG_CT_DELETE, family, named or matching(family, each, awaited=awaited))
            except KernelError as error:
                if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT}:
                    raise
                self._can_filter = False  # before Linux 6.8, a deletion needs the whole tuple
            else:
                return
        wrong = {(_sent(family, each.service), end(family, *each.endpoint)) for each in stale}
        for _, flow in list(self.flows([family]) if wrong else ()):
            if (flow.sent, flow.answered) in wrong and (awaited or not flow.awaited):
                self._delete(family, flow)

    def forget_all_but(self, allowed: Mapping[Family, Allowed]) -> list[tuple[Family, Flow]]:
        """Delete the UDP connections whose endpoint is not among the endpoints of their service in `allowed`.

        Return the remaining connections to services in `allowed`. A removed service has the value None.
        """
        packed: dict[bytes, frozenset[bytes]] = {}
        for family, services in allowed.items():
            for service, endpoints in services.items():
                sent = _sent(family, service)  # connections to a deleted address may be untranslated
                ends = [sent] if endpoints is None else [end(family, *each) for each in endpoints]
                packed[sent] = frozenset(ends)
        stay: list[tuple[Family, Flow]] = []
        for family, flow in list(self.flows(list(allowed))):
            # A connection with a tag had a Service, which may have been deleted while no proxy was running.
            expected = packed.get(flow.sent, () if flow.tag else None)
            if expected is None:
                continue
            if flow.answered in expected:
                stay.append((family, flow))
            else:
                self._delete(family, flow)
        return stay

    def entries(self) -> int:
        """Return the number of connections, of all protocols."""
        for body in self._ask(uapi.IPCTNL_MSG_CT_GET_STATS, 0, None, b""):
            return int.from_bytes(dict(attributes(body[4:]))[uapi.CTA_STATS_GLOBAL_ENTRIES], "big")
        return 1

    def flows(self, families: Sequence[Family]) -> Iterator[tuple[Family, Flow]]:
        """Yield all UDP connections. A small table is read in one dump, because empty buckets take most of the time."""
        entries = self.entries()
        if not entries:
            return
        at_once = len(families) > 1 and entries < MOST_AT_ONCE
        for asked in (None,) if at_once else families:
            for body in self._ask(uapi.IPCTNL_MSG_CT_GET, uapi.NLM_F_DUMP, asked, b"" if asked is None else ONLY_UDP):
                family: Family = "IPv4" if body[0] == NFPROTO["IPv4"] else "IPv6"
                flow = read_flow(family, bytes(body))
                if flow is not None:  # an unfiltered dump, or a kernel before 5.8, contains other protocols
                    yield family, flow

    def _delete(self, family: Family, flow: Flow) -> None:
        try:
            self._request(uapi.IPCTNL_MSG_CT_DELETE, family, nested(uapi.CTA_TUPLE_ORIG, flow.key))
        except KernelError as error:
            if error.errno != errno.ENOENT:  # the connection has already ended
                raise

    def _request(self, kind: int, family: Family, body: bytes) -> None:
        for _ in self._ask(kind, uapi.NLM_F_ACK, family, body):
            pass

    def _ask(self, kind: int, flags: int, family: Family | None, body: bytes) -> Iterator[memoryview]:
        """Send one request in version 1 of ctnetlink, in which a deletion affects only the IP family `family`."""
        protocol = NFPROTO[family] if family else socket.AF_UNSPEC
        return self.request(kind, flags, struct.pack(">BBH", protocol, 1, 0) + body)


def _sent(family: Family, service: ServiceAddress) -> bytes:
    return end(family, service.address, service.port)
