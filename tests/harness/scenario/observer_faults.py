"""Faults of the observer. Faults affect only the namespaces of an embedded cluster, and each fault is temporary."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2 import IPRoute
from pyroute2.nftables.expressions import genex
from pyroute2.nftables.main import NFTables

from harness.backends.netns import NetnsBackend
from harness.netns import rtnetlink
from harness.netns.addresses import NUMBERS
from harness.netns.fabric import NetworkPeer
from harness.netns.namespace import Namespace
from harness.netns.netlink import attribute, message, messages
from harness.probes import probe
from harness.probes.server import bound
from reference.proxy import uapi
from reference.proxy.netlink import nested, number

INPUT, OUTPUT, PREROUTING = "input", "output", "prerouting"
BEFORE_ALL = -400  # before conntrack, and before any proxy


@dataclass(frozen=True)
class FaultLocation:
    """The location of a fault: a client and a server of a cluster, in one address family."""

    backend: NetnsBackend
    client: NetworkPeer
    server: NetworkPeer
    family: str

    @property
    def number(self) -> int:
        """Return the number that the kernel uses for the family."""
        return socket.AF_INET6 if self.family == "IPv6" else socket.AF_INET


_VERDICT = {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", 0)]})]}
_DROP = genex("immediate", {"dreg": 0, "data": _VERDICT})

Fault = Callable[[FaultLocation], AbstractContextManager[None]]


@contextmanager
def dropping(namespace: Namespace, number: int, hook: str, *expressions: object) -> Iterator[None]:
    """Inside the block, drop packets of a netns that match these expressions at a hook.

    Without expressions, drop all packets.
    """
    with namespace.entered(), NFTables(nfgen_family=number) as nft:
        nft.table("add", name="fault")
        policy = 1 if expressions else 0
        nft.chain("add", table="fault", name="drops", hook=hook, type="filter", priority=BEFORE_ALL, policy=policy)
        if expressions:
            nft.rule("add", table="fault", chain="drops", expressions=([*expressions, _DROP],))
    try:
        yield
    finally:
        with namespace.entered(), NFTables(nfgen_family=number) as nft:
            nft.table("del", name="fault")


def to_address(address: str) -> list[object]:
    """Return the expressions that match packets to an address."""
    six = ":" in address
    packed = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, address)
    load = genex("payload", {"dreg": 1, "base": 1, "offset": 24 if six else 16, "len": len(packed)})
    return [load, genex("cmp", {"sreg": 1, "op": 0, "data": {"attrs": [("NFTA_DATA_VALUE", packed)]}})]


@contextmanager
def without_route(namespace: Namespace, number: int) -> Iterator[None]:
    """Remove the default route of a netns while the block runs."""
    with namespace.entered(), IPRoute() as ip:
        (route,) = [each for each in ip.get_default_routes(family=number) if each.get_attr("RTA_OIF")]
        described = {"gateway": route.get_attr("RTA_GATEWAY"), "oif": route.get_attr("RTA_OIF")}
        if source := route.get_attr("RTA_PREFSRC"):
            described["prefsrc"] = source
        ip.route("del", family=number, dst="default", **described)
    try:
        yield
    finally:
        with namespace.entered(), IPRoute() as ip:
            onlink = {} if number == NUMBERS["IPv6"] else {"flags": 4}  # RTNH_F_ONLINK
            ip.route("add", family=number, dst="default", **described, **onlink)


@contextmanager
def stopped(_: FaultLocation) -> Iterator[None]:
    """Stop this process for two seconds at the beginning of the block."""
    script = f"kill -STOP {os.getpid()}; sleep 2; kill -CONT {os.getpid()}"
    with subprocess.Popen(["/bin/sh", "-c", script]) as helper:
        yield
        helper.wait()


@contextmanager
def cut_off(place: FaultLocation) -> Iterator[None]:
    """Drop the packets from the server's node in the fabric."""
    place.backend.network.disconnect(place.server.node)
    try:
        yield
    finally:
        place.backend.network.reconnect(place.server.node)


@contextmanager
def without_ports(place: FaultLocation) -> Iterator[None]:
    """Bind all ports that the kernel can choose for the client's sockets, and the ports of the next probes."""
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    with place.client.namespace.entered(), contextlib.ExitStack() as taken:
        before = path.read_text(encoding="ascii")
        path.write_text("50000 50007", encoding="ascii")
        for port, kind in itertools.product([*range(50000, 50008), *_next_ports()], ("TCP", "UDP")):
            with contextlib.suppress(OSError):  # a port that is already in use is fine
                taken.enter_context(bound(place.client.namespace, kind, place.family, port))
        opened = taken.pop_all()
    try:
        yield
    finally:
        opened.close()
        with place.client.namespace.entered():
            path.write_text(before, encoding="ascii")


def _next_ports() -> list[int]:
    """Return the ports of the next probes of this process."""
    now = next(probe._ports)
    return list(range(now, min(now + 2000, 65_536)))


