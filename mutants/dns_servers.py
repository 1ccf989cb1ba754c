"""DNS servers with one fault each: in the locations of clients (KEP-536), in names, or in messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

import dns.edns
import dns.message
import dns.name

from mutants.mutant import WRITTEN, Mutant
from reference.client import Key, Object, key_of
from reference.dns import DnsServer
from reference.dns.authority import ZoneAuthority
from reference.dns.index import ClusterIndex
from reference.dns.objects import read_locator
from reference.dns.records import NO_DATA, Cname, PortName, Records, SchemaVersion, Service, Srv, Subject, find
from reference.features import Features
from reference.objects.topology_keys import ANY, Labels

ZONE = "topology.kubernetes.io/zone"
FORMERR, NXDOMAIN = 1, 3
_RCODE, _ANSWERS = 3, 7  # bytes of a message: the lower bits of its flags, and of the number of its answers

MUTANTS: list[Mutant] = []

Find = Callable[[Any, str, Service, Labels | None], Records | None]


def _dns(name: str, sentence: str, **options: Any) -> None:
    MUTANTS.append(Mutant(name, sentence, symptom=WRITTEN, dns=partial(DnsServer, **options)))


# Names and their records


def _finds(name: str, sentence: str) -> Callable[[Find], Find]:
    """Create a mutant that returns different records for the names of Services."""

    def register(wrong: Find) -> Find:
        _dns(name, sentence, authority=partial(ZoneAuthority, find=wrong))
        return wrong

    return register


@_finds("dns-knows-places-of-ipv4", "AAAA answers contain the endpoints of all nodes, whatever the topology keys.")
def _dns_knows_places_of_ipv4(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return find(about, kind, service, None if kind == "AAAA" else client)


@_finds("dns-has-ports-of-everywhere", "SRV answers contain the endpoints of all nodes, whatever the topology keys.")
def _dns_has_ports_of_everywhere(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return find(about, kind, service, None if kind == "SRV" else client)


@_finds("dns-keys-are-soft", "If the topology keys select no endpoint, clients get all endpoints.")
def _dns_keys_are_soft(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return find(about, kind, replace(service, keys=(*service.keys, ANY) if service.keys else ()), client)


@_finds("dns-looks-at-the-last-key", "The DNS server uses only the last topology key.")
def _dns_looks_at_the_last_key(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return find(about, kind, replace(service, keys=service.keys[-1:]), client)


@_finds("dns-unites-keys", "Clients get the endpoints that match any of the topology keys.")
def _dns_unites_keys(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    named = [key for key in service.keys if key != ANY]
    if len(named) < 2:
        return find(about, kind, service, client)
    met = [find(about, kind, replace(service, keys=(key,)), client) for key in named]
    records = tuple(dict.fromkeys(record for each in met if each is not None for record in each.records))
    return Records(records) if records else find(about, kind, service, client)


@_finds("dns-stops-at-a-missing-label", "Clients whose node lacks the label of a topology key get no endpoints.")
def _dns_stops_at_a_missing_label(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    own = {ANY, *dict(client or ())}
    known = tuple(takewhile(own.__contains__, service.keys))
    keys = service.keys if client is None or known == service.keys else (*known, "no-label")
    return find(about, kind, replace(service, keys=keys), client)


@_finds("dns-tells-clients-without-labels-of-all", "Clients on nodes without labels get all endpoints.")
def _dns_tells_clients_without_labels_of_all(
    about: Any, kind: str, service: Service, client: Labels | None
) -> Records | None:
    return find(about, kind, service, client or None)


@_finds("dns-star-is-a-label", "The DNS server treats the key * as a label that no node has.")
def _dns_star_is_a_label(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    keys = tuple("no-label" if key == ANY else key for key in service.keys)
    return find(about, kind, replace(service, keys=keys), client)


@_finds("dns-prefers-zones-unasked", "Services without topology keys prefer the client's zone.")
def _dns_prefers_zones_unasked(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return find(about, kind, replace(service, keys=service.keys or (ZONE, ANY)), client)


@_finds("dns-hides-from-unknown-clients", "Clients without a PodLocator get no endpoints.")
def _dns_hides_from_unknown_clients(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return NO_DATA if client is None else find(about, kind, service, client)


@_finds("dns-has-one-family", "Services have no AAAA records.")
def _dns_has_one_family(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return NO_DATA if kind == "AAAA" else find(about, kind, service, client)


@_finds(
    "dns-knows-services-without-endpoints", "The name of a headless Service without endpoints exists without records."
)
def _dns_knows_services_without_endpoints(
    about: Any, kind: str, service: Service, client: Labels | None
) -> Records | None:
    return find(about, kind, service, client) or (NO_DATA if service.headless and not service.endpoints else None)


@_finds("dns-has-no-ports", "Services have no SRV records.")
def _dns_has_no_ports(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return None if kind == "SRV" else find(about, kind, service, client)


@_finds("dns-has-the-first-port-only", "Only the first port of a Service has SRV records.")
def _dns_has_the_first_port_only(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    return find(about, kind, replace(service, ports=service.ports[:1]), client)


@_finds("dns-names-ports-by-their-numbers", "An unnamed port has SRV records under its number.")
def _dns_names_ports_by_their_numbers(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    found = find(about, kind, service, client)
    if found is not None or kind != "SRV" or not isinstance(about, PortName):
        return found
    numbers = {str(each.number): each for each in service.ports if not each.name}
    return Records((Srv(numbers[about.port].number, ""),)) if about.port in numbers else None


@_finds("dns-resolves-no-aliases", "The name of an ExternalName Service has no records.")
def _dns_resolves_no_aliases(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    found = find(about, kind, service, client)
    return NO_DATA if found is not None and any(isinstance(each, Cname) for each in found.records) else found


def _for_ipv6(wrong: Find) -> Find:
    """Return a function that finds wrong AAAA records, and correct records of other types."""

    def found(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
        return (wrong if kind == "AAAA" else find)(about, kind, service, client)

    return found


_finds(
    "dns-keys-are-soft-for-ipv6", "If the topology keys select no IPv6 endpoint, AAAA answers contain all endpoints."
)(_for_ipv6(_dns_keys_are_soft))
_finds(
    "dns-star-is-a-label-for-ipv6", "For AAAA queries, the DNS server treats the key * as a label that no node has."
)(_for_ipv6(_dns_star_is_a_label))
_finds("dns-hides-ipv6-from-unknown-clients", "Clients without a PodLocator get no AAAA records.")(
    _for_ipv6(_dns_hides_from_unknown_clients)
)


# Objects of the cluster


def authority_with_index(wrong: type[ClusterIndex]) -> Callable[..., ZoneAuthority]:
    """Return a function that creates a `ZoneAuthority` with an index of this class."""

    def authority(_: ClusterIndex, **options: Any) -> ZoneAuthority:
        return ZoneAuthority(wrong(), **options)

    return authority


def _knows(name: str, sentence: str) -> Callable[[type[ClusterIndex]], type[ClusterIndex]]:
    """Create a mutant that misreads the objects of the cluster."""

    def register(wrong: type[ClusterIndex]) -> type[ClusterIndex]:
        _dns(name, sentence, authority=authority_with_index(wrong))
        return wrong

    return register


@_knows("dns-reads-keys-once", "Topology keys are read only when a Service is created.")
class _DnsReadsKeysOnce(ClusterIndex):
    def __init__(self) -> None:
        super().__init__()
        self._first: dict[str, tuple[str, ...]] = {}

    def _topology_keys(self, service: Object) -> tuple[str, ...]:
        return self._first.setdefault(service["metadata"]["uid"], super()._topology_keys(service))


@_knows("dns-knows-places-once", "The DNS server never updates the first location of a pod.")
class _DnsReadsLocationsOnce(ClusterIndex):
    def __init__(self) -> None:
        super().__init__()
        self._first: dict[str, Labels] = {}

    def labels_at(self, address: str) -> Labels | None:
        labels = super().labels_at(address)
        return None if labels is None else self._first.setdefault(address, labels)

    def _labels_of(self, pod: Key | None, address: str) -> Labels | None:
        return self.labels_at(address)


@_knows("dns-knows-clients-by-one-address", "A client is known only by the first address in its PodLocator.")
class _DnsKnowsClientsByOneAddress(ClusterIndex):
    def _take_locator(self, obj: Object, gone: bool) -> None:
        super()._take_locator({**obj, "ips": (obj.get("ips") or [])[:1]}, gone)


@_knows("dns-keeps-the-first-addresses", "The addresses in a PodLocator never change once it has any.")
class _DnsKeepsTheFirstAddresses(ClusterIndex):
    def _take_locator(self, obj: Object, gone: bool) -> None:
        known = self._locators.get(key_of(obj), ((), None))[0]
        super()._take_locator({**obj, "ips": [{"ip": each} for each in known]} if known else obj, gone)


@_knows("dns-misses-a-second-address", "The DNS server ignores an address that a PodLocator gets after the first.")
class _DnsMissesASecondAddress(ClusterIndex):
    def _take_locator(self, obj: Object, gone: bool) -> None:
        known = self._locators.get(key_of(obj), ((), None))[0]
        later = known and {*known} < {*read_locator(obj)[0]}
        super()._take_locator({**obj, "ips": [{"ip": each} for each in known]} if later else obj, gone)


@_knows("dns-knows-endpoints-once", "The DNS server ignores changes to the endpoints in an existing slice.")
class _DnsReadsEndpointsOnce(ClusterIndex):
    def _take_slice(self, obj: Object, gone: bool) -> None:
        if gone or key_of(obj) not in self._owner:
            super()._take_slice(obj, gone)


def _with_endpoints(obj: Object, change: Callable[[Object], Object]) -> Object:
    return {**obj, "endpoints": [change(each) for each in obj.get("endpoints") or []]}


@_knows("dns-tells-of-unready-endpoints", "Answers contain unready endpoints.")
class _DnsReturnsUnreadyEndpoints(ClusterIndex):
    def _take_slice(self, obj: Object, gone: bool) -> None:
        super()._take_slice(_with_endpoints(obj, lambda each: {**each, "conditions": {}}), gone)


@_knows("dns-forgets-hostnames", "The DNS server ignores the hostnames of endpoints.")
class _DnsIgnoresHostnames(ClusterIndex):
    def _take_slice(self, obj: Object, gone: bool) -> None:
        super()._take_slice(_with_endpoints(obj, lambda each: {**each, "hostname": ""}), gone)


# Messages


def _answers(name: str, sentence: str) -> Callable[[type[ZoneAuthority]], type[ZoneAuthority]]:
    """Create a mutant that answers with wrong DNS messages."""

    def register(wrong: type[ZoneAuthority]) -> type[ZoneAuthority]:
        _dns(name, sentence, authority=wrong)
        return wrong

    return register


@_answers("dns-knows-every-name", "Queries for names that do not exist get an empty answer instead of NXDOMAIN.")
class _DnsNeverReturnsNxdomain(ZoneAuthority):
    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        return _with_rcode(super().answer(packet, client, over_tcp=over_tcp), NXDOMAIN, 0)


@_answers("dns-denies-names-without-records", "Queries for an absent record type of an existing name get NXDOMAIN.")
class _DnsReturnsNxdomainWithoutRecords(ZoneAuthority):
    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        answer = super().answer(packet, client, over_tcp=over_tcp)
        return _with_rcode(answer, 0, NXDOMAIN) if answer and not answer[_ANSWERS] else answer


def _with_rcode(answer: bytes | None, old: int, new: int) -> bytes | None:
    if answer is None or answer[_RCODE] & 0xF != old:
        return answer
    return answer[:_RCODE] + bytes([answer[_RCODE] & 0xF0 | new]) + answer[_RCODE + 1 :]


@_answers("dns-never-cuts", "UDP answers are never truncated.")
class _DnsNeverTruncates(ZoneAuthority):
    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        return super().answer(packet, client, over_tcp=True)


@_answers("dns-never-cuts-over-ipv6", "UDP answers over IPv6 are never truncated.")
class _DnsNeverTruncatesOverIpv6(ZoneAuthority):
    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        return super().answer(packet, client, over_tcp=over_tcp or ":" in client)


@_answers("dns-cuts-over-tcp", "TCP answers are truncated like UDP answers.")
class _DnsTruncatesOverTcp(ZoneAuthority):
    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        return super().answer(packet, client)


@_answers("dns-mistakes-the-case-of-names", "The DNS server reports that names with upper-case letters do not exist.")
class _DnsIsCaseSensitive(ZoneAuthority):
    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        answer = super().answer(packet, client, over_tcp=over_tcp)
        name = packet[12:].partition(b"\0")[0]
        return answer if name == name.lower() else _with_rcode(answer, 0, NXDOMAIN)


@_answers("dns-fails-at-cookies", "The DNS server rejects queries with an EDNS cookie, which dig sends, as malformed.")
class _DnsRejectsCookies(ZoneAuthority):
    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        answer = super().answer(packet, client, over_tcp=over_tcp)
        cookie = any(each.otype == dns.edns.OptionType.COOKIE for each in dns.message.from_wire(packet).options)
        return _with_rcode(answer, 0, FORMERR) if cookie else answer


_dns("dns-ignores-topology-keys", "Clients get all endpoints, whatever the topology keys.", features=Features())
_dns("dns-is-kept-for-a-day", "Records have a TTL of one day.", ttl=86400)


@_answers("dns-tells-no-version", "The DNS server has no record for the schema version.")
class _DnsLacksSchemaVersion(ZoneAuthority):
    def _subject(self, name: dns.name.Name) -> Subject | None:
        found = super()._subject(name)
        return None if isinstance(found, SchemaVersion) else found
