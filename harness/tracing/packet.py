"""Parses the headers of packets."""

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp", 1: "icmp", 58: "ipv6-icmp"}
_WITH_PORTS = {"tcp", "udp", "sctp"}
_ERRORS = {"icmp": (b"\3", b"\13"), "ipv6-icmp": (b"\1", b"\3")}  # ICMP types: unreachable, and time exceeded
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_FLAGS = ((_SYN, "SYN"), (_FIN, "FIN"), (_RST, "RST"), (_ACK, "ACK"))

_HEADERS = {4: struct.Struct("9xB2x4s4s"), 6: struct.Struct("6xBx16s16s")}  # protocol, source, destination

End = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Packet:
    """The protocol, addresses and ports (or 0) of a packet. `flags` contains the names of its TCP flags."""

    protocol: str
    source: str
    source_port: int
    destination: str
    destination_port: int
    flags: str = ""

    @property
    def ends(self) -> frozenset[End]:
        """Return the source and the destination as a set, which is the same in both directions."""
        return frozenset({(self.source, self.source_port), (self.destination, self.destination_port)})

    def __str__(self) -> str:
        return f"{_end(self.source, self.source_port)} → {_end(self.destination, self.destination_port)}"


@dataclass(frozen=True, slots=True)
class Frame:
    """A captured packet. `at` is a Unix time in ns. `concerns` is the packet that caused an ICMP error, or `packet`."""

    at: int
    where: str
    link: str
    out: bool
    data: bytes
    concerns: Packet
    packet: Packet


def of_flow(frames: Sequence[Frame], first: Packet, last: Packet | None) -> list[Frame]:
    """Return the frames of the flow of packet `first`, and its ICMP errors. `last` is `first` after NAT."""
    known = {each.ends for each in (first, last) if each}
    client = (first.source, first.source_port)
    return [
        each
        for each in frames
        if each.concerns.protocol == first.protocol and (each.concerns.ends in known or client in each.concerns.ends)
    ]


def about(packet: Packet, data: bytes) -> Packet | None:
    """Return the packet that caused this ICMP error, or None for any other packet."""
    length = 40 if data[0] >> 4 == 6 else (data[0] & 15) * 4
    error = data[length : length + 1] in _ERRORS.get(packet.protocol, ())
    return packet_of(data[length + 8 :]) if error else None


def packet_of(network: bytes, transport: bytes | None = None) -> Packet | None:
    """Parse an IP header, or return None if it is not one. Without `transport`, `network` is the whole packet."""
    version = network[0] >> 4 if network else 0
    if version not in _HEADERS or len(network) < _HEADERS[version].size:
        return None
    header = _HEADERS[version].unpack_from(network)
    protocol, source, destination = header[0], *map(ipaddress.ip_address, header[1:])
    length = 40 if version == 6 else (network[0] & 15) * 4
    name = _PROTOCOLS.get(protocol, str(protocol))
    rest = network[length:] if transport is None else transport
    ports = struct.unpack_from(">HH", rest) if name in _WITH_PORTS and len(rest) >= 4 else (0, 0)
    bits = rest[13] if name == "tcp" and len(rest) > 13 else 0
    flags = " ".join(word for bit, word in _FLAGS if bits & bit)
    return Packet(name, str(source), ports[0], str(destination), ports[1], flags)


def _end(address: str, port: int) -> str:
    where = f"[{address}]" if ":" in address and port else address
    return f"{where}:{port}" if port else where
