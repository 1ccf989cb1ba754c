"""Stale UDP connections are deleted by a kernel filter or after a dump, but never while a reply may be on its way."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyroute2 import IPRoute

from harness.eventually import eventually
from harness.netns.namespace import Namespace
from reference.proxy.conntrack import Conntrack
from reference.proxy.decision import Family
from reference.proxy.flows import TAGS, Flow, end, read_flow, tag
from reference.proxy.netlink import NftSocket, attribute, nested
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import Endpoint, Ruleset, ServiceAddress, StaleUdp

SOCKET_FAMILY = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
FAMILIES: tuple[Family, ...] = ("IPv4", "IPv6")


@dataclass
class ConntrackNetns:
    """A netns with clients. It forwards `first` to `a` or `b`, and does not forward `second`."""

    node: Namespace
    conntrack: Conntrack
    family: Family
    first: ServiceAddress
    second: ServiceAddress
    a: Endpoint
    b: Endpoint
    families: tuple[Family, ...]

    def connect(self, service: ServiceAddress, count: int = 20) -> None:
        for _ in range(count):
            with self.socket() as client:
                client.sendto(b"x", (service.address, service.port))

    def socket(self) -> socket.socket:
        return self.node.socket(SOCKET_FAMILY[self.family], socket.SOCK_DGRAM)

    def delivers(self, address: str) -> bool:
        """Return whether a new address is usable. The kernel activates IPv6 addresses in the background."""
        try:
            with self.socket() as server:
                server.settimeout(0.05)
                server.bind((address, 9))
                server.sendto(b"x", (address, 9))
                return bool(server.recv(1))
        except OSError:
            return False

    def answer(self, service: ServiceAddress) -> None:
        """Make a connection to `a`, including a reply."""
        with self.socket() as server:
            server.bind(self.a)
            server.settimeout(0.05)
            while not self.answered():
                with self.socket() as client, contextlib.suppress(TimeoutError):  # if the connection goes to B
                    client.sendto(b"x", (service.address, service.port))
                    _, address = server.recvfrom(10)
                    server.sendto(b"answer", address)

    def flows(self) -> list[Flow]:
        return [flow for _, flow in self.conntrack.flows(self.families)]

    def answered(self) -> list[Flow]:
        return [each for each in self.flows() if each.mark and not each.awaited]

    def connections(self) -> set[tuple[bytes, bytes]]:
        return {(each.sent, each.answered) for each in self.flows()}

    def named(self, *stale: StaleUdp) -> set[tuple[bytes, bytes]]:
        ends = [((each.service.address, each.service.port), each.endpoint) for each in stale]
        return {(end(self.family, *sent), end(self.family, *endpoint)) for sent, endpoint in ends}

    def forget(self, stale: StaleUdp, *now: Endpoint, gone: bool = False, awaited: bool = True) -> None:
        endpoints = {stale.service: None if gone else frozenset(now)}
        self.conntrack.forget(self.family, [stale], endpoints.get, awaited=awaited)


@pytest.fixture(params=[(family, way) for family in FAMILIES for way in ("filter", "dump", "at once")], ids="-".join)
def tracked(request: pytest.FixtureRequest, node: Namespace, nft: NftSocket) -> Iterator[ConntrackNetns]:
    """Delete as on Linux 6.8 and newer, as on older kernels, and for both families together."""
    family, way = request.param
    word = "10.96.0.{}" if family == "IPv4" else "fd00:96::{}"
    first, second = (ServiceAddress(word.format(each), "UDP", 53) for each in (1, 2))
    a, b = ((word.format(each), 5353) for each in (11, 12))
    with node.entered():
        conntrack = Conntrack()
        with IPRoute() as ip:
            ip.link("set", index=1, state="up")
            for address in (first.address, second.address, a[0], b[0]):
                ip.addr("add", index=1, address=address, prefixlen=32 if family == "IPv4" else 128)
    if way != "filter":
        conntrack._can_filter = False
    KernelTable(nft, family).load(Ruleset(family, (), (), {first: (a, b)}, {}, frozenset()))
    made = ConntrackNetns(node, conntrack, family, first, second, a, b, FAMILIES if way == "at once" else (family,))
    for address in (first.address, second.address, a[0], b[0]):
        eventually(lambda address=address: made.delivers(address), describe=address, every=0.001)  # type: ignore[misc]
    conntrack._request(2, family, b"")  # delete all
    yield made
    conntrack.close()


def untranslated(service: ServiceAddress) -> StaleUdp:
    return StaleUdp(service, (service.address, service.port))


def test_only_connections_to_the_removed_endpoint_are_deleted(tracked: ConntrackNetns) -> None:
    to_a, to_b, other = (
        StaleUdp(tracked.first, tracked.a),
        StaleUdp(tracked.first, tracked.b),
        untranslated(tracked.second),
    )
    tracked.connect(tracked.first)
    tracked.connect(tracked.second, 1)
    assert tracked.connections() == tracked.named(to_a, to_b, other)

    tracked.forget(to_a, tracked.b)

    assert tracked.connections() == tracked.named(to_b, other)


def test_connections_of_a_removed_frontend_are_deleted(tracked: ConntrackNetns) -> None:
    tracked.connect(tracked.first)

    for endpoint in (tracked.a, tracked.b):
        tracked.forget(StaleUdp(tracked.first, endpoint), gone=True)

    assert tracked.connections() == set()


def test_connections_that_were_never_translated_are_deleted_when_their_address_becomes_a_frontend(
    tracked: ConntrackNetns,
) -> None:
    tracked.connect(tracked.second)

    tracked.forget(untranslated(tracked.second), gone=True)
    kept = tracked.connections()
    tracked.forget(untranslated(tracked.second), tracked.a)

    assert (kept, tracked.connections()) == (tracked.named(untranslated(tracked.second)), set())


def test_all_connections_except_allowed_ones_can_be_deleted(tracked: ConntrackNetns) -> None:
    tracked.connect(tracked.first)
    tracked.connect(tracked.second)
    allowed = {tracked.first: frozenset({tracked.a}), tracked.second: frozenset[Endpoint]()}

    tracked.conntrack.forget_all_but({each: allowed if each == tracked.family else {} for each in tracked.families})

    assert tracked.connections() == tracked.named(StaleUdp(tracked.first, tracked.a))


def test_connections_to_a_service_that_went_unseen_are_deleted(tracked: ConntrackNetns) -> None:
    tracked.connect(tracked.first)
    tracked.connect(tracked.second)  # no rule translates it, so it may be somebody else's

    assert tracked.conntrack.forget_all_but({each: {} for each in tracked.families}) == []

    assert tracked.connections() == tracked.named(
        StaleUdp(tracked.second, (tracked.second.address, tracked.second.port))
    )


def test_already_deleted_connection_is_not_an_error(tracked: ConntrackNetns) -> None:
    tracked.connect(tracked.first)
    flows = tracked.flows()

    tracked.conntrack._delete(tracked.family, flows[0])
    tracked.conntrack._delete(tracked.family, flows[0])

    assert len(tracked.flows()) == len(flows) - 1


def test_connection_that_awaits_a_reply_is_checked_again(tracked: ConntrackNetns) -> None:
    tracked.connect(tracked.first)
    tracked.answer(tracked.first)
    stale = StaleUdp(tracked.first, tracked.a)

    tracked.forget(stale, tracked.b, awaited=False)

    assert tracked.answered() == []
    assert tracked.named(stale) <= tracked.connections()
    tracked.forget(stale, tracked.b)
    assert not tracked.named(stale) & tracked.connections()


def test_an_endpoint_that_came_back_keeps_its_connections(tracked: ConntrackNetns) -> None:
    tracked.connect(tracked.first)
    before = tracked.connections()

    tracked.forget(StaleUdp(tracked.first, tracked.a), tracked.a, tracked.b)

    assert tracked.connections() == before


def test_rules_and_proxy_compute_the_same_tag(tracked: ConntrackNetns) -> None:
    tracked.connect(tracked.first)

    for endpoint in (tracked.a, tracked.b):
        answered = end(tracked.family, *endpoint)
        marks = {each.mark & TAGS for each in tracked.flows() if each.answered == answered}
        assert marks == {tag(tracked.family, tracked.first, endpoint)}


@pytest.mark.parametrize("family", FAMILIES)
def test_ports_of_one_address_have_different_tags(family: Family) -> None:
    """A tag is forgotten with the connections of one port, and the other port may still have connections."""
    address, goes = ("10.0.0.1", "10.244.0.1") if family == "IPv4" else ("fd00:10::1", "fd00:10:244::1")

    tags = {tag(family, ServiceAddress(address, "UDP", port), (goes, 8080)) for port in range(30000, 30100)}

    assert len(tags) == 100


def test_entries_are_counted(tracked: ConntrackNetns) -> None:
    assert tracked.conntrack.entries() == 0

    tracked.connect(tracked.first, 3)

    assert tracked.conntrack.entries() == 3


@pytest.mark.parametrize("protocol", [17, 6])
def test_entry_with_another_layout_is_parsed(protocol: int) -> None:
    """The entry has a zone attribute after its ports."""
    ports = nested(2, attribute(1, bytes([protocol])), attribute(2, b"\x12\x34"), attribute(3, b"\0\x35"))
    sent = nested(1, attribute(1, b"\x0a\0\0\1"), attribute(2, b"\x0a\x60\0\1")) + ports + attribute(3, b"\0\7")
    back = nested(1, attribute(1, b"\x0a\xf4\0\1"), attribute(2, b"\x0a\0\0\1")) + ports

    flow = read_flow("IPv4", bytes(4) + nested(1, sent) + nested(2, back) + attribute(8, b"\x80\0\0\5"))

    if protocol == 17:
        assert flow is not None
        assert flow[:3] == (b"\x0a\x60\0\1\0\x35", b"\x0a\xf4\0\1\x12\x34", sent)
        assert flow.mark == 0x8000_0005
    else:
        assert flow is None
