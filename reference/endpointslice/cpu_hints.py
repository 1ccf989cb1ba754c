"""Sets hints in proportion to the CPU of zones, for all endpoints of one address family (topology annotation).

Each zone receives its share of the endpoints, starting with the endpoints in the zone. Slices with valid hints stay
unchanged, unless they are written for another reason. Source: KEP-2433, EndpointSlice Controller. The steps are the
same as in released Kubernetes. With the KEP's rules, a last step gives each zone its minimum
(`allocation.HintRules.evens_out`).
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reference.client import Object
from reference.endpointslice.allocation import Allocation, HintRules, allocate
from reference.endpointslice.packing import SliceDraft
from reference.endpointslice.zones import NoHintsReason, ZoneShares
from reference.objects.endpoints import is_ready


@dataclass(frozen=True, slots=True)
class CpuOutcome:
    """The outcome of the heuristic for one address family.

    `endpoints` is the number of endpoints that can have hints. `zones` contains the number of endpoints hinted for each
    zone. `refusal` is the reason why there are no hints. `had_hints` is true if the slices had hints before.
    """

    endpoints: int
    zones: Counter[str]
    refusal: NoHintsReason | None
    had_hints: bool


@dataclass(slots=True)
class _OpenSlice:
    """A slice that will be written, with the zone in the hint of each endpoint (None for no hint)."""

    draft: SliceDraft
    zones: list[str | None]


@dataclass(slots=True)
class _HintState:
    """The unchanged slices (`standing`), the slices to write (`open`), and the number of hinted endpoints by zone."""

    standing: list[SliceDraft] = field(default_factory=list)
    open: list[_OpenSlice] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def hint_by_cpu(
    drafts: Sequence[SliceDraft], existing: Iterable[Object], shares: ZoneShares | NoHintsReason, rules: HintRules
) -> CpuOutcome:
    """Set or remove hints in one address family. The threshold depends on whether the slices `existing` have hints."""
    had_hints = any("hints" in endpoint for each in existing for endpoint in each.get("endpoints") or ())
    endpoints = sum(_counts(endpoint, rules) for draft in drafts for endpoint in draft.endpoints)
    found = allocate(shares, endpoints, rules.to_keep if had_hints else rules.to_add)
    result = found if isinstance(found, NoHintsReason) else _share_out(drafts, found, rules)
    if isinstance(result, NoHintsReason):
        for draft in drafts:
            draft.set_hints([None] * len(draft.endpoints))
        return CpuOutcome(endpoints, Counter(), result, had_hints)
    for each in result.open:
        each.draft.set_hints([None if zone is None else {"forZones": [{"name": zone}]} for zone in each.zones])
    return CpuOutcome(endpoints, +result.counts, None, had_hints)


def may_change(outcome: CpuOutcome, shares: ZoneShares | NoHintsReason, rules: HintRules) -> bool:
    """Return whether a sync with `shares` could change hints, for example because a zone has too few endpoints."""
    hinted = outcome.refusal is None
    found = allocate(shares, outcome.endpoints, rules.to_keep if hinted else rules.to_add)
    if isinstance(found, NoHintsReason) or not hinted:
        return hinted is isinstance(found, NoHintsReason)
    return not outcome.zones.keys() <= found.portions.keys() or any(
        outcome.zones[zone] < portion.minimum for zone, portion in found.portions.items()
    )


def _share_out(drafts: Sequence[SliceDraft], allocation: Allocation, rules: HintRules) -> _HintState | NoHintsReason:
    state = _HintState()
    for draft in drafts:
        if draft.changed or not _stands(draft, allocation, state.counts, rules):
            state.open.append(_OpenSlice(draft, [_own_zone(each, rules) for each in draft.endpoints]))
        else:
            state.standing.append(draft)
    for each in state.open:
        if "" in each.zones:
            return NoHintsReason("ZoneUnknown", "One or more endpoints do not have a zone specified")
        state.counts.update(zone for zone in each.zones if zone is not None)
    if rules.evens_out:
        _rehome(state, allocation)
    _move(state, _balancing_moves(state.counts, allocation))
    if rules.evens_out:
        _fill_up(state, allocation)
    return state


def _counts(endpoint: Object, rules: HintRules) -> bool:
    return not rules.ready_only or is_ready(endpoint)


def _own_zone(endpoint: Object, rules: HintRules) -> str | None:
    return str(endpoint.get("zone", "")) if _counts(endpoint, rules) else None


def _hinted_zone(endpoint: Object) -> str | None:
    """Return the zone if the hints are exactly one zone, None if there are no hints, or "" for any other hints."""
    if "hints" not in endpoint:
        return None
    hints = endpoint["hints"] or {}
    zones = hints.get("forZones") or []
    return str(zones[0]["name"]) if len(hints) == len(zones) == 1 else ""


def _stands(draft: SliceDraft, allocation: Allocation, counts: Counter[str], rules: HintRules) -> bool:
    """Return whether the hints of a slice are complete and valid. If so, add its endpoints to `counts`."""
    mine: Counter[str] = Counter()
    for endpoint in draft.endpoints:
        zone = _hinted_zone(endpoint)
        if (zone is not None) != _counts(endpoint, rules):
            return False
        if zone is not None:
            mine[zone] += 1
    for zone, count in mine.items():
        portion = allocation.portions.get(zone)
        if portion is None or counts[zone] + count > portion.maximum:
            return False
    counts.update(mine)
    return True


def _balancing_moves(counts: Counter[str], allocation: Allocation) -> tuple[Counter[str], Counter[str]]:
    """Return the number of endpoints that each zone gives to other zones and receives from other zones.

    Each move is from the zone with the largest surplus to the zone with the largest deficit.
    """
    unit = allocation.unit
    over = {zone: counts[zone] * unit - portion.desired for zone, portion in allocation.portions.items()}
    giving = [(-amount, zone) for zone, amount in over.items() if amount > 0]
    receiving = [(amount, zone) for zone, amount in over.items() if amount < 0]
    heapq.heapify(giving)
    heapq.heapify(receiving)
    gives: Counter[str] = Counter()
    takes: Counter[str] = Counter()
    while giving and receiving:
        (surplus, giver), (deficit, receiver) = giving[0], receiving[0]
        if max(-surplus, -deficit) < unit or 2 * min(-surplus, -deficit) < unit:
            break
        gives[giver] += 1
        takes[receiver] += 1
        _advance(giving, surplus + unit, giver)
        _advance(receiving, deficit + unit, receiver)
    return gives, takes


def _advance(heap: list[tuple[int, str]], amount: int, zone: str) -> None:
    if amount < 0:
        heapq.heapreplace(heap, (amount, zone))
    else:
        heapq.heappop(heap)


def _move(state: _HintState, moves: tuple[Counter[str], Counter[str]]) -> None:
    gives, takes = moves
    receivers = sorted(takes)
    for each in state.open:
        for number, zone in enumerate(each.zones):
            if zone is None or not gives[zone]:
                continue
            gives[zone] -= 1
            _hand_over(state, each, number, receivers[0])
            takes[receivers[0]] -= 1
            if not takes[receivers[0]]:
                del receivers[0]
        if not receivers:
            return


def _hand_over(state: _HintState, holder: _OpenSlice, number: int, receiver: str) -> None:
    before = holder.zones[number]
    if before is not None:
        state.counts[before] -= 1
    holder.zones[number] = receiver
    state.counts[receiver] += 1


def _rehome(state: _HintState, allocation: Allocation) -> None:
    """Assign each endpoint whose zone has no portion to the zone that lacks the most endpoints."""
    for each in state.open:
        for number, zone in enumerate(each.zones):
            if zone is not None and zone not in allocation.portions:
                neediest = min(
                    allocation.portions.items(),
                    key=lambda item: state.counts[item[0]] * allocation.unit - item[1].desired,
                )
                _hand_over(state, each, number, neediest[0])


def _fill_up(state: _HintState, allocation: Allocation) -> None:
    """Give every zone its minimum. Take endpoints from unchanged slices only if open slices have no spare endpoints."""
    needy = [zone for zone, portion in allocation.portions.items() if state.counts[zone] < portion.minimum]
    if not needy:
        return
    spare = {zone: state.counts[zone] - portion.minimum for zone, portion in allocation.portions.items()}
    supply: dict[str, list[tuple[_OpenSlice, int]]] = {}
    for each in reversed(state.open):
        _offer(each, supply)
    for receiver in needy:
        for _ in range(-spare[receiver]):
            while not any(spare[zone] > 0 for zone in supply):
                # There is an unchanged slice left, because the minima do not exceed the number of endpoints.
                draft = state.standing.pop(0)
                state.open.append(_OpenSlice(draft, [_hinted_zone(each) for each in draft.endpoints]))
                _offer(state.open[-1], supply)
            giver = min((zone for zone in supply if spare[zone] > 0), key=lambda zone: (-spare[zone], zone))
            spare[giver] -= 1
            _hand_over(state, *supply[giver].pop(), receiver)
            if not supply[giver]:
                del supply[giver]


def _offer(holder: _OpenSlice, supply: dict[str, list[tuple[_OpenSlice, int]]]) -> None:
    for number in range(len(holder.zones) - 1, -1, -1):
        zone = holder.zones[number]
        if zone is not None:
            supply.setdefault(zone, []).append((holder, number))
