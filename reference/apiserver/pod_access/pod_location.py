"""The pod that a request is forwarded to, and its address for the subresource `proxy`.

Pods are in a different network from the API server, so the caller passes a function that creates sockets in that
network. Rules and error messages are the same as in Kubernetes' registry of pods.
"""

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

from reference.apiserver import status
from reference.apiserver.registry import Registry
from reference.client import ApiError, Object

OpenSocket = Callable[[int, int], socket.socket]
"""Creates a socket of a family and a type inside the cluster's network."""

_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/(proxy|log|exec|portforward)(/.*)?", re.DOTALL)
_SCHEMES = frozenset({"", "http", "https"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pod in a path, with its identifier (`NAME`, `NAME:PORT`, `SCHEME:NAME:PORT`) and the path inside the pod."""

    namespace: str
    identifier: str
    subresource: str
    path: str

    def split(self) -> tuple[str, str, str]:
        """Return the scheme, name and port. Raises `ApiError` (400)."""
        parts = self.identifier.split(":")
        scheme, name, port = parts if len(parts) == 3 else ("", *parts, "")[:3]
        if len(parts) > 3 or not name or scheme not in _SCHEMES:
            raise status.bad_request(f'invalid pod request "{self.identifier}"')
        return scheme or "http", name, port


@dataclass(frozen=True, slots=True)
class Location:
    scheme: str
    address: str
    port: int

    @property
    def host(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def wanted(path: str) -> Wanted | None:
    """Return the pod and path in an API path, or None if the path does not name a pod."""
    found = _PATH.fullmatch(path) if "/pods/" in path else None
    if found is None:
        return None
    namespace, identifier, subresource, rest = found.groups("")
    return None if rest and subresource != "proxy" else Wanted(namespace, identifier, subresource, rest)


def locate(registry: Registry, asked: Wanted) -> Location:
    """Return the address to connect to. Raises `ApiError`: 404 if the pod does not exist, 400 if it has no address."""
    scheme, name, port = asked.split()
    pod = registry.get("pods", asked.namespace, name).object
    address = (pod.get("status") or {}).get("podIP") or ""
    if not _allowed(address):
        raise status.bad_request("address not allowed")
    chosen = port or _first_port(pod) or ("443" if scheme == "https" else "80")
    if not chosen.isdecimal() or not 0 < int(chosen) <= 65535:
        raise unreached(f"dial tcp: lookup tcp/{chosen}: unknown port")
    return Location(scheme, address, int(chosen))


def unreached(why: str) -> ApiError:
    """Return the 503 error for a pod that exists but could not be reached."""
    return status.failure(503, "ServiceUnavailable", f"error trying to reach service: {why}")


DIAL_SECONDS = 30.0  # as kube-apiserver


NO_WAY = "this API server has no access to the pod network"


def _allowed(address: str) -> bool:
    """Return whether a pod may have this address. Addresses of the API server's own machine are not allowed."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified)


def _first_port(pod: Object) -> str:
    every = ((pod.get("spec") or {}).get("containers")) or []
    numbers = (port.get("containerPort") for container in every for port in container.get("ports") or [])
    return str(next(numbers, ""))
