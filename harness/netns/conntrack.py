"""Reads and flushes the conntrack entries of one network namespace.

All netns of a machine share one hash table, and the kernel walks the whole table to delete the entries that match a
filter. Half a minute of probes leaves 50,000 entries, which make every later change ten times as slow. The kernel skips
the walk for a netns without entries, so each scenario flushes its entries before it deletes its pods.
"""

import contextlib
import itertools
import os
import socket
from typing import Any

from harness.netns import iproute, rtnetlink
from harness.netns.namespace import Namespace

_FLUSH = rtnetlink.Request("forget connections", 1 << 8 | 2, 0, bytes(4))
"""IPCTNL_MSG_CT_DELETE of NFNL_SUBSYS_CTNETLINK (linux/netfilter/nfnetlink_conntrack.h). Version 0: all families."""

_COUNTERS = 1 << 20  # bytes; each CPU needs 153

MOST = 2_000
"""The maximum number of connections to show. Reading one takes 0.1 ms."""

_NAMES = {
    socket.IPPROTO_TCP: "tcp",
    socket.IPPROTO_UDP: "udp",
    socket.IPPROTO_ICMP: "icmp",
    socket.IPPROTO_ICMPV6: "icmpv6",
    socket.IPPROTO_SCTP: "sctp",
}
_PORTS = ("sport", "dport", "icmp_type", "icmp_code", "icmp_id")


def flush(namespace: Namespace) -> None:
    """Delete all conntrack entries of a netns with a single netlink message. Raises `NetlinkError`."""
    rtnetlink.execute(namespace, [_FLUSH], family=rtnetlink.NETFILTER)


class ConntrackOverflow:
    """Counts connections in a netns that were dropped because the conntrack table was full.

    The limit of connections (nf_conntrack_max) applies to the whole machine, but the kernel counts dropped packets per
    netns. A packet that is dropped because the table is full counts only in `drop`. If a connection cannot be inserted
    for another reason, for example because NAT chose the same ports twice, it counts in `drop` and `insert_failed`.
    """

    def __init__(self, namespace: Namespace) -> None:
        """Open the counters of a netns. If the kernel lacks these counters, `since` always returns 0."""
        self._fd, self._size = -1, _COUNTERS
        with namespace.entered(), contextlib.suppress(FileNotFoundError):
            self._fd = os.open("/proc/thread-self/net/stat/nf_conntrack", os.O_RDONLY | os.O_CLOEXEC)
        self._size = 2 * len(self.read())  # leaves room for longer numbers; reads of a megabyte take six times as long

    def read(self) -> bytes:
        return os.pread(self._fd, self._size, 0) if self._fd >= 0 else b""

    def since(self, before: bytes) -> int:
        now = self.read()
        return full_table_drops(now.decode("ascii")) - full_table_drops(before.decode("ascii")) if now else 0

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def full_table_drops(text: str) -> int:
    """Count connections dropped because the table was full. `text` is the content of /proc/net/stat/nf_conntrack."""
    head, *lines = [line.split() for line in text.splitlines()]
    total = {name: sum(int(line[column], 16) for line in lines) for column, name in enumerate(head)}
    return max(0, total.get("drop", 0) - total.get("insert_failed", 0)) + total.get("early_drop", 0)


def as_text(namespace: Namespace) -> str:
    with iproute.tracking(namespace, "read connections") as connections:
        there = connections.count()
        shown = [_line(each) for each in itertools.islice(connections.dump_entries(), MOST)]
    left_out = [f"# … and {there - MOST:,} more"] if there > MOST else []
    return "\n".join([*sorted(shown), *left_out] or ["# no connections"]) + "\n"


def entry_of(namespace: Namespace, protocol: str, source: tuple[str, int], destination: tuple[str, int]) -> str:
    """Return the conntrack entry of these addresses and ports, formatted as in `as_text`, or "" if there is none."""
    number = next(number for number, name in _NAMES.items() if name == protocol)
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET  # the kernel searches one family at a time
    wanted = iproute.ports_of(family, number, source[1], destination[1])
    with iproute.tracking(namespace, "read a connection", family=family) as connections:
        entries = list(connections.dump_entries(tuple_orig=wanted))  # a partly read dump stays open
    ends = source[0], destination[0]
    found = (each for each in entries if (each.tuple_orig.saddr, each.tuple_orig.daddr) == ends)
    return next(map(_line, found), "")


def _line(entry: Any) -> str:
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
    ports = ((name.removeprefix("icmp_"), getattr(one, name)) for name in _PORTS)
    return " ".join(
        [f"src={one.saddr} dst={one.daddr}", *(f"{name}={port}" for name, port in ports if port is not None)]
    )
