"""Records the outcome of the last sync, and the last Event, of each Service with CPU hints.

After a node change, the controller only compares a few recorded numbers for each Service, and syncs a Service only if
its hints can change. An Event is written only when hints appear, disappear, or are refused for a different reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from reference.client import Key
from reference.endpointslice.allocation import HintRules
from reference.endpointslice.cpu_hints import CpuOutcome, may_change
from reference.endpointslice.endpoints import AddressType
from reference.endpointslice.plan import SlicePlan
from reference.endpointslice.zones import NoHintsReason, ZoneShares

_ENABLED = "Enabled"


class EventContent(NamedTuple):
    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(slots=True)
class _Service:
    outcomes: dict[AddressType, CpuOutcome] = field(default_factory=dict)
    reported: dict[AddressType, str] = field(default_factory=dict)  # _ENABLED, or the refusal's `why`


class CpuHintedServices:
    def __init__(self, rules: HintRules) -> None:
        self._rules = rules
        self._services: dict[Key, _Service] = {}

    def note(self, key: Key, plan: SlicePlan, *, first_look: bool) -> list[EventContent]:
        """Record a sync and return its Events. Hints from before the first sync of this controller cause no Event."""
        outcomes = {
            family: each.outcome for family, each in plan.families.items() if isinstance(each.outcome, CpuOutcome)
        }
        known = self._services.get(key)
        if known is None:
            if not outcomes:
                return []
            known = self._services[key] = _Service()
        known.outcomes = outcomes
        notices = [
            _notice(family, enabled=False, message="Topology Aware Hints has been disabled")
            for family, reported in known.reported.items()
            if reported == _ENABLED and family not in outcomes
        ]
        for family, outcome in outcomes.items():
            before = known.reported.get(family, _ENABLED if first_look and outcome.had_hints else "")
            known.reported[family] = _ENABLED if outcome.refusal is None else outcome.refusal.why
            if known.reported[family] != before:
                message = outcome.refusal.message if outcome.refusal else "Topology Aware Hints has been enabled"
                notices.append(_notice(family, enabled=outcome.refusal is None, message=message))
        if not outcomes:
            del self._services[key]
        return notices

    def forget(self, key: Key) -> None:
        self._services.pop(key, None)

    def affected(self, shares: ZoneShares | NoHintsReason) -> Iterator[Key]:
        """Yield the Services whose hints could change if the zones have these `shares` of the CPU."""
        for key, service in self._services.items():
            if any(may_change(outcome, shares, self._rules) for outcome in service.outcomes.values()):
                yield key


def _notice(family: AddressType, *, enabled: bool, message: str) -> EventContent:
    message += f", addressType: {family}"
    if enabled:
        return EventContent("Normal", "TopologyAwareHintsEnabled", message)
    return EventContent("Warning", "TopologyAwareHintsDisabled", message)
