"""Packs requests for links, addresses, routes and rules into rtnetlink datagrams.

A cluster needs a few hundred operations. One datagram per netns, with one acknowledgement, is much faster than one
process per operation (`benchmarks/boot.py`). For 30 veth pairs, this module takes 8.7 ms of CPU time, while pyroute2
takes 104 ms (`benchmarks/netlink.py`). The kernel processes a datagram within `send`, and continues after a failed
message. Each error contains the sequence number of its message, so errors of this module name the operation. The
constants are those of linux/netlink.h, rtnetlink.h, if_link.h, if_addr.h and fib_rules.h.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness.errors import HarnessError, UnavailableError
from harness.eventually import eventually
from harness.netns.addresses import NUMBERS, Family
from harness.netns.namespace import Namespace
from harness.netns.netlink import HEADER, attribute, attributes, message, messages

ROUTE, NETFILTER = 0, 12  # netlink families, from linux/netlink.h

LOOPBACK = 1  # the index of `lo` in every netns
MAIN_TABLE = 254
_LOCAL_TABLE = 255

_IFF_UP, _IFF_NOARP = 0x1, 0x80
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_ERROR, _NEWLINK, _DELLINK, _GETLINK, _NEWADDR, _NEWROUTE, _GETROUTE, _NEWRULE = 2, 16, 17, 18, 20, 24, 26, 32
_OPERATIONAL = 6  # IF_OPER_UP
_UNICAST, _LOCAL, _BLACKHOLE = 1, 2, 6
_LAST = 1024  # the metric of a route that the kernel's own route overrides
_SCOPE_UNIVERSE, _SCOPE_LINK = 0, 253
_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")  # struct rtmsg, and struct fib_rule_hdr with the action instead of the type
_BUFFER = 1 << 16

# Both ends of every veth pair have this address and never resolve it (NOARP). See `veth`.
_HARDWARE_ADDRESS = bytes.fromhex("027464000001")


@dataclass(frozen=True, slots=True)
class Request:
    what: str
    kind: int
    flags: int
    body: bytes


class NetlinkError(HarnessError):
    def __init__(self, what: str, number: int, why: str = "") -> None:
        super().__init__(f"cannot {what}: {os.strerror(number)}{f' ({why})' if why else ''}")
        self.number = number


def execute(namespace: Namespace, requests: Sequence[Request], *, family: int = ROUTE) -> None:
    """Execute all requests in a netns, even if one fails. Raises `NetlinkError` for the first failure."""
    with namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as sock:
        sock.setsockopt(270, 10, 1)  # SOL_NETLINK, NETLINK_CAP_ACK: a reply repeats our header, not our message
        sock.setsockopt(270, 11, 1)  # NETLINK_EXT_ACK: a reply may contain the kernel's reason as text
        sock.send(pack(requests))
        _raise_first_error(sock, requests)


def has_route(make_socket: Callable[[int, int, int], socket.socket], address: str) -> bool:
    """Return whether the netns of `make_socket` has a route to an address, even a rejecting one. Raises `OSError`."""
    family, packed = _packed(address)
    body = _ROUTE.pack(family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0) + attribute(1, packed)  # RTA_DST
    with make_socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.send(pack([Request(f"query the route to {address}", _GETROUTE, 0, body)]))
        kind, _, _, answer = next(messages(sock.recv(_BUFFER)))
    (number,) = struct.unpack_from("=i", answer)
    return (kind, -number) != (_ERROR, errno.ENETUNREACH)


def wait_until_up(namespace: Namespace, index: int) -> None:
    """Wait until a link whose other end is up can send packets. Raises `UnavailableError` after 5 seconds.

    The kernel detects the state of the other end in a work queue (linkwatch), and drops packets until then. Without
    this wait, the first packet was lost in one of fifteen cases. Since Linux 6.8, reading the state also updates it.
    """
    with namespace.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        eventually(
            lambda: _operational_state(sock, index) == _OPERATIONAL,
            within=5,
            every=0.001,
            describe=f"link {index} to carry packets",
            error=UnavailableError,
        )


def pack(requests: Sequence[Request]) -> bytes:
    """Return requests as one datagram. They are numbered from 1, and the last one requests an acknowledgement."""
    parts: list[bytes] = []
    for number, each in enumerate(requests, 1):
        flags = each.flags | _REQUEST | (_ACK if number == len(requests) else 0)
        parts.append(message(each.kind, flags, number, each.body))
    return b"".join(parts)


def veth(name: str, index: int, peer: Namespace, *, peer_name: str, peer_index: int) -> Request:
    """Return a request to create a veth pair and set one end up. Then set the other end up, and call `wait_until_up`.

    Both ends are NOARP and have the same hardware address, so gateways need no address, and no lookup delays packets.
    """
    ends = attribute(1, _HARDWARE_ADDRESS)  # IFLA_ADDRESS
    queues = attribute(31, _u32(1)) + attribute(32, _u32(1))  # one queue each way: creation is 15 % faster
    other = (
        _LINK.pack(0, 0, peer_index, _IFF_NOARP, _IFF_NOARP)
        + attribute(3, _name(peer_name))
        + attribute(28, _u32(peer.fd))  # IFLA_NET_NS_FD
        + ends
        + queues
    )
    body = (
        _LINK.pack(0, 0, index, _IFF_UP | _IFF_NOARP, _IFF_UP | _IFF_NOARP)
        + attribute(3, _name(name))
        + ends
        + queues
        # IFLA_LINKINFO { IFLA_INFO_KIND, IFLA_INFO_DATA { VETH_INFO_PEER } }
        + attribute(18, attribute(1, b"veth") + attribute(2, attribute(1, other)))
    )
    return Request(f"create the veth pair {name} - {peer_name}", _NEWLINK, _CREATE | _EXCL, body)


def link(kind: str, name: str) -> Request:
    body = _LINK.pack(0, 0, 0, 0, 0) + attribute(3, _name(name)) + attribute(18, attribute(1, kind.encode()))
    return Request(f"make the {kind} link {name}", _NEWLINK, _CREATE | _EXCL, body)


def up(index: int) -> Request:
    return Request(f"set link {index} up", _NEWLINK, 0, _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP))


def remove_link(index: int) -> Request:
    """Return a request to remove a link. The other end of a veth pair and the routes over the link also disappear."""
    return Request(f"remove link {index}", _DELLINK, 0, _LINK.pack(0, 0, index, 0, 0))


def address(index: int, host: str) -> list[Request]:
    """Return requests to add an address without DAD. The first request suffices if another link has the address."""
    family, packed = _packed(host)
    body = _ADDRESS.pack(family, len(packed) * 8, 0x02, _SCOPE_UNIVERSE, index)  # IFA_F_NODAD
    body += attribute(2, packed) + attribute(1, packed)
    given = Request(f"add the address {host} to link {index}", _NEWADDR, _CREATE | _EXCL, body)
    return [given, _local(index, packed)] if family == socket.AF_INET6 else [given]


def _local(index: int, packed: bytes) -> Request:
    """Return a request for a route that accepts packets to an IPv6 address until the kernel has added its own route."""
    body = _ROUTE.pack(socket.AF_INET6, len(packed) * 8, 0, 0, _LOCAL_TABLE, 4, _SCOPE_UNIVERSE, _LOCAL, 0)
    body += attribute(1, packed) + attribute(4, _u32(index))
    return Request(f"accept packets for an address of link {index}", _NEWROUTE, _CREATE | _EXCL, body)


def route(to: str, index: int, *, via: str = "", source: str = "", table: int = MAIN_TABLE) -> Request:
    """Return a request to route the CIDR `to` over a link, through gateway `via` at its other end if given."""
    family, packed, length = _prefix(to)
    onlink = 0x4 if via else 0  # RTNH_F_ONLINK
    scope = _SCOPE_UNIVERSE if via else _SCOPE_LINK
    body = _ROUTE.pack(family, length, 0, 0, min(table, 255), 4, scope, _UNICAST, onlink)  # 4: RTPROT_STATIC
    body += attribute(1, packed) if length else b""
    body += attribute(4, _u32(index)) + attribute(15, _u32(table))
    body += attribute(5, _packed(via)[1]) if via else b""
    body += attribute(7, _packed(source)[1]) if source else b""
    return Request(f"route {to} over link {index}{f' via {via}' if via else ''}", _NEWROUTE, _CREATE | _EXCL, body)


def blackhole(to: str) -> Request:
    """Return a request to drop packets to the CIDR `to` silently, unless a more specific route or address exists."""
    family, packed, length = _prefix(to)
    body = _ROUTE.pack(family, length, 0, 0, MAIN_TABLE, 4, _SCOPE_UNIVERSE, _BLACKHOLE, 0)
    body += attribute(1, packed) if length else b""
    body += attribute(6, _u32(_LAST))  # RTA_PRIORITY, which IPv6 sets anyway
    return Request(f"drop packets to {to}", _NEWROUTE, _CREATE | _EXCL, body)


def rule(family: Family, from_link: str, *, table: int, priority: int) -> Request:
    body = _ROUTE.pack(NUMBERS[family], 0, 0, 0, min(table, 255), 0, 0, 1, 0)  # 1: FR_ACT_TO_TBL
    body += attribute(3, _name(from_link)) + attribute(6, _u32(priority)) + attribute(15, _u32(table))
    return Request(f"add the rule for packets from {from_link} ({family})", _NEWRULE, _CREATE | _EXCL, body)


def _raise_first_error(sock: socket.socket, requests: Sequence[Request]) -> None:
    first: NetlinkError | None = None
    while True:
        for kind, flags, number, body in messages(sock.recv(_BUFFER)):
            if kind != _ERROR:  # an acknowledgement is an error message with error 0
                continue
            code = -struct.unpack_from("=i", body)[0]
            if code and first is None:
                first = NetlinkError(requests[number - 1].what, code, _reason(body, flags))
            if number == len(requests):
                if first is not None:
                    raise first
                return


def _reason(body: bytes, flags: int) -> str:
    """Return the kernel's error text in a reply (NLMSGERR_ATTR_MSG), or ""."""
    if not flags & 0x200:  # NLM_F_ACK_TLVS
        return ""
    return _find(body[HEADER.size + 4 :], 1).rstrip(b"\0").decode("ascii", "replace")


def _operational_state(sock: socket.socket, index: int) -> int:
    sock.send(pack([Request(f"look at link {index}", _GETLINK, 0, _LINK.pack(0, 0, index, 0, 0))]))
    answer, state = sock.recv(_BUFFER), b""
    while HEADER.unpack_from(answer)[1] != _ERROR:  # the kernel sends the link, and then the acknowledgement
        state = _find(answer[HEADER.size + _LINK.size :], 16)  # IFLA_OPERSTATE
        answer = sock.recv(_BUFFER)
    return state[0] if state else -1


def _find(data: bytes, wanted: int) -> bytes:
    return next((value for kind, value in attributes(data) if kind == wanted), b"")


def _name(text: str) -> bytes:
    return text.encode("ascii") + b"\0"


def _u32(number: int) -> bytes:
    return struct.pack("=I", number)


@lru_cache(maxsize=4096)
def _packed(host: str) -> tuple[int, bytes]:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    return kind, socket.inet_pton(kind, host)


def _prefix(cidr: str) -> tuple[int, bytes, int]:
    host, _, length = cidr.partition("/")
    family, packed = _packed(host)
    return family, packed, int(length) if length else len(packed) * 8
