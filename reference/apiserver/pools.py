"""Pools of cluster IPs and node ports.

A freed address is not reused while other addresses are free. Rules, conntrack entries and caches for the old address
may remain. If a new Service had this address, a test could reach the old Service and would prove nothing. The strategy
of a kind decides which addresses and ports an object needs.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from reference.apiserver.kinds import Allocations, FieldError
from reference.client import Object
from reference.features import Features

FIRST_NODE_PORT, LAST_NODE_PORT = 30000, 32767


class RefusedError(Exception):
    """A requested address or port is not available. `error` contains the field name."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class ExhaustedError(Exception):
    """All numbers of a pool are in use."""


class NumberPool:
    """Numbers from `first` to `last`, allocated in order. Freed numbers are reused last, the oldest first.

    Numbers below `start` are for explicit requests. Other requests get them only if all higher numbers are taken.
    """

    def __init__(self, first: int, last: int, *, start: int | None = None) -> None:
        self.first, self.last = first, last
        self._start = first if start is None else start
        self._unused = {True: iter(range(self._start, last + 1)), False: iter(range(first, self._start))}
        self._taken: set[int] = set()
        self._freed: dict[int, None] = {}  # in the order in which they were freed

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def take(self, number: int) -> bool:
        """Take this number. Return False if it is already taken."""
        if number in self._taken:
            return False
        self._freed.pop(number, None)
        self._taken.add(number)
        return True

    def take_any(self) -> int:
        """Take the number that has been free for the longest time. Raises `ExhaustedError`."""
        for upper, unused in self._unused.items():
            new = (each for each in unused if each not in self._taken and each not in self._freed)
            freed = (each for each in self._freed if (each >= self._start) is upper)
            number = next(chain(new, freed), None)
            if number is not None:
                self.take(number)
                return number
        raise ExhaustedError

    def give(self, number: int) -> None:
        self._taken.discard(number)
        self._freed[number] = None


