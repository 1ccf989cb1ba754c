"""The address plan of an embedded cluster: the addresses of every node and pod, and virtual addresses.

An address shows its node and pod: `10.244.3.5` and `fd00:10:244:3::5` are pod 5 of the third node, and pod 12 has
`::12`, not `::c`. All ranges are private, or reserved for benchmarks and documentation (RFC 1918, 2544, 4193, 5737).
"""

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.errors import UsageError
from harness.model.topology import MAX_NODES

Family = Literal["IPv4", "IPv6"]
FAMILIES: tuple[Family, ...] = get_args(Family)
NUMBERS: Mapping[Family, socket.AddressFamily] = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}

MAX_PODS = 253  # per node: .2 to .254, as .1 is usually a gateway

POD_CIDRS: Mapping[Family, str] = {"IPv4": "10.244.0.0/16", "IPv6": "fd00:10:244::/48"}
SERVICE_CIDRS: Mapping[Family, str] = {"IPv4": "10.96.0.0/16", "IPv6": "fd00:10:96::/112"}
EXTERNAL_CLIENT: Mapping[Family, str] = {"IPv4": "192.0.2.10", "IPv6": "fd00:192:2::10"}
EVERYTHING: Mapping[Family, str] = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}

_VIRTUAL = {"load-balancer": 18, "external-ip": 19}  # the kind's number in virtual addresses, such as 198.18.3.1

# The next hop of every default route. No device has this address or needs it (see `rtnetlink.veth`).
GATEWAY: Mapping[Family, str] = {"IPv4": "169.254.1.1", "IPv6": "fe80::1"}


def family_of(address: str) -> Family:
    return "IPv6" if ":" in address else "IPv4"


def by_family(addresses: Iterable[str]) -> dict[str, str]:
    return {family_of(each): each for each in addresses}


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    number: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= MAX_NODES:
            raise UsageError(f"node number {self.number}: an embedded cluster has 1 to {MAX_NODES} nodes")

    @property
    def addresses(self) -> dict[Family, str]:
        i = self.number
        return {"IPv4": f"10.0.{i // 250}.{i % 250 + 1}", "IPv6": f"fd00:10::{i}"}

    @property
    def pod_cidrs(self) -> dict[Family, str]:
        return {"IPv4": f"10.244.{self.number}.0/24", "IPv6": f"fd00:10:244:{self.number}::/64"}

    @property
    def virtual_cidrs(self) -> list[str]:
        """The ranges of load balancer IPs and external IPs that the network routes to this node."""
        patterns = (f"198.{{}}.{self.number}.0/24", f"fd00:198:{{}}:{self.number}::/64")
        return [pattern.format(kind) for pattern in patterns for kind in _VIRTUAL.values()]

    def pod(self, number: int) -> dict[Family, str]:
        return {"IPv4": f"10.244.{self.number}.{number}", "IPv6": f"fd00:10:244:{self.number}::{number}"}

    def virtual(self, kind: str, number: int) -> dict[Family, str]:
        """Return virtual address `number` (1 to 254) of a kind, which is "load-balancer" or "external-ip"."""
        of = _VIRTUAL[kind]
        return {"IPv4": f"198.{of}.{self.number}.{number}", "IPv6": f"fd00:198:{of}:{self.number}::{number}"}


def families_of(names: Sequence[str]) -> tuple[Family, ...]:
    """Check the names of IP families, and return them in the same order. Raises `UsageError`."""
    known = tuple(family for name in names for family in FAMILIES if family == name)
    if not known or len(known) != len(names) or len(set(known)) != len(known):
        raise UsageError(f"families {tuple(names)!r}: expected IPv4, IPv6 or both, each once")
    return known
