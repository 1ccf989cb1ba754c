"""Tests that the packets of a flow are captured at both ends, with timestamps and in a format for Wireshark."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.model.outcomes import REFUSED
from harness.netns import rtnetlink
from harness.netns.namespace import Namespace
from harness.tracing.messages import TraceEvent
from harness.tracing.packet import Frame, Packet, of_flow
from harness.tracing.path import TracedProbe, at_node, wire
from harness.tracing.probe_tracing import as_pcap, capturing

SYN = Packet("tcp", "10.244.1.3", 11000, "10.96.1.1", 80, "SYN")
SENT = Packet("tcp", "10.0.0.3", 32717, "10.244.4.2", 8080, "SYN")
OTHER = replace(SYN, source_port=12000)


def frame(packet: Packet, *, at: int = 0, where: str = "client", concerns: Packet | None = None) -> Frame:
    return Frame(at, where, "eth0", True, b"E", concerns or packet, packet)


def back(packet: Packet, flags: str = "SYN ACK") -> Packet:
    return Packet("tcp", packet.destination, packet.destination_port, packet.source, packet.source_port, flags)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.create() as created:
        rtnetlink.execute(created, [rtnetlink.up(rtnetlink.LOOPBACK)])
        yield created


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"], ids=["IPv4", "IPv6"])
def test_icmp_error_is_captured_with_its_original_packet(namespace: Namespace, host: str) -> None:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with capturing({"client": namespace}) as take, namespace.socket(kind, socket.SOCK_DGRAM) as sock:
        sock.connect((host, 9))
        sock.send(b"who")
        port = sock.getsockname()[1]
        frames = [each for each in take() if each.out]
    asked = Packet("udp", host, port, host, 9)
    assert [each.concerns for each in frames] == [asked, asked]
    assert [each.packet.protocol for each in frames] == ["udp", "icmp" if kind == socket.AF_INET else "ipv6-icmp"]
    assert (frames[0].where, frames[0].link) == ("client", "lo")
    assert 0 < time.time() - frames[0].at / 1e9 < 10
    assert of_flow(frames, asked, None) == frames


def test_flow_has_both_directions_before_and_after_the_translation_and_no_other() -> None:
    unreachable = Packet("icmp", "10.0.0.3", 0, "10.244.1.3", 0)
    flow = [frame(SYN), frame(SENT), frame(back(SENT)), frame(back(SYN)), frame(unreachable, concerns=SYN)]
    others = [frame(OTHER), frame(unreachable), frame(replace(SYN, protocol="udp"))]
    assert of_flow([*flow, *others], SYN, SENT) == flow


def test_capture_is_a_file_of_raw_ip_packets_in_nanoseconds() -> None:
    written = as_pcap([replace(frame(SYN), at=1_700_000_000_000_000_123, data=b"E\0data")])
    assert struct.unpack_from("<IHHiIII", written) == (0xA1B23C4D, 2, 4, 0, 0, 65536, 101)
    assert struct.unpack_from("<IIII", written, 24) == (1_700_000_000, 123, 6, 6)
    assert written[40:] == b"E\0data"


def followed(*frames: Frame, trace: tuple[TraceEvent, ...] = ()) -> TracedProbe:
    return TracedProbe([REFUSED], trace, frames=frames, to=("10.96.1.1", 80))


def test_captured_packets_are_shown_with_times_and_names() -> None:
    reset = back(SYN, "RST ACK")
    frames = (frame(SYN, at=5_000_000), replace(frame(reset, at=5_040_500, where="node a1"), out=False))
    assert wire(followed(*frames), {"10.96.1.1": "web"}) == [
        "    +0.000 ms  client, out over eth0: 10.244.1.3:11000 → web (10.96.1.1:80) tcp SYN",
        "    +0.041 ms  node a1, in over eth0: web (10.96.1.1:80) → 10.244.1.3:11000 tcp RST ACK",
    ]


def test_icmp_error_shows_its_original_packet() -> None:
    unreachable = Packet("icmp", "10.0.0.3", 0, "10.244.1.3", 0)
    told = wire(followed(frame(SYN), frame(unreachable, concerns=SYN)), {})
    assert told[1].endswith("10.0.0.3 → 10.244.1.3 icmp about 10.244.1.3:11000 → 10.96.1.1:80")


def test_first_packet_is_the_request_of_this_client() -> None:
    told = wire(followed(frame(SENT), frame(SYN)), {})
    assert told == ["    +0.000 ms  client, out over eth0: 10.244.1.3:11000 → 10.96.1.1:80 tcp SYN"]


def test_long_flow_is_cut() -> None:
    assert wire(followed(*[frame(SYN)] * 18), {})[-1] == "… and 2 more"


def test_capture_file_exists_if_packets_reached_the_node() -> None:
    client, node = frame(SYN), frame(SYN, where="node a1")
    assert at_node(followed(client, node)) == [node]
    assert at_node(followed(client)) == [client]
    assert at_node(followed()) == []
