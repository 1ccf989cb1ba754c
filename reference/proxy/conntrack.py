"""Deletes connection tracking entries that would send UDP to the wrong place.

The kernel asks the rules about the first packet of a connection only, and UDP has no end that it could see: a client
that goes on sending stays with its endpoint, long after that one has left the Service, and one whose first packet came
before the rules is never translated. TCP needs no help: a new SYN replaces an entry that is past its end.

Linux 6.8 and newer delete by a filter: half a millisecond. Otherwise, and when there is much to delete, the table is
dumped and looked through here. That costs 16 ms even for an empty table: the kernel locks each of 262,144 buckets, and
all network namespaces share them.

Who deletes a connection whose answer is on its way loses that answer. So there are two rounds: those that were answered
at once, and a little later those that still were not, for their endpoint will not answer any more.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from reference.proxy.ruleset import Backend, Frontend, Stale

MOST_FILTERS = 24
"""From that many on, one dump is faster than a filter for each."""

_CONNTRACK = 1
_GET, _DELETE = 1, 2
_ACK, _DUMP = 0x4, 0x300
_ORIGINAL, _REPLY, _STATUS, _FILTER = 1, 2, 3, 25
_ANSWERED = 1 << 1
_SOURCE, _DESTINATION = 0, 1
_FILTER_PROTOCOL = 1 << 3
_FILTER_SIDE = {_SOURCE: 1 << 0 | 1 << 4, _DESTINATION: 1 << 1 | 1 << 5}  # address and port
_UDP = 17

Backends = Callable[[Frontend], frozenset[Backend] | None]


class Entry(NamedTuple):
    """A UDP connection, what names it to the kernel, and whether it ever had an answer."""

    connection: Stale
    key: bytes
    answered: bool


class Conntrack:
    """One netlink socket to connection tracking, in the netns of the thread that makes it; usable from any thread.

    Its methods raise `KernelError`.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._sequence = 0
        self._can_filter = True

    def forget(self, family: Family, stale: Sequence[Stale], backends: Backends, *, answered: bool = False) -> None:
        """Delete these connections; with `answered` only those that had an answer, or cannot get one.

        `backends` says where a frontend sends now, and None when it is none any more: those connections stay.
        """
        stale = [each for each in stale if _still(each, backends)]
        one_by_one = not any(each.backend is None and backends(each.frontend) for each in stale)
        # By filter for IPv4 only: seen on 6.18, a filter of IPv6 addresses spares those that match and deletes others.
        if self._can_filter and family == "IPv4" and one_by_one and len(stale) < MOST_FILTERS:
            try:
                for each in stale:
                    status = _status() if answered and not _untranslated(each) else b""
                    self._request(_DELETE, family, _matching(each) + status)
            except KernelError as error:
                if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT}:
                    raise
                self._can_filter = False  # before 6.8 a deletion needs the whole tuple
            else:
                return
        self.forget_all_but(family, {each.frontend for each in stale}, backends, answered=answered)

    def forget_all_but(
        self, family: Family, frontends: Iterable[Frontend], backends: Backends, *, answered: bool = False
    ) -> None:
        """Delete the UDP connections to these frontends that go where they do not send now."""
        allowed = {each: backends(each) for each in frontends}
        for entry in list(self._entries(family)):
            found = entry.connection
            if found.frontend not in allowed or not _is_stale(found, allowed[found.frontend]):
                continue
            if entry.answered or not answered or _untranslated(found):
                self._delete(family, entry.key)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _entries(self, family: Family) -> Iterator[Entry]:
        """All UDP connections, stale or not."""
        only_udp = nested(_ORIGINAL, nested(2, attribute(1, bytes([_UDP])))) + _flags(_FILTER_PROTOCOL)
        for body in self._ask(_GET, _DUMP, family, only_udp):
            entry = dict(attributes(body[4:]))
            sent, answered = _read(entry[_ORIGINAL]), _read(entry[_REPLY])
            if sent.protocol == _UDP:  # kernels before 5.8 know no filter
                frontend = Frontend(sent.destination[0], "UDP", sent.destination[1])
                (status,) = struct.unpack_from(">I", entry[_STATUS])
                yield Entry(Stale(frontend, answered.source), bytes(entry[_ORIGINAL]), bool(status & _ANSWERED))

    def _delete(self, family: Family, key: bytes) -> None:
        try:
            self._request(_DELETE, family, nested(_ORIGINAL, key))
        except KernelError as error:
            if error.errno != errno.ENOENT:  # else it has ended by itself
                raise

    def _request(self, kind: int, family: Family, body: bytes) -> None:
        for _ in self._ask(kind, _ACK, family, body):
            pass

    def _ask(self, kind: int, flags: int, family: Family, body: bytes) -> Iterator[memoryview]:
        """Send one request; the bodies of its answers. Version 1: the family restricts a deletion too."""
        self._sequence += 1
        body = struct.pack(">BBH", NFPROTO[family], 1, 0) + body
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


def _untranslated(connection: Stale) -> bool:
    return connection.backend == connection.frontend[::2]


def _still(stale: Stale, backends: Backends) -> bool:
    """Whether it is still wrong: an endpoint that left may have come back."""
    if _untranslated(stale):
        return backends(stale.frontend) is not None
    now = backends(stale.frontend)
    return stale.backend not in now if now and stale.backend is not None else True


def _status() -> bytes:
    """A filter: those that had an answer."""
    return attribute(_STATUS, struct.pack(">I", _ANSWERED))


def _is_stale(found: Stale, allowed: frozenset[Backend] | None) -> bool:
    if _untranslated(found):
        return allowed is not None
    return found.backend not in (allowed or ())


def _matching(stale: Stale) -> bytes:
    """A filter: sent to the frontend, answered by the backend if there is one."""
    sent = nested(_ORIGINAL, *_side(_DESTINATION, stale.frontend.address, stale.frontend.port))
    if stale.backend is None:
        return sent + _flags(_FILTER_PROTOCOL | _FILTER_SIDE[_DESTINATION])
    return (
        sent
        + nested(_REPLY, *_side(_SOURCE, *stale.backend))
        + _flags(_FILTER_PROTOCOL | _FILTER_SIDE[_DESTINATION], _FILTER_PROTOCOL | _FILTER_SIDE[_SOURCE])
    )


def _flags(*flags: int) -> bytes:
    """Which fields of the two tuples a filter compares."""
    return nested(_FILTER, *(attribute(kind, struct.pack("=I", each)) for kind, each in enumerate(flags, 1)))


def _side(side: int, address: str, port: int) -> tuple[bytes, bytes]:
    """One end of a UDP tuple over IPv4: address, then protocol and port."""
    where = attribute(1 + side, socket.inet_pton(socket.AF_INET, address))
    return nested(1, where), nested(2, attribute(1, bytes([_UDP])), attribute(2 + side, struct.pack(">H", port)))


class _Tuple(NamedTuple):
    protocol: int
    source: tuple[str, int]
    destination: tuple[str, int]


def _read(view: memoryview) -> _Tuple:
    parts = dict(attributes(view))
    addresses, ports = dict(attributes(parts[1])), dict(attributes(parts[2]))
    if 1 in addresses:
        ends = [socket.inet_ntop(socket.AF_INET, addresses[each]) for each in (1, 2)]
    else:
        ends = [socket.inet_ntop(socket.AF_INET6, addresses[each]) for each in (3, 4)]
    source, destination = (int.from_bytes(ports.get(each, b""), "big") for each in (2, 3))
    return _Tuple(ports[1][0], (ends[0], source), (ends[1], destination))
