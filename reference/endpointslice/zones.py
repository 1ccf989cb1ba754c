"""The CPU of each zone, updated for each node event (KEP-2433, Assumptions; kube-controller-manager 1.21 and newer)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Literal

from reference.client import Object
from reference.endpointslice.labels import node_zone
from reference.features import Features

Why = Literal["NodesUnknown", "OneZone", "TooFewEndpoints", "Overloaded", "ZoneUnknown"]

_CONTROL_PLANE = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})
_MOST = Decimal(2**63 - 1)
_FACTORS = {
    "n": Decimal("1e-6"),
    "u": Decimal("1e-3"),
    "m": Decimal(1),
    "k": Decimal(10) ** 6,
    "M": Decimal(10) ** 9,
    "": Decimal(1000),
}


@dataclass(frozen=True, slots=True)
class NoHintsReason:
    """The reason why there are no hints: a machine-readable value in `why`, and a message for users."""

    why: Why
    message: str


@dataclass(frozen=True, slots=True)
class ZoneShares:
    """The weights of at least two zones, sorted by zone name: their milli-CPU, or their number of nodes."""

    weights: Mapping[str, int]
    total: int


@dataclass(frozen=True, slots=True)
class _NodeCpu:
    """The zone of a node ("" if unknown), and its allocatable CPU in thousandths of a core (0 if unknown)."""

    zone: str
    milli_cpu: int


class ZoneTable:
    """The total CPU of each zone. `counts` selects the nodes. `version` increases whenever `shares` may change."""

    def __init__(self, features: Features, nodes: Mapping[str, Object] | None = None) -> None:
        self.version = 0
        self._counts_nodes = features.follows == "kep"
        self._features = features
        self._places: dict[str, _NodeCpu] = {}
        self._nodes: Counter[str] = Counter()  # by zone
        self._milli_cpu: Counter[str] = Counter()
        self._without_cpu = 0
        self._shares: ZoneShares | NoHintsReason | None = None
        for name, node in (nodes or {}).items():
            self.put(name, node)

    def put(self, name: str, node: Object | None) -> None:
        """Add or replace a node; None removes it."""
        old = self._places.get(name)
        new = None if node is None else self._place(node)
        if new == old:
            return
        if old is not None:
            self._add(self._places.pop(name), -1)
        if new is not None:
            self._places[name] = new
            self._add(new, 1)
        self._shares = None
        self.version += 1

    @property
    def shares(self) -> ZoneShares | NoHintsReason:
        """The weight of each zone, or the reason why there are no weights.

        Every included node must have a zone. If the CPU of any node is unknown, the KEP counts each node as one core.
        Released controllers then refuse hints, and give the same reason as for a single zone.
        """
        if self._shares is None:
            self._shares = self._weigh()
        return self._shares

    def _place(self, node: Object) -> _NodeCpu | None:
        if not counts(node, self._features):
            return None
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        return _NodeCpu(node_zone(node), milli_cpu(str(allocatable.get("cpu", ""))))

    def _add(self, place: _NodeCpu, count: int) -> None:
        self._nodes[place.zone] += count
        self._milli_cpu[place.zone] += count * place.milli_cpu
        self._without_cpu += count * (place.milli_cpu == 0)
        if not self._nodes[place.zone]:
            del self._nodes[place.zone], self._milli_cpu[place.zone]

    def _weigh(self) -> ZoneShares | NoHintsReason:
        if "" in self._nodes or (not self._counts_nodes and (self._without_cpu or len(self._nodes) < 2)):
            message = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
            return NoHintsReason("NodesUnknown", message)
        if len(self._nodes) < 2:
            return NoHintsReason("OneZone", "Nodes only ready in one zone" if self._nodes else "No nodes are ready")
        weights = dict(sorted((self._nodes if self._without_cpu else self._milli_cpu).items()))
        return ZoneShares(weights, sum(weights.values()))


def counts(node: Object, features: Features) -> bool:
    """Return whether a node is included in the totals: it is ready and (since 1.23) not a control plane node."""
    if features.at_least(23) and not _CONTROL_PLANE.isdisjoint(node["metadata"].get("labels") or {}):
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


@lru_cache(maxsize=1024)
def milli_cpu(quantity: str) -> int:
    """Return a CPU quantity in thousandths of a core, rounded up, or 0 if it is invalid."""
    number, factor = quantity, _FACTORS[""]
    if quantity[-1:] in _FACTORS:
        number, factor = quantity[:-1], _FACTORS[quantity[-1:]]
    try:
        return max(0, int(min(Decimal(number) * factor, _MOST).to_integral_value(ROUND_CEILING)))
    except (ArithmeticError, ValueError):
        return 0