def band(size: int, divisor: int, most: int) -> int:
    """Return how many numbers at the start of a range are left to explicit requests."""
    return 0 if size <= 16 else min(max(16, size // divisor), most)


class AddressPool:
    """The usable addresses of a CIDR, without the network address and, for IPv4, the broadcast address.

    The lowest sixteenth (16 to 256 addresses, KEP-3070) is reserved for explicit requests until all others are used.
    """

    def __init__(self, cidr: str) -> None:
        self.network = ipaddress.ip_network(cidr)
        base, size = int(self.network.network_address), self.network.num_addresses
        last = base + size - (2 if self.network.version == 4 else 1)
        self._numbers = NumberPool(base + 1, last, start=base + 1 + band(size, 16, 256))

    @property
    def family(self) -> str:
        return f"IPv{self.network.version}"

    def take(self, address: str) -> str:
        """Take this address, or any for "". Raises `ExhaustedError`, or `ValueError` with the message of Kubernetes."""
        if not address:
            return str(self._address(self._numbers.take_any()))
        wanted = ipaddress.ip_address(address)
        if wanted not in self.network or int(wanted) not in self._numbers:
            raise ValueError(
                f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. "
                f"The range of valid IPs is {self.network}"
            )
        if not self._numbers.take(int(wanted)):
            raise ValueError(f"failed to allocate IP {address}: provided IP is already allocated")
        return address

    def give(self, address: str) -> None:
        self._numbers.give(int(ipaddress.ip_address(address)))

    def _address(self, number: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        return self.network.network_address + (number - int(self.network.network_address))


@dataclass(frozen=True, slots=True)
class _Held:
    addresses: frozenset[tuple[str, str]] = frozenset()
    """Family and address."""
    ports: frozenset[int] = frozenset()


class Pools:
    """The pools of a cluster. They are not thread-safe; the store's lock protects them."""

    def __init__(self, service_cidrs: Sequence[str], features: Features) -> None:
        pools = [AddressPool(each) for each in service_cidrs]
        self.addresses: Mapping[str, AddressPool] = {pool.family: pool for pool in pools}
        # The lowest thirty-second (16 to 128 ports, KEP-3668) is reserved for explicit requests.
        reserved = band(LAST_NODE_PORT - FIRST_NODE_PORT + 1, 32, 128) if features.at_least(28) else 0
        self.ports = NumberPool(FIRST_NODE_PORT, LAST_NODE_PORT, start=FIRST_NODE_PORT + reserved)

    def assign(self, new: Object, wanted: Allocations, old: Object | None, held: Allocations) -> "Ledger":
        """Write addresses and ports into `new`. Those of `old` are kept. Raises `RefusedError`, `ExhaustedError`."""
        before = _holdings(old, held) if old is not None else _Held()
        ledger = Ledger(self, before)
        try:
            ledger.assign(new, wanted)
        except (RefusedError, ExhaustedError):
            ledger.undo()
            raise
        return ledger

    def release(self, old: Object, held: Allocations) -> None:
        """Free all addresses and ports of a removed object."""
        Ledger(self, _holdings(old, held)).commit()


@dataclass(slots=True)
class Ledger:
    """The allocations of one write, which can be committed or undone."""

    pools: Pools
    before: _Held
    _addresses: set[tuple[str, str]] = field(default_factory=set)
    _ports: set[int] = field(default_factory=set)
    _port_of: dict[int, int] = field(default_factory=dict)

    def assign(self, new: Object, wanted: Allocations) -> None:
        ports = new["spec"].get("ports") or []
        self._port_of = {each["port"]: each["nodePort"] for each in reversed(ports) if each.get("nodePort")}
        if wanted.ip_families:
            self._assign_addresses(new["spec"], wanted)
        for index in wanted.node_ports:
            self._assign_node_port(new["spec"]["ports"], index)
        if wanted.health_check_node_port:
            self._assign_health_check_port(new["spec"])

    def commit(self) -> None:
        self._give(self.before.addresses - self._addresses, self.before.ports - self._ports)

    def undo(self) -> None:
        self._give(self._addresses - self.before.addresses, self._ports - self.before.ports)

    def _give(
        self, addresses: set[tuple[str, str]] | frozenset[tuple[str, str]], ports: set[int] | frozenset[int]
    ) -> None:
        for family, address in sorted(addresses):
            self.pools.addresses[family].give(address)
        for port in sorted(ports):
            self.pools.ports.give(port)

    def _assign_addresses(self, spec: dict[str, Any], wanted: Allocations) -> None:
        addresses = []
        for index, family in enumerate(wanted.ip_families):
            asked = wanted.cluster_ips[index] if index < len(wanted.cluster_ips) else ""
            addresses.append(self._address(family, asked))
        spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses

    def _address(self, family: str, asked: str) -> str:
        if (family, asked) in self.before.addresses:
            self._addresses.add((family, asked))
            return asked
        if family not in self.pools.addresses:
            why = f"failed to allocate IP: this cluster has no {family} service addresses"
            raise RefusedError(FieldError("Invalid", "spec.ipFamilies", [family], why))
        try:
            address = self.pools.addresses[family].take(asked)
        except ValueError as error:
            raise RefusedError(FieldError("Invalid", "spec.clusterIPs", [asked], str(error))) from None
        self._addresses.add((family, address))
        return address

    def _assign_node_port(self, ports: list[dict[str, Any]], index: int) -> None:
        port = ports[index]
        asked = port.get("nodePort") or self._port_of.get(port["port"])  # TCP and UDP share the node port of a number
        if not asked:
            asked = self.pools.ports.take_any()
            self._ports.add(asked)
        else:
            self._take_port(asked, f"spec.ports[{index}].nodePort", "")
        port["nodePort"] = self._port_of[port["port"]] = asked

    def _assign_health_check_port(self, spec: dict[str, Any]) -> None:
        if asked := spec.get("healthCheckNodePort"):
            why = f"failed to allocate requested HealthCheck NodePort {asked}: "
            self._take_port(asked, "spec.healthCheckNodePort", why)
        else:
            spec["healthCheckNodePort"] = self.pools.ports.take_any()
            self._ports.add(spec["healthCheckNodePort"])

    def _take_port(self, port: int, path: str, why: str) -> None:
        if port in self._ports:  # another protocol on the same number
            return
        if port not in self.before.ports:
            if port not in self.pools.ports:
                valid = f"{FIRST_NODE_PORT}-{LAST_NODE_PORT}"
                detail = f"{why}provided port is not in the valid range. The range of valid ports is {valid}"
                raise RefusedError(FieldError("Invalid", path, port, detail))
            if not self.pools.ports.take(port):
                raise RefusedError(FieldError("Invalid", path, port, f"{why}provided port is already allocated"))
        self._ports.add(port)


def _holdings(obj: Object, held: Allocations) -> _Held:
    spec = obj.get("spec") or {}
    addresses = zip(held.ip_families, spec.get("clusterIPs") or (), strict=False)
    ports = [spec["ports"][index].get("nodePort") or 0 for index in held.node_ports]
    if held.health_check_node_port:
        ports.append(spec.get("healthCheckNodePort") or 0)
    return _Held(frozenset(addresses), frozenset(each for each in ports if each))
