"""Turns the packet of a DNS query into the packet of its answer, without sockets, threads or clocks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.SOA
import dns.rdtypes.ANY.TXT
import dns.rdtypes.IN.SRV
import dns.rrset

from reference.client import Event
from reference.dns import messages
from reference.dns.index import ClusterIndex
from reference.dns.messages import AnswerBody, Query, rdata
from reference.dns.records import Address, Apex, Cname, ParentName, Records, SchemaVersion, Srv, Subject, find, subject
from reference.objects.topology_keys import Labels

SCHEMA_VERSION = b"1.1.0"  # the version of the specification Kubernetes DNS-Based Service Discovery
PRIORITY, WEIGHT = 0, 100

Find = Callable[..., Records | None]
RRsets = list[dns.rrset.RRset]


class _AnswerRecords(NamedTuple):
    """The records for a name. `ips` contains the addresses of A or AAAA records, `answers` all other records."""

    answers: RRsets
    additional: Sequence[dns.rrset.RRset] = ()
    ips: Sequence[str] = ()


class ZoneAuthority:
    """Answers DNS queries authoritatively for one zone, from the cluster state that it has received as events."""

    def __init__(
        self,
        index: ClusterIndex,
        *,
        zone: str = "cluster.local",
        ttl: int = 5,
        largest: int = 4096,
        find: Find = find,
    ) -> None:
        """`ttl` is in seconds, for records and negative answers. `largest` limits the size of UDP messages in bytes."""
        self._index = index
        self._zone = dns.name.from_text(zone)
        self._ttl = ttl
        self._largest = largest
        self._find = find

    def apply(self, event: Event) -> None:
        self._index.apply(event)

    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        """Return the answer to a packet from this client address, or None if the packet gets no answer."""
        query = messages.read(packet, largest=self._largest)
        if not isinstance(query, Query):
            return query
        name = query.name.canonicalize()
        if not name.is_subdomain(self._zone):
            return packet[:2] + messages.refuse(query)
        body = self._body(name, query.type, self._index.labels_at(client))
        return packet[:2] + messages.reply(query, body, over_tcp=over_tcp)

    def _subject(self, name: dns.name.Name) -> Subject | None:
        """Parse a name in the zone. The name must be in lower case."""
        return subject([each.decode("latin-1") for each in name.relativize(self._zone).labels])

    def _body(self, name: dns.name.Name, kind: dns.rdatatype.RdataType, where: Labels | None) -> AnswerBody:
        """`where` contains the labels of the client's node, or is None if they are unknown."""
        about = self._subject(name)
        kinds = (dns.rdatatype.A, dns.rdatatype.AAAA) if kind == dns.rdatatype.ANY else (kind,)  # RFC 8482, 4.1
        for each in kinds:
            found = self._records(name, each, about, where)
            if found is None:
                return messages.write(name, kind, [], rcode=dns.rcode.NXDOMAIN, authority=[self._soa()])
            if found.ips:
                return messages.write_addresses(found.ips, self._ttl)
            if found.answers:
                return messages.write(name, kind, found.answers, additional=found.additional)
        return messages.write(name, kind, [], authority=[self._soa()])

    def _records(
        self, name: dns.name.Name, kind: dns.rdatatype.RdataType, about: Subject | None, where: Labels | None
    ) -> _AnswerRecords | None:
        match about:
            case None:
                return None
            case Apex():
                return _AnswerRecords([self._soa()] if kind == dns.rdatatype.SOA else [])
            case SchemaVersion():
                record = dns.rrset.from_rdata(name, self._ttl, rdata(dns.rdtypes.ANY.TXT.TXT, [SCHEMA_VERSION]))
                return _AnswerRecords([record] if kind == dns.rdatatype.TXT else [])
            case ParentName():
                return _AnswerRecords([]) if self._index.has_namespace(about.namespace) else None
        namespace, service_name = (each.encode("latin-1") for each in about.key)
        service = self._index.service(about.key)
        found = None if service is None else self._find(about, dns.rdatatype.to_text(kind), service, where)
        if found is None:
            return None
        base = dns.name.Name((service_name, namespace, b"svc")).concatenate(self._zone)
        ips = [each.ip for each in found.records if isinstance(each, Address)]
        return _AnswerRecords(self._answers(name, base, found), self._additional(base, found), ips)

    def _answers(self, name: dns.name.Name, base: dns.name.Name, found: Records) -> RRsets:
        made: list[dns.rdata.Rdata] = []
        for each in found.records:
            if isinstance(each, Srv):
                host = _below(base, each.host)
                made.append(rdata(dns.rdtypes.IN.SRV.SRV, PRIORITY, WEIGHT, each.port, host))
            elif isinstance(each, Cname):
                made.append(rdata(dns.rdtypes.ANY.CNAME.CNAME, dns.name.from_text(each.name)))
        return [dns.rrset.from_rdata_list(name, self._ttl, made)] if made else []

    def _additional(self, base: dns.name.Name, found: Records) -> RRsets:
        by_host: dict[str, list[str]] = {}
        for host, ip in found.additional:
            by_host.setdefault(host, []).append(ip)
        hosts = ((_below(base, host), ips) for host, ips in by_host.items())
        return [each for name, ips in hosts for each in messages.addresses(name, self._ttl, ips)]

    def _soa(self) -> dns.rrset.RRset:
        """The last field of the SOA record is the TTL of negative answers (RFC 2308, 5)."""
        server, mailbox = dns.name.from_text("ns.dns", self._zone), dns.name.from_text("hostmaster", self._zone)
        numbers: Sequence[int] = (1, 7200, 1800, 86400, self._ttl)
        return dns.rrset.from_rdata(self._zone, self._ttl, rdata(dns.rdtypes.ANY.SOA.SOA, server, mailbox, *numbers))


def _below(base: dns.name.Name, host: str) -> dns.name.Name:
    return dns.name.Name((host.encode("latin-1"),)).concatenate(base) if host else base
