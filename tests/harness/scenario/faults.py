"""Faults of the observer, made in the namespaces of an embedded cluster alone, each of which ends again."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.nftables.expressions import genex
from pyroute2.nftables.main import NFTables

from harness.backends.netns import NetnsBackend
from harness.netns.addresses import NUMBERS
from harness.netns.fabric import Host
from harness.netns.namespace import Namespace
from harness.probes import probe
from harness.probes.bound import bound

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