@contextmanager
def full_tracking(place: FaultLocation) -> Iterator[None]:
    """Fill the conntrack table of the client's node up to the maximum of a netns.

    The maximum is one setting for the whole machine, but each netns has its own count. The connections are ASSURED, so
    that the kernel evicts none of them early, and their protocol has no ports. A quarter of a million connections take
    half a second of CPU time and 100 MB of kernel memory.
    """
    node = place.backend.network.nodes[place.client.node].namespace
    path = "/proc/sys/net/netfilter/nf_conntrack_max"
    room = int(Path(path).read_text(encoding="ascii")) if Path(path).exists() else 0
    if not 0 < room <= MOST_TRACKED:
        pytest.skip(f"{path} of this machine allows {room} connections per netns: no limit, or too many to create")
    with node.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, rtnetlink.NETFILTER) as sock:
        for first in itertools.count(0, 100):  # a batch small enough for all error replies to fit in the socket buffer
            sock.send(b"".join(_connection(number) for number in range(first, first + 100)))
            with contextlib.suppress(BlockingIOError):  # no reply: the kernel replies only to errors
                assert refusal(sock.recv(1 << 16)) == errno.ENOMEM
                break
            assert first <= room, "the table holds more connections than the kernel's limit"
    try:
        yield
    finally:
        rtnetlink.execute(node, [_FORGET], family=rtnetlink.NETFILTER)


MOST_TRACKED = 1 << 20
_TRACKING = uapi.NFNL_SUBSYS_CTNETLINK << 8
_MARK = number(uapi.CTA_MARK, 0x7D)
_FORGET = rtnetlink.Request(  # keeps the connections of probes and their NAT
    "forget marked connections",
    _TRACKING | uapi.IPCTNL_MSG_CT_DELETE,
    0,
    bytes(4) + _MARK + number(uapi.CTA_MARK_MASK, 0xFFFF_FFFF),
)


def refusal(datagram: bytes) -> int:
    """Return the errno of the first error message in a datagram."""
    _, _, _, body = next(messages(datagram))
    return -int.from_bytes(body[:4], sys.byteorder, signed=True)


def _connection(number: int) -> bytes:
    """Return the netlink message that creates a connection. The number determines the source address."""
    return struct.pack(">I", 0x0B000000 + number).join(_BETWEEN)


def _between() -> list[bytes]:
    """Return the message that creates a connection in two parts (linux/netfilter/nfnetlink_conntrack.h)."""

    def direction(kind: int, source: bytes, destination: bytes) -> bytes:
        ends = attribute(uapi.CTA_IP_V4_SRC, source), attribute(uapi.CTA_IP_V4_DST, destination)
        protocol = attribute(uapi.CTA_PROTO_NUM, b"\xfd")  # the protocol number reserved for experiments
        return nested(kind, nested(uapi.CTA_TUPLE_IP, *ends), nested(uapi.CTA_TUPLE_PROTO, protocol))

    one, other = b"here", bytes([12, 0, 0, 1])
    body = bytes([socket.AF_INET, 0, 0, 0])
    body += direction(uapi.CTA_TUPLE_ORIG, one, other) + direction(uapi.CTA_TUPLE_REPLY, other, one)
    body += number(3, 0b1110) + number(7, 600) + _MARK  # CTA_STATUS; CTA_TIMEOUT, in seconds
    return message(_TRACKING, 0x601, 0, body).split(one)  # IPCTNL_MSG_CT_NEW; REQUEST, EXCL, CREATE


_BETWEEN = _between()


FAULTS: dict[str, Fault] = {
    "deaf pod": lambda at: dropping(at.server.namespace, at.number, INPUT),
    "mute pod": lambda at: dropping(at.server.namespace, at.number, OUTPUT),
    "pod without route": lambda at: without_route(at.server.namespace, at.number),
    "deaf client": lambda at: dropping(at.client.namespace, at.number, INPUT),
    "mute client": lambda at: dropping(at.client.namespace, at.number, OUTPUT),
    "client without route": lambda at: without_route(at.client.namespace, at.number),
    "fabric that loses": cut_off,
    "stopped process": stopped,
    "no free ports": without_ports,
    "full connection tracking": full_tracking,
}


def begun(fault: AbstractContextManager[None], seconds: float) -> Callable[[], None]:
    """Start a fault, and end it after this many seconds. Return a function that waits for its end."""
    fault.__enter__()

    def end() -> None:
        fault.__exit__(None, None, None)

    timer = threading.Timer(seconds, end)
    timer.start()
    return timer.join


@contextmanager
def lasting(fault: AbstractContextManager[None], seconds: float) -> Iterator[None]:
    """Start a fault with the block, and end it after this many seconds. The block waits for that at its end."""
    over = begun(fault, seconds)
    try:
        yield
    finally:
        over()
