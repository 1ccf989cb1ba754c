"""Deletes connection tracking entries that would send UDP to the wrong place.

The kernel asks the rules about the first packet of a connection only, and UDP has no end that it could see: a client
that goes on sending stays with its endpoint, long after that one has left the Service, and one whose first packet came
before the rules is never translated. TCP needs no help: a new SYN replaces an entry that is past its end.

Entries are found by a dump, which the kernel filters where it can (5.8 and newer; older ones ignore the filter), and
checked again here.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from reference.proxy.decision import Family
from reference.proxy.expressions import NFPROTO
from reference.proxy.netlink import (
    NETLINK_NETFILTER,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    KernelError,
    answers,
    attribute,
    attributes,
    nested,
    pack,
)
from reference.proxy.ruleset import Backend, Frontend

_CONNTRACK = 1
_GET, _DELETE = 1, 2
_ACK, _DUMP = 0x4, 0x300
_ORIGINAL, _REPLY, _FILTER = 1, 2, 25
_FILTER_ADDRESS, _FILTER_PROTOCOL, _FILTER_PORT = 1 << 1, 1 << 3, 1 << 5
_UDP = 17

_FEW = 4
"""Up to that many frontends are asked for one by one; for more, all UDP entries are looked at once."""

Backends = Callable[[Frontend], frozenset[Backend] | None]


class Entry(NamedTuple):
    """One UDP connection: where it was sent, where it goes, and what names it to the kernel."""

    frontend: Frontend
    backend: Backend
    tuple: bytes


class Conntrack:
    """One netlink socket to connection tracking, in the netns of the thread that makes it; usable from any thread."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._sequence = 0

    def delete_stale(self, family: Family, frontends: Sequence[Frontend], backends: Backends) -> int:
        """Delete UDP entries to these frontends that go where nothing sends them now; how many.

        `backends` says where a frontend sends now. Entries that were never translated go too, if it is a frontend: what
        comes next is then forwarded, or refused. Raises `KernelError`.
        """
        filters = [_filter(family, each) for each in frontends] if len(frontends) <= _FEW else [_filter(family, None)]
        allowed = {each: backends(each) for each in frontends}
        stale = [
            entry
            for each in filters
            for entry in self._entries(family, each)
            if entry.frontend in allowed and _is_stale(entry, allowed[entry.frontend])
        ]
        return sum(self._delete(family, entry) for entry in stale)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _entries(self, family: Family, wanted: bytes) -> Iterator[Entry]:
        for body in self._ask(_GET, _DUMP, struct.pack(">BBH", NFPROTO[family], 0, 0) + wanted):
            entry = _read(body[4:])
            if entry is not None:
                yield entry

    def _delete(self, family: Family, entry: Entry) -> bool:
        """Whether it was still there."""
        body = struct.pack(">BBH", NFPROTO[family], 0, 0) + nested(_ORIGINAL, entry.tuple)
        try:
            list(self._ask(_DELETE, _ACK, body))
        except KernelError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def _ask(self, kind: int, flags: int, body: bytes) -> Iterator[memoryview]:
        """Send one request; the bodies of its answers."""
        self._sequence += 1
        self._socket.send(pack(_CONNTRACK << 8 | kind, NLM_F_REQUEST | flags, self._sequence, body))
        while True:
            for answer, sequence, content in answers(memoryview(self._socket.recv(256 << 10))):
                if sequence != self._sequence:
                    continue
                if answer == NLMSG_DONE:
                    return
                if answer == NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", content)
                    if code:
                        raise KernelError("conntrack entry", -code)
                    return
                yield content


def _is_stale(entry: Entry, allowed: frozenset[Backend] | None) -> bool:
    if entry.backend == entry.frontend[::2]:  # never translated
        return allowed is not None
    return entry.backend not in (allowed or ())


def _filter(family: Family, frontend: Frontend | None) -> bytes:
    """Ask for UDP entries only, and for those to one frontend."""
    flags, address, port = _FILTER_PROTOCOL, b"", b""
    if frontend is not None:
        flags |= _FILTER_ADDRESS | _FILTER_PORT
        kind, packed = _packed_address(family, frontend.address)
        address, port = nested(1, attribute(kind, packed)), attribute(3, struct.pack(">H", frontend.port))
    protocol = nested(2, attribute(1, bytes([_UDP])), port)
    return nested(_ORIGINAL, address, protocol) + nested(_FILTER, attribute(1, struct.pack("=I", flags)))


def _packed_address(family: Family, address: str) -> tuple[int, bytes]:
    """The kind of attribute of a destination address, and its bytes."""
    if family == "IPv4":
        return 2, socket.inet_pton(socket.AF_INET, address)
    return 4, socket.inet_pton(socket.AF_INET6, address)


def _read(body: memoryview) -> Entry | None:
    """Read a dumped entry, if it is UDP. The source of the answers is where the connection goes."""
    tuples = dict(attributes(body))
    sent, answered = _read_tuple(tuples[_ORIGINAL]), _read_tuple(tuples[_REPLY])
    if sent.protocol != _UDP:
        return None
    frontend = Frontend(sent.destination, "UDP", sent.destination_port)
    return Entry(frontend, Backend(answered.source, answered.source_port), bytes(tuples[_ORIGINAL]))


class _Tuple(NamedTuple):
    protocol: int
    source: str
    source_port: int
    destination: str
    destination_port: int


def _read_tuple(view: memoryview) -> _Tuple:
    parts = dict(attributes(view))
    addresses, ports = dict(attributes(parts[1])), dict(attributes(parts[2]))
    version = socket.AF_INET if 1 in addresses else socket.AF_INET6
    source, destination = (addresses[1], addresses[2]) if 1 in addresses else (addresses[3], addresses[4])
    return _Tuple(
        ports[1][0],
        socket.inet_ntop(version, source),
        int.from_bytes(ports.get(2, b""), "big"),
        socket.inet_ntop(version, destination),
        int.from_bytes(ports.get(3, b""), "big"),
    )
