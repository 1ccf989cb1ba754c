"""Names in the cluster's zone, parsed to the Service, port or endpoint that they refer to, whether or not it exists.

    web.shop.svc                  a Service, or all endpoints of a headless one
    _http._tcp.web.shop.svc       one of its ports
    a1.web.shop.svc               one endpoint of a headless Service, by its hostname or by its address with dashes

Source: Kubernetes, DNS-Based Service Discovery, version 1.1.0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reference.client import Key


@dataclass(frozen=True, slots=True)
class Apex:
    """The root of the zone."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The name `dns-version`, whose record contains the version of the specification."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A name without records of its own, but with names below it: `svc` (""), or a Kubernetes namespace."""

    namespace: str


@dataclass(frozen=True, slots=True)
class OfService:
    """A Service."""

    key: Key


@dataclass(frozen=True, slots=True)
class OfPort:
    """A named port of a Service. If `port` is "", all ports of a protocol."""

    key: Key
    port: str
    protocol: str


@dataclass(frozen=True, slots=True)
class OfEndpoint:
    """An endpoint of a headless Service."""

    key: Key
    hostname: str


Subject = Apex | SchemaVersion | Branch | OfService | OfPort | OfEndpoint


def subject(labels: Sequence[str]) -> Subject | None:
    """Parse a name, or return None if it cannot exist. `labels` are the DNS labels before the zone, in lower case."""
    found: Subject | None = None
    match tuple(labels):
        case ():
            found = Apex()
        case ("dns-version",):
            found = SchemaVersion()
        case ("svc",):
            found = Branch("")
        case (namespace, "svc"):
            found = Branch(namespace)
        case (name, namespace, "svc"):
            found = OfService((namespace, name))
        case (first, name, namespace, "svc") if first.startswith("_"):
            found = OfPort((namespace, name), "", first[1:])
        case (first, name, namespace, "svc"):
            found = OfEndpoint((namespace, name), first)
        case (port, protocol, name, namespace, "svc") if port.startswith("_") and protocol.startswith("_"):
            found = OfPort((namespace, name), port[1:], protocol[1:])
    return found
