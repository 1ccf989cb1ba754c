"""Proxies that distribute connections wrongly: the set of endpoints is correct, but the rates are not.

An endpoint's share is its fraction of the slots, so an endpoint can have several slots. The reference's table keeps one
slot per endpoint, so it would lose duplicate slots when a Service changes. These tables keep the rendered slots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mutants.mutant import REACHED, REFUSED, Mutant
from mutants.wrong_decisions import DecisionInput, Wrong, address, deciding, in_each
from mutants.wrong_tables import ReplacesTables
from reference.proxy import ServiceProxy
from reference.proxy.decision import Action, Decision, Forward
from reference.proxy.ruleset import MOST_ENDPOINTS, RuleAction
from reference.proxy.table import Table

LEAK = 20  # one in this many connections
NOBODY = 1  # a port on which no pod listens

MUTANTS: list[Mutant] = []

Place = Callable[[RuleAction | None, RuleAction], RuleAction]
"""Returns the slots of a service address. The arguments are its current slots and the rendered slots."""


def _as_rendered(_: RuleAction | None, wanted: RuleAction) -> RuleAction:
    return wanted


class KeepsDuplicateSlots(ReplacesTables):
    """Uses the rendered slots in their order, including duplicates, unless a `Place` function rearranges them."""

    def __init__(self, *arguments: Any, place: Place = _as_rendered, **parts: Any) -> None:
        super().__init__(*arguments, table=partial(Table, place=place), **parts)


def _share(name: str, sentence: str, provenance: str = "", *, symptom: str) -> Callable[[Wrong], Wrong]:
    def register(wrong: Wrong) -> Wrong:
        state = partial(KeepsDuplicateSlots, decide=deciding(wrong))
        MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=partial(ServiceProxy, state=state)))
        return wrong

    return register


@_share(
    "leaks-five-percent",
    "One connection in twenty goes to an endpoint outside the zone.",
    "Istio and Kuma, by design",
    symptom=REACHED,
)
def leaks_five_percent(asked: DecisionInput) -> Decision:
    right = asked.answer()
    others = [each for each in asked.ready if asked.place.zone not in each.zone_hints]
    match right.cluster_ip if not asked.port.internal_local else right.inside:
        case Forward(chosen) if right.mode == "PreferSameZone" and others:
            times = max(1, min(LEAK - 1, MOST_ENDPOINTS // (len(chosen) + 1) - 1))
            leak = (min(others, key=address),) * round(times * len(chosen) / (LEAK - 1))
            return asked.instead(Forward(chosen * times + leak, f"and one in {LEAK} elsewhere"))
    return right


@_share(
    "one-endpoint-twice",
    "One of several endpoints gets twice as many connections as any other endpoint.",
    symptom="where an equal share is",
)
def one_endpoint_twice(asked: DecisionInput) -> Decision:
    def doubled(action: Action) -> Action:
        match action:
            case Forward(chosen, reason) if len(chosen) > 1:
                return Forward((min(chosen, key=address), *chosen), reason)
        return action

    return in_each(asked.answer(), doubled)


@_share(
    "one-endpoint-twice-with-topology-keys",
    "For Services with topology keys, one endpoint gets twice as many connections as any other endpoint.",
    symptom="where an equal share is",
)
def one_endpoint_twice_with_topology_keys(asked: DecisionInput) -> Decision:
    return one_endpoint_twice(asked) if asked.port.topology_keys else asked.answer()


@_share(
    "favours-its-own-node",
    "An endpoint on the client's node gets twice as many connections as any other endpoint.",
    symptom="where an equal share is",
)
def favours_its_own_node(asked: DecisionInput) -> Decision:
    def favoured(action: Action) -> Action:
        match action:
            case Forward(chosen, reason):
                return Forward((*(each for each in chosen if each.node == asked.place.node), *chosen), reason)
        return action

    return in_each(asked.answer(), favoured)


def _refusing(asked: DecisionInput, times: int) -> Decision:
    """Return the correct decision, plus an unused port `times` times for each endpoint."""

    def refused(action: Action) -> Action:
        match action:
            case Forward(chosen, reason):
                return Forward((*chosen, *[each._replace(port=NOBODY) for each in chosen] * times), reason)
        return action

    return in_each(asked.answer(), refused)


@_share("refuses-half", "The proxy rejects every second connection.", symptom=REFUSED)
def refuses_half(asked: DecisionInput) -> Decision:
    return _refusing(asked, 1)


@_share("refuses-three-quarters", "The proxy rejects three out of four connections.", symptom=REFUSED)
def refuses_three_quarters(asked: DecisionInput) -> Decision:
    return _refusing(asked, 3)


def _piled_up(current: RuleAction | None, wanted: RuleAction) -> RuleAction:
    """At each change, keep all slots of the remaining endpoints, and add another slot for each of them."""
    if not isinstance(current, tuple) or not isinstance(wanted, tuple):
        return wanted
    if set(current) == set(wanted):
        return current
    return (*(each for each in current if each in wanted), *wanted)[-MOST_ENDPOINTS:]


MUTANTS.append(
    Mutant(
        "shares-pile-up",
        "Each time endpoints are added or removed, the endpoints that stay get an extra slot.",
        symptom="where an equal share is",
        proxy=partial(ServiceProxy, state=partial(KeepsDuplicateSlots, place=_piled_up)),
    )
)
