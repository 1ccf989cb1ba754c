"""Reads and flushes the connection tracking of one network namespace.

All namespaces of a machine share one hash table, and whoever deletes connections by a filter walks all of it: a proxy
at each change of its endpoints, the kernel for each address that goes away. So the connections of scenarios that have
ended, 50,000 of them after half a minute of probes, make every change of the following ones ten times as slow. The
kernel walks nothing for a netns without connections, so a scenario forgets its own before it takes its pods away.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from typing import Any

from harness.netns import iproute, rtnetlink
from harness.netns.namespace import Namespace

_FLUSH = rtnetlink.Request("forget connections", 1 << 8 | 2, 0, bytes(4))
"""IPCTNL_MSG_CT_DELETE of NFNL_SUBSYS_CTNETLINK (linux/netfilter/nfnetlink_conntrack.h); version 0: of all families."""

_COUNTERS = 1 << 20  # bytes; a processor has 153

MOST = 2_000
"""So many connections are shown; each costs 0.1 ms to read."""

_NAMES = {
    socket.IPPROTO_TCP: "tcp",
    socket.IPPROTO_UDP: "udp",
    socket.IPPROTO_ICMP: "icmp",
    socket.IPPROTO_ICMPV6: "icmpv6",
    socket.IPPROTO_SCTP: "sctp",
}


def flush(namespace: Namespace) -> None:
    """Delete all connections of a netns, of all families. Raises `NetlinkError`.

    It is one message by hand, as every scenario does so for each node, and to open a socket of pyroute2 takes a hundred
    times as long as the deletion from an empty table.
    """
    rtnetlink.execute(namespace, [_FLUSH], family=rtnetlink.NETFILTER)


class Overflow:
    """Counts the connections of a netns for which connection tracking had no room.

    How many connections a netns may have is one number for the machine (nf_conntrack_max); what each has dropped, the
    kernel counts apart. A packet that is dropped for want of room is in `drop` alone; one whose connection could not be
    entered for another reason, as when two got the same ports by NAT, is in `insert_failed` as well.
    """

    def __init__(self, namespace: Namespace) -> None:
        """Open the counters of a netns; a kernel without them counts nothing."""
        self._fd, self._size = -1, _COUNTERS
        with namespace.entered(), contextlib.suppress(FileNotFoundError):
            self._fd = os.open("/proc/thread-self/net/stat/nf_conntrack", os.O_RDONLY | os.O_CLOEXEC)
        self._size = 2 * len(self.read())  # numbers have few widths; a megabyte for each read takes six times as long

    def read(self) -> bytes:
        """Return the counters as they are now, for `since`."""
        return os.pread(self._fd, self._size, 0) if self._fd >= 0 else b""

    def since(self, before: bytes) -> int:
        """Return the number since the counters were `before`."""
        now = self.read()
        return of_no_room(now.decode("ascii")) - of_no_room(before.decode("ascii")) if now else 0

    def close(self) -> None:
        """Close the counters. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def of_no_room(text: str) -> int:
    """Return for how many connections there was no room by /proc/net/stat/nf_conntrack, a line for each processor.

    Either a new one was dropped, or an old one was forgotten early for it.
    """
    head, *lines = [line.split() for line in text.splitlines()]
    total = {name: sum(int(line[column], 16) for line in lines) for column, name in enumerate(head)}
    return max(0, total.get("drop", 0) - total.get("insert_failed", 0)) + total.get("early_drop", 0)


def as_text(namespace: Namespace) -> str:
    """Return the connections of a netns, one a line, as `conntrack -L` prints them; `MOST` of them at most."""
    with iproute.tracking(namespace, "read connections") as connections:
        there = connections.count()
        shown = [_line(each) for each in itertools.islice(connections.dump_entries(), MOST)]
    left_out = [f"# … and {there - MOST:,} more"] if there > MOST else []
    return "\n".join([*sorted(shown), *left_out] or ["# there are no connections"]) + "\n"


def entry_of(namespace: Namespace, protocol: str, source: tuple[str, int], destination: tuple[str, int]) -> str:
    """Return the connection that began from one address and port to another, like `as_text`; "" if there is none."""
    number = next(number for number, name in _NAMES.items() if name == protocol)
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET  # the kernel looks for one in a family only
    wanted = iproute.ports_of(family, number, source[1], destination[1])
    with iproute.tracking(namespace, "read a connection", family=family) as connections:
        entries = list(connections.dump_entries(tuple_orig=wanted))  # to its end: a dump that is left stays open
    ends = source[0], destination[0]
    found = (each for each in entries if (each.tuple_orig.saddr, each.tuple_orig.daddr) == ends)
    return next(map(_line, found), "")


def _line(entry: Any) -> str:
    """Return a `ConntrackEntry` as text: protocol, remaining seconds, TCP state, both directions, and flags."""
    marks = set(entry.status_name().split(","))
    words = [_NAMES.get(entry.tuple_orig.proto, str(entry.tuple_orig.proto)), str(entry.timeout)]
    if entry.protoinfo is not None:
        words.append(entry.protoinfo.state_name())
    words.append(_direction(entry.tuple_orig))
    words += [] if "SEEN_REPLY" in marks else ["[UNREPLIED]"]
    words.append(_direction(entry.tuple_reply))
    words += ["[ASSURED]"] if "ASSURED" in marks else []
    return " ".join([*words, f"mark={entry.mark or 0}"])


def _direction(one: Any) -> str:
    """Return an `NFCTAttrTuple` as text, without the fields that its protocol does not have."""
    told = (
        ("src", one.saddr),
        ("dst", one.daddr),
        ("sport", one.sport),
        ("dport", one.dport),
        ("type", one.icmp_type),
        ("code", one.icmp_code),
        ("id", one.icmp_id),
    )
    return " ".join(f"{name}={value}" for name, value in told if value is not None)
