"""DNS resolvers of programs in a pod. Each resolver parses the pod's resolv.conf with different code.

The C library sends A and AAAA queries in parallel, from one socket and without EDNS. dnspython sends the queries one
after the other, with EDNS and a cookie. So does dig, if it is installed.
"""

import io
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dns.edns
import dns.exception
import dns.flags
import dns.resolver

from harness.backends.protocols import Sockets
from harness.netns.process import run
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import PATIENCE, PAYLOAD, DnsClient, resolv_conf

_NSSWITCH = "/etc/nsswitch.conf"
_GETADDRINFO = "import socket, sys; [print(each[4][0]) for each in socket.getaddrinfo(sys.argv[1], 80)]"


@dataclass(frozen=True, slots=True)
class Resolver:
    """One resolver. `resolve` returns a name's sorted addresses, as resolved in a client's netns."""

    name: str
    resolve: Callable[[Cluster, DnsClient, str], list[str]]


def resolvers() -> list[Resolver]:
    """Return the resolvers that are installed on this machine."""
    everywhere = [Resolver("the C library", _c_library), Resolver("dnspython", _dnspython)]
    return everywhere + ([Resolver("dig", _dig)] if shutil.which("dig") else [])


def _c_library(cluster: Cluster, client: DnsClient, name: str) -> list[str]:
    return _program(cluster, client, sys.executable, "-I", "-S", "-c", _GETADDRINFO, name)


def _dig(cluster: Cluster, client: DnsClient, name: str) -> list[str]:
    return _program(cluster, client, "dig", "+short", "+search", name, "A", name, "AAAA")


def _program(cluster: Cluster, client: DnsClient, *command: str) -> list[str]:
    files = {"/etc/resolv.conf": resolv_conf(cluster)}
    if Path(_NSSWITCH).exists():  # without it, the C library uses DNS
        files[_NSSWITCH] = "hosts: dns\n"
    try:
        output = run(cluster.backend.part(Sockets).namespace_of(client), command, files=files).stdout
    except subprocess.TimeoutExpired:  # the C library repeats unanswered queries
        return []
    return sorted(set(output.split()))


def _dnspython(cluster: Cluster, client: DnsClient, name: str) -> list[str]:
    resolver = dns.resolver.Resolver(io.StringIO(resolv_conf(cluster)))
    resolver.use_edns(0, payload=PAYLOAD, options=[dns.edns.CookieOption(secrets.token_bytes(8), b"")])
    resolver.flags = dns.flags.RD | dns.flags.AD
    found: set[str] = set()
    with cluster.backend.part(Sockets).namespace_of(client).entered():
        for kind in ("A", "AAAA"):
            try:
                answer = resolver.resolve(name, kind, search=True, raise_on_no_answer=False, lifetime=PATIENCE)
            except (OSError, dns.exception.DNSException):
                continue
            found.update(record.to_text() for record in answer)
    return sorted(found)
