"""Make the kernel trace packets in one netns that open connections to an address."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence

from harness.errors import UnavailableError
from harness.netns.namespace import Namespace
from harness.netns.netlink import messages
from harness.netns.rtnetlink import NETFILTER, NetlinkError, Request, pack
from harness.tracing import trace_table
from harness.tracing.messages import NEW_RULE, TRACE, Traced, rule, traced

_GROUP = 9  # NFNLGRP_NFTRACE
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_ERROR, _DONE = 2, 3
_GET_RULES, _DUMP = 10 << 8 | 7, 0x300
_BUFFER = 1 << 18
_SECONDS = 2.0  # seconds for the kernel's reply to a request, which is immediate


class Tracer:
    """The trace of a netns, created by `tracing`. Without a socket it has no messages."""

    def __init__(self, sock: socket.socket | None) -> None:
        self._socket = sock

    def take(self) -> list[Traced]:
        """Return the messages since the last call, in order."""
        found: list[Traced] = []
        with contextlib.suppress(BlockingIOError):
            while self._socket is not None:
                datagram = self._socket.recv(_BUFFER, socket.MSG_DONTWAIT)
                found += [traced(body) for kind, _, _, body in messages(datagram) if kind == TRACE]
        return found


@contextlib.contextmanager
def tracing(namespace: Namespace, protocol: str, address: str, port: int) -> Iterator[Tracer]:
    """Trace packets to this address and port ("TCP" or "UDP") during the block. Raises `UnavailableError`."""
    with namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETFILTER) as sock:
        sock.bind((0, 0))
        sock.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, _GROUP)
        wanted = trace_table.requests(protocol, address, port)
        sock.send(pack(wanted))
        _raise_first_error(sock, wanted)
        yield Tracer(sock)


def rules_in(namespace: Namespace) -> list[tuple[str, str, int]]:
    """Return the table, chain and handle of all rules of a netns in chain order, including iptables-nft rules."""
    with namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETFILTER) as sock:
        sock.settimeout(_SECONDS)
        sock.send(pack([Request("list rules", _GET_RULES, _DUMP, bytes(4))]))
        found: list[tuple[str, str, int]] = []
        while True:
            for kind, _, _, body in messages(sock.recv(_BUFFER)):
                if kind in (_DONE, _ERROR):
                    return found
                if kind == NEW_RULE:
                    found.append(rule(body))


def _raise_first_error(sock: socket.socket, wanted: Sequence[Request]) -> None:
    """Raise the first error in the replies, which are queued when `send` returns. A batch is applied as a whole."""
    with contextlib.suppress(BlockingIOError):
        while True:
            for kind, _, number, body in messages(sock.recv(_BUFFER, socket.MSG_DONTWAIT)):
                code = -struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
                if code:
                    what = wanted[number - 1].what if 0 < number <= len(wanted) else "trace"
                    raise UnavailableError(f"the kernel cannot trace packets here: {NetlinkError(what, code)}")
