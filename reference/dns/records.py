"""Parses names in the cluster's DNS zone, and finds the records for a name (Kubernetes, DNS-Based Service Discovery,
version 1.1.0). All functions are pure.

Records depend on the client in only one case: for a headless Service, its topology keys and the client's node select
the endpoints (KEP-536, DNS server changes). The name of a single endpoint has the same records for every client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from reference.client import Key
from reference.objects.topology_keys import Labels, first_match

Family = Literal["IPv4", "IPv6"]
FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")
_FAMILY_OF: Mapping[str, Family] = {"A": "IPv4", "AAAA": "IPv6"}


@dataclass(frozen=True, slots=True)
class Apex:
    """The name of the zone itself, such as `cluster.local`."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The name `dns-version`, whose TXT record contains the version of the specification."""


@dataclass(frozen=True, slots=True)
class ParentName:
    """A name that has no records, only names below it: `svc` (`namespace` is ""), or a Kubernetes namespace."""

    namespace: str


@dataclass(frozen=True, slots=True)
class ServiceName:
    """The name of a Service, for example `web.shop.svc`."""

    key: Key


@dataclass(frozen=True, slots=True)
class PortName:
    """The name of a port (`_http._tcp.web.shop.svc`), or of all ports of a protocol if `port` is ""."""

    key: Key
    port: str
    protocol: str


@dataclass(frozen=True, slots=True)
class EndpointName:
    """The name `a1.web.shop.svc` of a headless Service's endpoint. `a1` is its hostname, or its address with dashes."""

    key: Key
    hostname: str


Subject = Apex | SchemaVersion | ParentName | ServiceName | PortName | EndpointName


def subject(labels: Sequence[str]) -> Subject | None:
    """Parse a name, or return None if it cannot exist. `labels` are the DNS labels before the zone, in lower case."""
    found: Subject | None = None
    match tuple(labels):
        case ():
            found = Apex()
        case ("dns-version",):
            found = SchemaVersion()
        case ("svc",):
            found = ParentName("")
        case (namespace, "svc"):
            found = ParentName(namespace)
        case (name, namespace, "svc"):
            found = ServiceName((namespace, name))
        case (first, name, namespace, "svc") if first.startswith("_"):
            found = PortName((namespace, name), "", first[1:])
        case (first, name, namespace, "svc"):
            found = EndpointName((namespace, name), first)
        case (port, protocol, name, namespace, "svc") if port.startswith("_") and protocol.startswith("_"):
            found = PortName((namespace, name), port[1:], protocol[1:])
    return found


@dataclass(frozen=True, slots=True)
class Port:
    """A port: its name ("" for an unnamed port), its protocol in lower case, and its number."""

    name: str
    protocol: str
    number: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A ready endpoint of a headless Service, with the labels of its node (empty if unknown)."""

    address: str
    hostname: str
    ports: tuple[Port, ...]
    labels: Labels


@dataclass(frozen=True, slots=True)
class Service:
    """The DNS data of a Service: endpoints by IP family if it is headless, otherwise cluster IPs and ports."""

    headless: bool
    keys: tuple[str, ...]
    ports: tuple[Port, ...] = ()
    cluster_ips: Mapping[Family, str] | None = None
    endpoints: Mapping[Family, Sequence[Endpoint]] | None = None
    alias: str = ""
    """The target name of an ExternalName Service."""


@dataclass(frozen=True, slots=True)
class Address:
    """An A record or an AAAA record, depending on the family of the address."""

    ip: str


@dataclass(frozen=True, slots=True)
class Srv:
    """An SRV record. `host` is a label below the Service's name, or "" for the Service's name itself."""

    port: int
    host: str


@dataclass(frozen=True, slots=True)
class Cname:
    name: str


Record = Address | Srv | Cname


def select(service: Service, family: Family, client: Labels | None) -> Sequence[Endpoint]:
    """Return the endpoints of one IP family for a client whose node has the labels `client` (all endpoints if None)."""
    endpoints = (service.endpoints or {}).get(family, ())
    if not service.keys or client is None:
        return endpoints
    return first_match(service.keys, client, endpoints, lambda each: each.labels)[1]


@dataclass(frozen=True, slots=True)
class Records:
    """The records of the queried type for a name. `additional` contains pairs of an SRV target's host and address."""

    records: tuple[Record, ...] = ()
    additional: tuple[tuple[str, str], ...] = ()


NO_DATA = Records()


def find(
    about: ServiceName | PortName | EndpointName, wanted: str, service: Service, client: Labels | None
) -> Records | None:
    """Return the records of type `wanted` ("A", "AAAA", "SRV", …). Return None if the name does not exist."""
    if service.headless and not any((service.endpoints or {}).values()):
        return None  # as specified for Services without ready endpoints; not if only this client gets none
    if service.alias:
        return Records((Cname(service.alias),)) if isinstance(about, ServiceName) else None
    match about:
        case ServiceName():
            if wanted == "SRV":
                return _targets(service, "", "", client) or NO_DATA
            return Records(tuple(Address(each) for each in _addresses(service, wanted, client)))
        case PortName(_, port, protocol):
            found = _targets(service, port, protocol, client)
            return found if found is None or (port and wanted == "SRV") else NO_DATA
        case EndpointName(_, hostname):
            return _endpoint(service, hostname, wanted)


def _addresses(service: Service, wanted: str, client: Labels | None) -> list[str]:
    family = _FAMILY_OF.get(wanted)
    if family is None:
        return []
    if service.headless:
        return [each.address for each in select(service, family, client)]
    ip = (service.cluster_ips or {}).get(family)
    return [ip] if ip else []


def _targets(service: Service, port: str, protocol: str, client: Labels | None) -> Records | None:
    """Return the SRV records of all ports that match ("" matches any), or None if the Service has no such port."""
    of_endpoints = (each.ports for endpoints in (service.endpoints or {}).values() for each in endpoints)
    if not any(_fits(each, port, protocol) for ports in (service.ports, *of_endpoints) for each in ports):
        return None  # not if only this client gets no endpoint: the name then exists without records
    if not service.headless:
        here = tuple(Srv(each.number, "") for each in service.ports if _fits(each, port, protocol))
        return Records(here, tuple(("", each) for each in (service.cluster_ips or {}).values()))
    selected = [each for family in FAMILIES for each in select(service, family, client)]
    found = [(each, one) for each in selected for one in each.ports if _fits(one, port, protocol)]
    targets = dict.fromkeys(Srv(one.number, each.hostname) for each, one in found)
    return Records(tuple(targets), tuple(dict.fromkeys((each.hostname, each.address) for each, _ in found)))


def _fits(port: Port, name: str, protocol: str) -> bool:
    return name in {"", port.name} and protocol in {"", port.protocol}


def _endpoint(service: Service, hostname: str, wanted: str) -> Records | None:
    of_family = (service.endpoints or {}).items()
    found = [(family, each) for family, endpoints in of_family for each in endpoints if each.hostname == hostname]
    if not found:
        return None
    return Records(tuple(Address(each.address) for family, each in found if family == _FAMILY_OF.get(wanted)))
