"""Builds proxies that make wrong decisions, and proxies that apply a correct decision wrongly.

A fault is a function from a `DecisionInput` to a decision. Most faults return the correct decision for a modified
input, so that everything else remains correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mutants.mutant import NO_ANSWER, REACHED, REFUSED, Mutant
from reference.proxy import ServiceProxy
from reference.proxy.decision import (
    Action,
    Behaviour,
    Decision,
    Drop,
    Endpoint,
    Forward,
    OwnNode,
    Reject,
    ServicePort,
    decide,
)
from reference.proxy.state import State

NONE: frozenset[str] = frozenset()

MUTANTS: list[Mutant] = []


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """The arguments of `decide`."""

    port: ServicePort
    endpoints: Sequence[Endpoint]
    place: OwnNode
    behaviour: Behaviour

    def answer(self, **changes: Any) -> Decision:
        """Return the correct decision for this question, or for the question with `changes`."""
        asked = replace(self, **changes)
        return decide(asked.port, asked.endpoints, asked.place, asked.behaviour)

    def instead(self, action: Action) -> Decision:
        """Return the correct decision with `action` for the `Cluster` list. Decisions for a `Local` policy are
        unchanged."""
        right = self.answer()
        return replace(
            right,
            cluster_ip=right.cluster_ip if self.port.internal_local else action,
            outside=right.outside if self.port.external_local or right.outside is None else action,
            inside=None if right.inside is None else action,
        )

    @property
    def ready(self) -> list[Endpoint]:
        return [each for each in self.endpoints if each.ready]

    @property
    def starting(self) -> list[Endpoint]:
        return [each for each in self.endpoints if not each.ready and not each.terminating]

    @property
    def leaving(self) -> list[Endpoint]:
        return [each for each in self.endpoints if each.terminating and each.serving and not each.ready]

    @property
    def is_ipv6(self) -> bool:
        return any(":" in address for address in self.port.cluster_ips)


Wrong = Callable[[DecisionInput], Decision]


def deciding(wrong: Wrong) -> Callable[..., Decision]:
    """Return a function with the signature of `decide` that passes its arguments to `wrong` as a `DecisionInput`."""

    def decide_wrongly(
        port: ServicePort, endpoints: Iterable[Endpoint], place: OwnNode, behaviour: Behaviour
    ) -> Decision:
        return wrong(DecisionInput(port, tuple(endpoints), place, behaviour))

    return decide_wrongly


def proxy_deciding(
    wrong: Wrong, *, about: Callable[[DecisionInput], bool] = lambda _: True
) -> Callable[..., ServiceProxy]:
    """Return a proxy that makes wrong decisions for questions where `about` is true, and correct ones otherwise."""
    decided = deciding(lambda asked: wrong(asked) if about(asked) else asked.answer())
    return partial(ServiceProxy, state=partial(State, decide=decided))


def faults_in(
    mutants: list[Mutant], *, about: Callable[[DecisionInput], bool] = lambda _: True
) -> Callable[..., Callable[[Wrong], Wrong]]:
    """Return a decorator that adds a mutant. Its decisions are wrong for questions where `about` is true."""

    def fault(name: str, sentence: str, provenance: str = "", *, symptom: str = REACHED) -> Callable[[Wrong], Wrong]:
        def register(wrong: Wrong) -> Wrong:
            proxy = proxy_deciding(wrong, about=about)
            mutants.append(Mutant(name, sentence, provenance, symptom, proxy=proxy))
            return wrong

        return register

    return fault


def without_hints(endpoints: Iterable[Endpoint], *, zones: bool = True, nodes: bool = True) -> list[Endpoint]:
    """Return the endpoints without hints of these kinds."""
    return [
        each._replace(zone_hints=NONE if zones else each.zone_hints, node_hints=NONE if nodes else each.node_hints)
        for each in endpoints
    ]


def address(endpoint: Endpoint) -> tuple[str, int]:
    """Return a sort key that identifies an endpoint independently of the order of endpoints."""
    return endpoint[:2]


# Outcomes

_fault = faults_in(MUTANTS)


def in_each(decision: Decision, change: Callable[[Action], Action]) -> Decision:
    """Return the decision with every action changed."""

    def changed(action: Action | None) -> Action | None:
        return None if action is None else change(action)

    cluster_ip = change(decision.cluster_ip)
    return replace(decision, cluster_ip=cluster_ip, outside=changed(decision.outside), inside=changed(decision.inside))


@_fault("rejects-where-drop-is-due", "The proxy rejects packets that it should drop.", symptom=REFUSED)
def rejects_where_drop_is_due(asked: DecisionInput) -> Decision:
    right = asked.answer()
    return in_each(right, lambda action: Reject(action.reason) if isinstance(action, Drop) else action)


@_fault(
    "drops-where-reject-is-due",
    "The proxy drops packets that it should reject.",
    "kube-router",
    symptom=NO_ANSWER,
)
def drops_where_reject_is_due(asked: DecisionInput) -> Decision:
    right = asked.answer()
    return in_each(right, lambda action: Drop(action.reason) if isinstance(action, Reject) else action)


@_fault(
    "starves-one-endpoint",
    "One of several endpoints never gets a connection.",
    "calico#8423, calico#10430",
    symptom="never reached",
)
def starves_one_endpoint(asked: DecisionInput) -> Decision:
    def starved(action: Action) -> Action:
        match action:
            case Forward(chosen, reason) if len(chosen) > 1:
                starving = max(chosen, key=address)
                return Forward(tuple(each for each in chosen if each != starving), reason)
        return action

    return in_each(asked.answer(), starved)
