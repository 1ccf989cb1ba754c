"""The addresses of a packet, read off its headers."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp", 1: "icmp", 58: "ipv6-icmp"}
_WITH_PORTS = {"tcp", "udp", "sctp"}
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_FLAGS = ((_SYN, "SYN"), (_FIN, "FIN"), (_RST, "RST"), (_ACK, "ACK"))


@dataclass(frozen=True, slots=True)
class Packet:
    """Protocol, addresses and ports; ports are 0 where the protocol has none. `flags` are those of TCP, as words."""

    protocol: str
    source: str
    source_port: int
    destination: str
    destination_port: int
    flags: str = ""

    @property
    def begins(self) -> bool:
        """True if it may be the first one of a connection."""
        return self.protocol != "tcp" or self.flags == "SYN"

    def __str__(self) -> str:
        return f"{_end(self.source, self.source_port)} → {_end(self.destination, self.destination_port)}"


def packet_of(network: bytes, transport: bytes | None = None) -> Packet | None:
    """Return the packet with this IP header; None for anything else. Without `transport` that follows the IP header.

    Extension headers of IPv6 are not read: no packet of a probe has one.
    """
    read = {4: _ipv4, 6: _ipv6}.get(network[0] >> 4) if network else None
    if read is None or len(network) < (20 if read is _ipv4 else 40):
        return None
    protocol, source, destination, length = read(network)
    name = _PROTOCOLS.get(protocol, str(protocol))
    rest = network[length:] if transport is None else transport
    ports = struct.unpack_from(">HH", rest) if name in _WITH_PORTS and len(rest) >= 4 else (0, 0)
    bits = rest[13] if name == "tcp" and len(rest) > 13 else 0
    flags = " ".join(word for bit, word in _FLAGS if bits & bit)
    return Packet(name, str(source), ports[0], str(destination), ports[1], flags)


_Header = tuple[int, ipaddress.IPv4Address | ipaddress.IPv6Address, ipaddress.IPv4Address | ipaddress.IPv6Address, int]


def _ipv4(header: bytes) -> _Header:
    source, destination = (ipaddress.IPv4Address(header[at : at + 4]) for at in (12, 16))
    return header[9], source, destination, (header[0] & 15) * 4


def _ipv6(header: bytes) -> _Header:
    source, destination = (ipaddress.IPv6Address(header[at : at + 16]) for at in (8, 24))
    return header[6], source, destination, 40


def _end(address: str, port: int) -> str:
    where = f"[{address}]" if ":" in address and port else address
    return f"{where}:{port}" if port else where
