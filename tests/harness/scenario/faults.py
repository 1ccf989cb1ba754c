"""Faults of the observer, made in the namespaces of an embedded cluster alone, each of which ends again."""

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
from harness.netns.fabric import Host
from harness.netns.namespace import Namespace
from harness.netns.netlink import attribute, message, messages
from harness.probes import probe
from harness.probes.server import bound
from reference.proxy import uapi
from reference.proxy.netlink import nested, number

INPUT, OUTPUT, PREROUTING = "input", "output", "prerouting"
BEFORE_ALL = -400  # before connection tracking, and before any proxy


@dataclass(frozen=True)
class Place:
    """Where a fault strikes: a client and a server of a cluster, in one family."""

    backend: NetnsBackend
    client: Host
    server: Host
    family: str

    @property
    def number(self) -> int:
        """The number of the family, as the kernel has it."""
        return socket.AF_INET6 if self.family == "IPv6" else socket.AF_INET


_VERDICT = {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", 0)]})]}
_DROP = genex("immediate", {"dreg": 0, "data": _VERDICT})

Fault = Callable[[Place], AbstractContextManager[None]]


@contextmanager
def dropping(namespace: Namespace, number: int, hook: str, *expressions: object) -> Iterator[None]:
    """All packets of a netns that these expressions match are dropped at a hook in here; all at all without any."""
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
    """The expressions that match packets to an address."""
    six = ":" in address
    packed = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, address)
    load = genex("payload", {"dreg": 1, "base": 1, "offset": 24 if six else 16, "len": len(packed)})
    return [load, genex("cmp", {"sreg": 1, "op": 0, "data": {"attrs": [("NFTA_DATA_VALUE", packed)]}})]


@contextmanager
def without_route(namespace: Namespace, number: int) -> Iterator[None]:
    """A netns lacks its default route in here."""
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
def stopped(_: Place) -> Iterator[None]:
    """This process is stopped for two seconds, from the beginning of the block on."""
    script = f"kill -STOP {os.getpid()}; sleep 2; kill -CONT {os.getpid()}"
    with subprocess.Popen(["/bin/sh", "-c", script]) as helper:
        yield
        helper.wait()


@contextmanager
def cut_off(place: Place) -> Iterator[None]:
    """The fabric loses what the server's node sends, and no scenario asked for it."""
    place.backend.network.cut(place.server.node)
    try:
        yield
    finally:
        place.backend.network.mend(place.server.node)


@contextmanager
def without_ports(place: Place) -> Iterator[None]:
    """The kernel has no free port left for the client's sockets, nor have probes among the next ones."""
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    with place.client.namespace.entered(), contextlib.ExitStack() as taken:
        before = path.read_text(encoding="ascii")
        path.write_text("50000 50007", encoding="ascii")
        for port, kind in itertools.product([*range(50000, 50008), *_next_ports()], ("TCP", "UDP")):
            with contextlib.suppress(OSError):  # somebody has it: just as well
                taken.enter_context(bound(place.client.namespace, kind, place.family, port))
        opened = taken.pop_all()
    try:
        yield
    finally:
        opened.close()
        with place.client.namespace.entered():
            path.write_text(before, encoding="ascii")


def _next_ports() -> list[int]:
    """The ports that the next probes of this process would take."""
    now = next(probe._ports)
    return list(range(now, min(now + 2000, 65_536)))


@contextmanager
def full_tracking(place: Place) -> Iterator[None]:
    """The connection tracking of the client's node is really full: it has as many connections as a netns may have.

    How many is one number for the machine, but each netns counts its own. These are told to be answered (ASSURED), so
    that the kernel forgets none of them early, by a protocol without ports; a quarter of a million takes half a second
    of a processor, and 100 MB of the kernel's memory.
    """
    node = place.backend.network.nodes[place.client.node].namespace
    path = "/proc/sys/net/netfilter/nf_conntrack_max"
    room = int(Path(path).read_text(encoding="ascii")) if Path(path).exists() else 0
    if not 0 < room <= MOST_TRACKED:
        pytest.skip(f"{room} connections for each netns by {path} of this machine are none, or too many to make")
    with node.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, rtnetlink.NETFILTER) as sock:
        for first in itertools.count(0, 100):  # so few that all refusals find room in the socket
            sock.send(b"".join(_connection(number) for number in range(first, first + 100)))
            with contextlib.suppress(BlockingIOError):  # all were taken in: only a refusal has an answer
                assert refusal(sock.recv(1 << 16)) == errno.ENOMEM
                break
            assert first <= room, "there is room for more connections than the kernel says"
    try:
        yield
    finally:
        rtnetlink.execute(node, [_FORGET], family=rtnetlink.NETFILTER)


MOST_TRACKED = 1 << 20
_TRACKING = uapi.NFNL_SUBSYS_CTNETLINK << 8
_MARK = number(uapi.CTA_MARK, 0x7D)
_FORGET = rtnetlink.Request(  # those of probes stay, with the addresses that they were given
    "forget marked connections",
    _TRACKING | uapi.IPCTNL_MSG_CT_DELETE,
    0,
    bytes(4) + _MARK + number(uapi.CTA_MARK_MASK, 0xFFFF_FFFF),
)


def refusal(datagram: bytes) -> int:
    """The errno of the first message in a datagram of errors."""
    _, _, _, body = next(messages(datagram))
    return -int.from_bytes(body[:4], sys.byteorder, signed=True)


def _connection(number: int) -> bytes:
    """A message that makes a connection, from an address that has this number."""
    return struct.pack(">I", 0x0B000000 + number).join(_BETWEEN)


def _between() -> list[bytes]:
    """A connection's message, cut where the address stands; numbers are of linux/netfilter/nfnetlink_conntrack.h."""

    def direction(kind: int, source: bytes, destination: bytes) -> bytes:
        ends = attribute(uapi.CTA_IP_V4_SRC, source), attribute(uapi.CTA_IP_V4_DST, destination)
        protocol = attribute(uapi.CTA_PROTO_NUM, b"\xfd")  # for experiments
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
    """Begin a fault, now, and end it after so many seconds. Returns what waits for its end."""
    fault.__enter__()

    def end() -> None:
        fault.__exit__(None, None, None)

    timer = threading.Timer(seconds, end)
    timer.start()
    return timer.join


@contextmanager
def lasting(fault: AbstractContextManager[None], seconds: float) -> Iterator[None]:
    """A fault begins with the block, and ends after so many seconds; the block's own end waits for that."""
    over = begun(fault, seconds)
    try:
        yield
    finally:
        over()
