"""The cluster's zone: the records for each name in DNS form, with TTLs, and the SOA record of the zone."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.SOA
import dns.rdtypes.ANY.TXT
import dns.rdtypes.IN.SRV
import dns.rrset

from reference.dns import messages
from reference.dns.index import ClusterIndex
from reference.dns.messages import Body
from reference.dns.names import Apex, Branch, SchemaVersion, Subject, subject
from reference.dns.records import Address, Alias, Found, Target, find
from reference.objects.topology_keys import Labels

SCHEMA_VERSION = b"1.1.0"  # of Kubernetes' DNS-Based Service Discovery
PRIORITY, WEIGHT = 0, 100

Find = Callable[..., Found | None]
RRsets = list[dns.rrset.RRset]


class _Records(NamedTuple):
    """The records for a name with additional records, or the addresses of the name itself in one family."""

    answers: RRsets
    further: Sequence[dns.rrset.RRset] = ()
    ips: Sequence[str] = ()


class Zone:
    """The records of a zone, computed from an index. `ttl` is in seconds and also applies to negative answers."""

    def __init__(self, index: ClusterIndex, name: str, ttl: int, find: Find = find) -> None:
        self.name = dns.name.from_text(name)
        self._index = index
        self._ttl = ttl
        self._find = find

    def subject(self, name: dns.name.Name) -> Subject | None:
        """Parse a name in the zone. The name is in lower case."""
        return subject([each.decode("latin-1") for each in name.relativize(self.name).labels])

    def body(self, name: dns.name.Name, kind: dns.rdatatype.RdataType, where: Labels | None) -> Body:
        """Return the answer to a question, for a client on a node with these labels (None: unknown)."""
        about = self.subject(name)
        kinds = (dns.rdatatype.A, dns.rdatatype.AAAA) if kind == dns.rdatatype.ANY else (kind,)  # RFC 8482, 4.1
        for each in kinds:
            found = self._records(name, each, about, where)
            if found is None:
                return messages.write(name, kind, [], rcode=dns.rcode.NXDOMAIN, authority=[self._soa()])
            if found.ips:
                return messages.write_addresses(found.ips, self._ttl)
            if found.answers:
                return messages.write(name, kind, found.answers, further=found.further)
        return messages.write(name, kind, [], authority=[self._soa()])

    def _records(
        self, name: dns.name.Name, kind: dns.rdatatype.RdataType, about: Subject | None, where: Labels | None
    ) -> _Records | None:
        """Return the records for a name; None if the name does not exist."""
        match about:
            case None:
                return None
            case Apex():
                return _Records([self._soa()] if kind == dns.rdatatype.SOA else [])
            case SchemaVersion():
                return _Records([self._schema_version(name)] if kind == dns.rdatatype.TXT else [])
            case Branch():
                return _Records([]) if self._index.has_namespace(about.namespace) else None
        namespace, service_name = (each.encode("latin-1") for each in about.key)
        service = self._index.service(about.key)
        found = None if service is None else self._find(about, dns.rdatatype.to_text(kind), service, where)
        if found is None:
            return None
        base = dns.name.Name((service_name, namespace, b"svc")).concatenate(self.name)
        ips = [each.ip for each in found.records if isinstance(each, Address)]
        return _Records(self._answers(name, base, found), self._further(base, found), ips)

    def _answers(self, name: dns.name.Name, base: dns.name.Name, found: Found) -> RRsets:
        targets = [each for each in found.records if isinstance(each, Target)]
        aliases = [each for each in found.records if isinstance(each, Alias)]
        made: RRsets = []
        if targets:
            made.append(dns.rrset.from_rdata_list(name, self._ttl, [_srv(each, base) for each in targets]))
        for each in aliases:
            target = dns.name.from_text(each.name)
            made.append(dns.rrset.from_rdata(name, self._ttl, _rdata(dns.rdtypes.ANY.CNAME.CNAME, target)))
        return made

    def _further(self, base: dns.name.Name, found: Found) -> RRsets:
        by_host: dict[str, list[str]] = {}
        for host, address in found.further:
            by_host.setdefault(host, []).append(address.ip)
        return [
            each for host, ips in by_host.items() for each in messages.addresses(_below(base, host), self._ttl, ips)
        ]

    def _soa(self) -> dns.rrset.RRset:
        """Return the SOA record. Its last number is the TTL of negative answers (RFC 2308, 5)."""
        server, mailbox = dns.name.from_text("ns.dns", self.name), dns.name.from_text("hostmaster", self.name)
        numbers: Sequence[int] = (1, 7200, 1800, 86400, self._ttl)
        return dns.rrset.from_rdata(self.name, self._ttl, _rdata(dns.rdtypes.ANY.SOA.SOA, server, mailbox, *numbers))

    def _schema_version(self, name: dns.name.Name) -> dns.rrset.RRset:
        return dns.rrset.from_rdata(name, self._ttl, _rdata(dns.rdtypes.ANY.TXT.TXT, [SCHEMA_VERSION]))


def _srv(target: Target, base: dns.name.Name) -> dns.rdata.Rdata:
    return _rdata(dns.rdtypes.IN.SRV.SRV, PRIORITY, WEIGHT, target.port, _below(base, target.host))


def _below(base: dns.name.Name, host: str) -> dns.name.Name:
    return dns.name.Name((host.encode("latin-1"),)).concatenate(base) if host else base


def _rdata(kind: type[dns.rdata.Rdata], *fields: object) -> dns.rdata.Rdata:
    number = dns.rdatatype.from_text(kind.__name__)
    return kind(dns.rdataclass.IN, number, *fields)
