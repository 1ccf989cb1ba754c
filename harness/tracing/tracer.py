"""Make the kernel trace the first packets of connections to an address, with an nftables table in one netns.

The table's first chains run before all other rules and enable tracing. Its last chains are empty and show how the
packet leaves the rules. The kernel deletes the table when the socket that created it closes (Linux 5.12), even if the
process is killed. This module builds its own messages, because pyroute2 hides commit errors. The constants are those of
linux/netfilter/nf_tables.h and nfnetlink.h.
"""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator, Sequence

from harness.errors import UnavailableError
from harness.netns.namespace import Namespace
from harness.netns.netlink import attribute, messages
from harness.netns.rtnetlink import NETFILTER, NetlinkError, Request, pack
from harness.tracing.messages import NEW_RULE, TRACE, TRACE_TABLE, TraceEvent, rule, traced

Take = Callable[[], list[TraceEvent]]

_GROUP = 9  # NFNLGRP_NFTRACE
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_ERROR, _DONE = 2, 3
_GET_RULES, _DUMP = 10 << 8 | 7, 0x300
_BUFFER = 1 << 18
_SECONDS = 2.0  # time limit in seconds for the kernel's reply to a request, which is normally immediate

_INET, _OWNER = 1, 0x2  # NFPROTO_INET, NFT_TABLE_F_OWNER
_FIRST, _LAST = -350, (1 << 31) - 100  # chain priorities: before raw (-300), and after source NAT
_HOOKS = {"prerouting": 0, "input": 1, "output": 3, "postrouting": 4}
_ACK, _CREATE, _APPEND = 0x4, 0x400, 0x800
_REGISTER = 1
_NUMBERS = {"TCP": socket.IPPROTO_TCP, "UDP": socket.IPPROTO_UDP}
_NFPROTO, _TRACE, _L4PROTO = 15, 12, 16  # NFT_META_…
_NETWORK, _TRANSPORT = 1, 2
_SYN_AND_ACK, _SYN = b"\x12", b"\x02"


@contextlib.contextmanager
def tracing(namespace: Namespace, protocol: str, address: str, port: int) -> Iterator[Take]:
    """Trace packets to this address. Yield a function that returns new trace events. Raises `UnavailableError`."""
    with namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETFILTER) as sock:
        sock.bind((0, 0))
        sock.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, _GROUP)
        wanted = _requests(protocol, address, port)
        sock.send(pack(wanted))
        _raise_first_error(sock, wanted)

        def take() -> list[TraceEvent]:
            found: list[TraceEvent] = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    datagram = sock.recv(_BUFFER, socket.MSG_DONTWAIT)
                    found += [traced(body) for kind, _, _, body in messages(datagram) if kind == TRACE]
            return found

        yield take


def rules_in(namespace: Namespace) -> list[tuple[str, str, int]]:
    """Return table, chain and handle of each rule in a netns (also of iptables-nft), in the order of each chain."""
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
    """Raise the first error in the replies, which are queued when `send` returns."""
    with contextlib.suppress(BlockingIOError):
        while True:
            for kind, _, number, body in messages(sock.recv(_BUFFER, socket.MSG_DONTWAIT)):
                code = -struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
                if code:
                    what = wanted[number - 1].what if 0 < number <= len(wanted) else "trace"
                    raise UnavailableError(f"the kernel cannot trace packets here: {NetlinkError(what, code)}")


def _requests(protocol: str, address: str, port: int) -> Sequence[Request]:
    """Return the batch that creates the table. Rules match packets that open a connection to this address and port."""
    matched = _matched(protocol, address, port)
    return [
        Request("begin", 0x10, 0, struct.pack(">BBH", 0, 0, 10)),
        _request("make the table", 0, _CREATE, _text(1, TRACE_TABLE), _number(2, _OWNER)),
        *(_chain(f"first-{hook}", hook, _FIRST) for hook in ("prerouting", "output")),
        *(_chain(f"last-{hook}", hook, _LAST) for hook in ("input", "postrouting")),
        *(_rule(f"first-{hook}", matched) for hook in ("prerouting", "output")),
        Request("end", 0x11, 0, struct.pack(">BBH", 0, 0, 10)),
    ]


def _matched(protocol: str, address: str, port: int) -> bytes:
    six = ":" in address
    packed = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, address)
    opens = _payload(_TRANSPORT, 13, 1) + _mask(_SYN_AND_ACK) + _compare(_SYN) if protocol == "TCP" else b""
    return (
        _meta(_NFPROTO)
        + _compare(bytes([10 if six else 2]))
        + _payload(_NETWORK, 24 if six else 16, len(packed))
        + _compare(packed)
        + _meta(_L4PROTO)
        + _compare(bytes([_NUMBERS[protocol]]))
        + _payload(_TRANSPORT, 2, 2)
        + _compare(struct.pack(">H", port))
        + opens
        + _expression("immediate", _number(1, _REGISTER), _value(2, b"\1"))
        + _expression("meta", _number(2, _TRACE), _number(3, _REGISTER))
    )


def _chain(name: str, hook: str, priority: int) -> Request:
    where = attribute(4 | 0x8000, _number(1, _HOOKS[hook]) + _number(2, priority))
    return _request(f"make chain {name}", 3, _CREATE, _text(1, TRACE_TABLE), _text(3, name), where, _text(7, "filter"))


def _rule(chain: str, expressions: bytes) -> Request:
    body = attribute(4 | 0x8000, expressions)
    return _request(f"write the rule of {chain}", 6, _CREATE | _APPEND, _text(1, TRACE_TABLE), _text(2, chain), body)


def _request(what: str, kind: int, flags: int, *attributes: bytes) -> Request:
    return Request(what, 10 << 8 | kind, flags | _ACK, struct.pack(">BBH", _INET, 0, 0) + b"".join(attributes))


def _expression(name: str, *attributes: bytes) -> bytes:
    return attribute(1 | 0x8000, _text(1, name) + attribute(2 | 0x8000, b"".join(attributes)))


def _meta(key: int) -> bytes:
    return _expression("meta", _number(1, _REGISTER), _number(2, key))


def _payload(base: int, offset: int, length: int) -> bytes:
    return _expression("payload", _number(1, _REGISTER), _number(2, base), _number(3, offset), _number(4, length))


def _mask(bits: bytes) -> bytes:
    numbers = (_number(1, _REGISTER), _number(2, _REGISTER), _number(3, len(bits)))
    return _expression("bitwise", *numbers, _value(4, bits), _value(5, bytes(len(bits))))


def _compare(value: bytes) -> bytes:
    return _expression("cmp", _number(1, _REGISTER), _number(2, 0), _value(3, value))


def _value(kind: int, value: bytes) -> bytes:
    return attribute(kind | 0x8000, attribute(1, value))


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value & 0xFFFFFFFF))


def _text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode("ascii") + b"\0")
