"""Finds the address to which a request for a pod is forwarded (rules of pkg/registry/core/pod), and connects to it."""

import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import aiohttp

from reference.apiserver import status
from reference.apiserver.listening_port import hang_up
from reference.apiserver.registry import Registry
from reference.client import ApiError, Object

OpenSocket = Callable[[int, int], socket.socket]
"""Creates a socket inside the cluster's network, given the address family and the socket type."""

_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/(proxy|log|exec)(/.*)?", re.DOTALL)
_SCHEMES = frozenset({"", "http", "https"})


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The parts of an API path to a pod. `identifier` is `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`."""

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
    """The address on which a server in a pod, or a kubelet, listens."""

    scheme: str
    address: str
    port: int

    @property
    def host(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def parse(path: str) -> PodRequest | None:
    """Return the pod and the subresource in an API path, or None for a path without `proxy`, `log` or `exec`."""
    found = _PATH.fullmatch(path) if "/pods/" in path else None
    if found is None:
        return None
    namespace, identifier, subresource, rest = found.groups("")
    return None if rest and subresource != "proxy" else PodRequest(namespace, identifier, subresource, rest)


def locate(registry: Registry, asked: PodRequest) -> Location:
    """Return the address for a request. Raises `ApiError`: 400 (no address), 404 (no such pod), 503 (unknown port)."""
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


def reason_of(error: Exception) -> str:
    """Return the reason for a failed connection, in the words of Go's error messages, or "" if it is unknown."""
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else ""


DIAL_SECONDS = 30.0  # as in kube-apiserver
NO_WAY = "this API server has no access to the pod network"


class Forwarder:
    """The base class of forwarders to pods and kubelets, in one event loop. `open_socket` may be set later."""

    def __init__(self, registry: Registry, open_socket: OpenSocket | None) -> None:
        self.open_socket = open_socket
        self._registry = registry
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await hang_up(self._sockets)

    def _connected(self, *, tls: ssl.SSLContext | bool, **options: Any) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, force_close=True, ssl=tls, socket_factory=self._socket)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=DIAL_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, **options)
        return self._session

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        assert self.open_socket is not None
        made = self.open_socket(address[0], address[1])
        made.setblocking(False)
        self._sockets.add(made)
        return made


def _allowed(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified)


def _first_port(pod: Object) -> str:
    every = ((pod.get("spec") or {}).get("containers")) or []
    numbers = (port.get("containerPort") for container in every for port in container.get("ports") or [])
    return str(next(numbers, ""))
