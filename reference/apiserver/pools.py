"""Pools of cluster IPs and node ports.

A freed address is not reused while the pool has unreserved addresses that were never used. Rules, conntrack entries and
caches may still map the freed address to its old Service. If a new Service got the address, a test of the new Service
could reach the old one and still pass.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from reference.apiserver.kinds import Allocations, FieldError, Strategy
from reference.client import Object
from reference.features import Features

FIRST_NODE_PORT, LAST_NODE_PORT = 30000, 32767


class NotAvailableError(Exception):
    """A requested address or port is not available. `error` names the field of the Service."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class ExhaustedError(Exception):
    """All numbers of a pool are in use."""


class NumberPool:
    """Numbers from `first` to `last`, allocated in order. Numbers are reused in the order in which they were freed.

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
        """Take a number that was never taken, or else the number that was freed earliest. Raises `ExhaustedError`."""
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
    """Return the number of values at the start of a range that are reserved for explicit requests."""
    return 0 if size <= 16 else min(max(16, size // divisor), most)


class AddressPool:
    """The usable addresses of a CIDR, without the network address and, for IPv4, the broadcast address.

    Until all other addresses are used, the lowest sixteenth (16 to 256, KEP-3070) is reserved for explicit requests.
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
        """Take `address`; "" means any. Raises `ExhaustedError`, or `ValueError` with Kubernetes' error message."""
        if not address:
            return str(self.network[self._numbers.take_any() - int(self.network.network_address)])
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


_Taken = tuple[str, str | int]
"""A pair of an IP family and an address, or of "" and a node port."""


class Pools:
    """The pools of a cluster. They are not thread-safe, so callers must hold the lock of the store."""

    def __init__(self, service_cidrs: Sequence[str], features: Features) -> None:
        pools = [AddressPool(each) for each in service_cidrs]
        self.addresses: Mapping[str, AddressPool] = {pool.family: pool for pool in pools}
        # The lowest thirty-second (16 to 128 ports, KEP-3668) is reserved for explicit requests.
        reserved = band(LAST_NODE_PORT - FIRST_NODE_PORT + 1, 32, 128) if features.at_least(28) else 0
        self.ports = NumberPool(FIRST_NODE_PORT, LAST_NODE_PORT, start=FIRST_NODE_PORT + reserved)

    def assign(self, strategy: Strategy, new: Object, old: Object | None) -> "Reservation":
        """Set the addresses and ports of `new`, which may keep those of `old`. Raises an error of this module."""
        ledger = Reservation(self, _held(strategy, old) if old is not None else frozenset())
        try:
            ledger.assign(new, strategy.allocations(new))
        except (NotAvailableError, ExhaustedError):
            ledger.undo()
            raise
        return ledger

    def release(self, strategy: Strategy, old: Object) -> None:
        Reservation(self, _held(strategy, old)).commit()


@dataclass(slots=True)
class Reservation:
    """Addresses and ports of an object before and after a write. `commit` frees the old ones, `undo` the new ones."""

    pools: Pools
    before: frozenset[_Taken]
    _after: set[_Taken] = field(default_factory=set)

    def assign(self, new: Object, wanted: Allocations) -> None:
        if wanted.ip_families:
            addresses = list(map(self._address, wanted.ip_families, wanted.cluster_ips))
            new["spec"]["clusterIP"], new["spec"]["clusterIPs"] = addresses[0], addresses
        if wanted.node_ports:
            self._assign_node_ports(new["spec"]["ports"], wanted.node_ports)
        if wanted.health_check_node_port:
            asked = new["spec"].get("healthCheckNodePort") or 0
            why = f"failed to allocate requested HealthCheck NodePort {asked}: "
            new["spec"]["healthCheckNodePort"] = self._node_port(asked, "spec.healthCheckNodePort", why)

    def commit(self) -> None:
        self._give(self.before - self._after)

    def undo(self) -> None:
        self._give(self._after - self.before)

    def _give(self, taken: AbstractSet[_Taken]) -> None:
        for family, number in sorted(taken, key=str):
            if isinstance(number, str):
                self.pools.addresses[family].give(number)
            else:
                self.pools.ports.give(number)

    def _address(self, family: str, asked: str) -> str:
        if (family, asked) in self.before:
            self._after.add((family, asked))
            return asked
        if family not in self.pools.addresses:
            why = f"failed to allocate IP: this cluster has no {family} service addresses"
            raise NotAvailableError(FieldError("Invalid", "spec.ipFamilies", [family], why))
        try:
            address = self.pools.addresses[family].take(asked)
        except ValueError as error:
            raise NotAvailableError(FieldError("Invalid", "spec.clusterIPs", [asked], str(error))) from None
        self._after.add((family, address))
        return address

    def _assign_node_ports(self, ports: list[dict[str, Any]], indexes: Sequence[int]) -> None:
        """TCP and UDP ports with the same number share a node port."""
        known = {each["port"]: each["nodePort"] for each in reversed(ports) if each.get("nodePort")}
        for index in indexes:
            port = ports[index]
            asked = port.get("nodePort") or known.get(port["port"]) or 0
            port["nodePort"] = known[port["port"]] = self._node_port(asked, f"spec.ports[{index}].nodePort")

    def _node_port(self, asked: int, path: str, why: str = "") -> int:
        pool = self.pools.ports
        if not asked:
            asked = pool.take_any()
        elif ("", asked) not in self.before and ("", asked) not in self._after:
            if asked not in pool:
                valid = f"{FIRST_NODE_PORT}-{LAST_NODE_PORT}"
                detail = f"{why}provided port is not in the valid range. The range of valid ports is {valid}"
                raise NotAvailableError(FieldError("Invalid", path, asked, detail))
            if not pool.take(asked):
                raise NotAvailableError(FieldError("Invalid", path, asked, f"{why}provided port is already allocated"))
        self._after.add(("", asked))
        return asked


def _held(strategy: Strategy, obj: Object) -> frozenset[_Taken]:
    held = strategy.allocations(obj)
    taken: list[_Taken] = [each for each in zip(held.ip_families, held.cluster_ips, strict=True) if each[1]]
    ports = [obj["spec"]["ports"][index].get("nodePort") for index in held.node_ports]
    if held.health_check_node_port:
        ports.append(obj["spec"].get("healthCheckNodePort"))
    return frozenset([*taken, *(("", each) for each in ports if each)])
