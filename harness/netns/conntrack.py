"""Reads and flushes the connection tracking of one network namespace.

All namespaces of a machine share one hash table, and whoever deletes connections by a filter walks all of it: a proxy
at each change of its endpoints, the kernel for each address that goes away. So the connections of scenarios that have
ended, 50,000 of them after half a minute of probes, make every change of the following ones ten times as slow. The
kernel walks nothing for a netns without connections, so a scenario forgets its own before it takes its pods away.
"""

from __future__ import annotations

import itertools
import socket
from typing import Any

from harness.netns import iproute, rtnetlink
from harness.netns.namespace import Namespace

_FLUSH = rtnetlink.Request("forget connections", 1 << 8 | 2, 0, bytes(4))
"""IPCTNL_MSG_CT_DELETE of NFNL_SUBSYS_CTNETLINK (linux/netfilter/nfnetlink_conntrack.h); version 0: of all families."""

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


def as_text(namespace: Namespace) -> str:
    """Return the connections of a netns, one a line, as `conntrack -L` prints them; `MOST` of them at most."""
    with iproute.tracking(namespace, "read connections") as connections:
        there = connections.count()
        shown = [_line(each) for each in itertools.islice(connections.dump_entries(), MOST)]
    left_out = [f"# … and {there - MOST:,} more"] if there > MOST else []
    return "\n".join([*sorted(shown), *left_out] or ["# there are no connections"]) + "\n"


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
