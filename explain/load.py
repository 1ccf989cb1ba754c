"""Compute the load of each endpoint of a Service from the location of the clients.

If clients prefer nearby endpoints, some endpoints may be overloaded (KEP-4444, Risks and Mitigations).
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explain.case import endpoints_of
from explain.cluster import Cluster
from explain.diagnosis import Diagnosis
from harness.api.client import Object
from harness.errors import UsageError
from reference.objects.endpoints import is_ready
from reference.proxy.objects import canonical


@dataclass(frozen=True, slots=True)
class ZoneLoad:
    """Endpoints of one zone with equal shares of the load. `even` is the share of each under even load."""

    zone: str
    endpoints: int
    share: float
    even: float

    @property
    def load(self) -> float:
        """`share` divided by `even`: 2.0 is twice the even load."""
        return self.share / self.even


def shares(found: Diagnosis, slices: Sequence[Object], cluster: Cluster, clients: str) -> list[ZoneLoad]:
    """Return the load of endpoints, grouped by zone and share, for the first port of each IP family.

    `clients` is "nodes", "cpu", or shares of zones like "a=5,b=3". Raises `UsageError`.
    """
    weight, known = _weights(clients, cluster), endpoints_of(slices)
    zones = {canonical(each["addresses"][0]): str(each.get("zone") or "") for each, _ in known}
    borne = {canonical(each["addresses"][0]): 0.0 for each, _ in known if is_ready(each)}
    even, total = 1 / len(borne) if borne else 0.0, 0.0
    first: dict[str, str] = {}
    for route in (each for each in found.routes if first.setdefault(each.family, each.label) == each.label):
        heavy = sum(map(weight, route.nodes))
        total += heavy
        for address in route.endpoints:
            borne[address] = borne.get(address, 0.0) + heavy / len(route.targets)
    alike = Counter((zones.get(address, ""), round(each / total, 6)) for address, each in borne.items() if total)
    return [ZoneLoad(zone, count, share, even) for (zone, share), count in sorted(alike.items())]


def _weights(clients: str, cluster: Cluster) -> Callable[[str], float]:
    if clients == "nodes":
        return lambda _: 1.0
    if clients == "cpu":
        return lambda name: float(cluster.nodes[name].milli_cpu)
    table: dict[str, float] = {}
    for each in clients.split(","):
        zone, sign, value = each.partition("=")
        if not sign or not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) or zone not in cluster.names_of_zones:
            there = ", ".join(cluster.names_of_zones)
            raise UsageError(f"--clients {clients}: expected nodes, cpu, or shares of zones ({there}) like a=5,b=3")
        table[zone] = float(value)
    held = Counter(each.zone for each in cluster.nodes.values())
    return lambda name: table.get(zone := cluster.nodes[name].zone, 0.0) / held[zone]
