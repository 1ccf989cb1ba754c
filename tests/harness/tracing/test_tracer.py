"""Tests that the kernel traces the first packet of a probe in one netns. The trace leaves nothing behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from harness.errors import UnavailableError
from harness.netns import rtnetlink
from harness.netns.namespace import Namespace
from harness.tracing.messages import TRACE_TABLE
from harness.tracing.tracer import rules_in, tracing

PORT = 9


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.create() as created:
        rtnetlink.execute(created, [rtnetlink.up(rtnetlink.LOOPBACK)])
        yield created


def knock(namespace: Namespace, protocol: str, address: str, port: int = PORT) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with namespace.socket(family, socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM) as sock:
        sock.connect_ex((address, port))
        if protocol == "UDP":
            sock.send(b"who")


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"], ids=["IPv4", "IPv6"])
def test_first_packet_is_traced_from_source_to_destination(namespace: Namespace, protocol: str, address: str) -> None:
    with tracing(namespace, protocol, address, PORT) as take:
        knock(namespace, protocol, address)
        told = [each for each in take() if each.packet]
        assert {each.packet.destination_port for each in told if each.packet} == {PORT}
        assert [each.chain for each in told][:2] == ["first-output", "last-postrouting"]
        assert told[0].packet is not None
        assert told[0].packet.protocol == protocol.lower()
        assert take() == []


def test_other_packets_are_not_traced(namespace: Namespace) -> None:
    with tracing(namespace, "TCP", "127.0.0.1", PORT) as take:
        knock(namespace, "TCP", "127.0.0.1", PORT + 1)
        knock(namespace, "UDP", "127.0.0.1")
        knock(namespace, "TCP", "127.0.0.2")
        knock(namespace, "TCP", "::1")
        assert take() == []


def test_nothing_is_left_after_an_error(namespace: Namespace) -> None:
    def fail() -> None:
        with tracing(namespace, "TCP", "127.0.0.1", PORT):
            assert {table for table, _, _ in rules_in(namespace)} == {f"inet {TRACE_TABLE}"}
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert rules_in(namespace) == []


def test_second_trace_at_the_same_time_is_refused(namespace: Namespace) -> None:
    wanted = "the kernel cannot trace packets here: cannot make the table"
    with (
        tracing(namespace, "TCP", "127.0.0.1", PORT),
        pytest.raises(UnavailableError, match=wanted),
        tracing(namespace, "TCP", "127.0.0.1", PORT),
    ):
        pass
