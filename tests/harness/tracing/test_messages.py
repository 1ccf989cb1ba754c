"""Tests the parser for the kernel's trace messages. The messages were recorded on Linux 6.18."""

from __future__ import annotations

import pytest

from harness.netns.netlink import messages
from harness.tracing.messages import TRACE, TraceEvent, traced
from harness.tracing.packet import Packet, packet_of

SYN = Packet("tcp", "127.0.0.1", 50658, "127.0.0.9", 80, "SYN")

MESSAGES = {
    "c0000000110a000000000000000000000200000008000f00000000020800040000000003080006000520b774"
    "0b0002006f75747075740000100001007472616666696364697374000c00030000000000000000081400050008000100fffffffc"
    "060002006300000008000c000000000106000d0003040000180008004500003ce1cd400040065ae47f0000017f000009"
    "18000900c5e200501d55e41200000000a002ffd7fe3800000800150000000008050013000000000008001200417971b2": TraceEvent(
        "ip trafficdist", "output", "goto c", handle=8, packet=SYN, out=1
    ),
    "64000000110a000000000000000000000200000008000f00000000020800040000000003080006000520b774"
    "0600020063000000100001007472616666696364697374000c00030000000000000000060c0005000800010000000001"
    "08000e0000000001": TraceEvent("ip trafficdist", "c", "accept", handle=6, mark=1),
    "44000000110a000000000000000000000100000008000f00000000020800040000000001080006000520b774"
    "060002006f00000006000100740000000800100000000001": TraceEvent("inet t", "o", "accept", ends="policy"),
    "48000000110a000000000000000000000100000008000f00000000020800040000000003080006000520b774"
    "060002006f00000006000100740000000c00050008000100ffffffff": TraceEvent("inet t", "o", "continue"),
}


@pytest.mark.parametrize(("datagram", "said"), MESSAGES.items(), ids=["goto", "accept", "policy", "end"])
def test_message_is_read(datagram: str, said: TraceEvent) -> None:
    assert [(kind, traced(body)) for kind, _, _, body in messages(bytes.fromhex(datagram))] == [(TRACE, said)]


def test_messages_in_one_datagram_are_read_in_order() -> None:
    both = "".join(MESSAGES)
    assert [traced(body) for _, _, _, body in messages(bytes.fromhex(both))] == list(MESSAGES.values())


def test_ipv6_packet_is_read() -> None:
    header = "6000000000141140" + "fd00" + "0" * 26 + "05" + "fd00" + "0" * 26 + "09"
    assert packet_of(bytes.fromhex(header), bytes.fromhex("2af80050")) == Packet("udp", "fd00::5", 11000, "fd00::9", 80)
    assert str(packet_of(bytes.fromhex(header), bytes.fromhex("2af80050"))) == "[fd00::5]:11000 → [fd00::9]:80"


@pytest.mark.parametrize("header", ["", "45", "ff" * 40], ids=["empty", "truncated", "unknown-family"])
def test_data_that_is_not_an_ip_packet_is_none(header: str) -> None:
    assert packet_of(bytes.fromhex(header)) is None
