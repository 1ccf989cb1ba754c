"""UDP connections are forgotten one by one, by a filter or by a dump."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from pyroute2 import IPRoute

from harness.netns.namespace import Namespace
from reference.proxy.conntrack import Conntrack
from reference.proxy.netlink import NftSocket
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import Backend, Frontend, Ruleset, Stale

FIRST, SECOND = Frontend("10.96.0.1", "UDP", 53), Frontend("10.96.0.2", "UDP", 53)
A, B = ("10.9.0.1", 5353), ("10.9.0.2", 5353)


@dataclass
class Tracked:
    """A netns that forwards FIRST to A or B, and clients in it."""

    node: Namespace
    conntrack: Conntrack
    allowed: dict[Frontend, frozenset[Backend]] = field(default_factory=dict)

    def connect(self, frontend: Frontend, count: int = 20) -> None:
        for _ in range(count):
            with self.node.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.sendto(b"x", (frontend.address, frontend.port))

    def connections(self) -> set[Stale]:
        return {entry.connection for entry in self.conntrack._entries("IPv4")}


@pytest.fixture(params=["filter", "dump"])
def tracked(request: pytest.FixtureRequest, node: Namespace, nft: NftSocket) -> Iterator[Tracked]:
    """As Linux 6.8 and newer do it, and as older ones do."""
    with node.entered():
        conntrack = Conntrack()
        with IPRoute() as ip:
            ip.link("set", index=1, state="up")
            for address in (FIRST.address, SECOND.address, A[0], B[0]):
                ip.addr("add", index=1, address=address, prefixlen=32)
    if request.param == "dump":
        conntrack._can_filter = False
    KernelTable(nft, "IPv4").load(Ruleset("IPv4", (), ("10.0.0.0/8",), {FIRST: (A, B)}, {}, frozenset()))
    made = Tracked(node, conntrack)
    made.connect(FIRST)
    made.connect(SECOND, 1)
    yield made
    conntrack.close()


UNTRANSLATED = Stale(SECOND, ("10.96.0.2", 53))


def test_only_connections_to_the_endpoint_that_left_are_deleted(tracked: Tracked) -> None:
    assert tracked.connections() == {Stale(FIRST, A), Stale(FIRST, B), UNTRANSLATED}

    tracked.conntrack.forget("IPv4", [Stale(FIRST, A)], {FIRST: frozenset({B})}.get)

    assert tracked.connections() == {Stale(FIRST, B), UNTRANSLATED}


def test_all_connections_of_a_frontend_that_is_gone_are_deleted(tracked: Tracked) -> None:
    tracked.conntrack.forget("IPv4", [Stale(FIRST, None)], dict[Frontend, frozenset[Backend]]().get)

    assert tracked.connections() == {UNTRANSLATED}


def test_connections_that_were_never_translated_are_deleted_when_their_address_becomes_a_frontend(
    tracked: Tracked,
) -> None:
    tracked.conntrack.forget("IPv4", [UNTRANSLATED], {SECOND: frozenset({A})}.get)

    assert tracked.connections() == {Stale(FIRST, A), Stale(FIRST, B)}


def test_everything_else_than_what_is_right_can_be_deleted(tracked: Tracked) -> None:
    tracked.conntrack.forget_all_but("IPv4", [FIRST, SECOND], {FIRST: frozenset({A}), SECOND: frozenset()}.get)

    assert tracked.connections() == {Stale(FIRST, A)}


def test_a_tuple_that_is_gone_already_is_no_error(tracked: Tracked) -> None:
    entries = list(tracked.conntrack._entries("IPv4"))

    tracked.conntrack._delete("IPv4", entries[0].key)
    tracked.conntrack._delete("IPv4", entries[0].key)

    assert len(list(tracked.conntrack._entries("IPv4"))) == len(entries) - 1


def test_connections_without_answer_have_a_second_chance(tracked: Tracked) -> None:
    with tracked.node.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(A)
        tracked.connect(FIRST)
        _, client = server.recvfrom(10)
        server.sendto(b"answer", client)
    answered = {entry.key for entry in tracked.conntrack._entries("IPv4") if entry.answered}

    tracked.conntrack.forget("IPv4", [Stale(FIRST, A)], {FIRST: frozenset({B})}.get, answered=True)

    left = list(tracked.conntrack._entries("IPv4"))
    assert len(answered) == 1
    assert answered.isdisjoint({entry.key for entry in left})
    assert Stale(FIRST, A) in {entry.connection for entry in left}


def test_an_endpoint_that_came_back_keeps_its_connections(tracked: Tracked) -> None:
    before = tracked.connections()

    tracked.conntrack.forget("IPv4", [Stale(FIRST, A)], {FIRST: frozenset({A, B})}.get)
    tracked.conntrack.forget("IPv4", [Stale(FIRST, None)], {FIRST: frozenset({A, B})}.get)

    assert tracked.connections() == before
