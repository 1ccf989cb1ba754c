"""Flushes the connection tracking of one network namespace.

All namespaces of a machine share one hash table, and whoever deletes connections by a filter walks all of it: a proxy
at each change of its endpoints, the kernel for each address that goes away. So the connections of scenarios that have
ended, 50,000 of them after half a minute of probes, make every change of the following ones ten times as slow.
"""

from __future__ import annotations

import os
import socket
import struct

from harness.netns.namespace import Namespace

_NETLINK_NETFILTER = 12
_CONNTRACK_DELETE = 1 << 8 | 2  # IPCTNL_MSG_CT_DELETE; without a tuple it is about all connections
_REQUEST, _ACKNOWLEDGE = 1, 4
_FLUSH = struct.pack("=IHHII", 20, _CONNTRACK_DELETE, _REQUEST | _ACKNOWLEDGE, 1, 0) + bytes(4)


def flush(namespace: Namespace) -> None:
    """Forget all connections of a netns, of all families. Raises `OSError`."""
    with namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER) as asking:
        asking.send(_FLUSH)
        (code,) = struct.unpack_from("=i", asking.recv(1 << 12), 16)
    if code:
        raise OSError(-code, f"flush of connection tracking: {os.strerror(-code)}")
