"""Applies `decide` to the states of `conformance/small_scope.py`, for the command `check-decisions`."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from reference.proxy.decision import NEWEST, Action, Decision, Drop, Endpoint, Forward, OwnNode, ServicePort, decide

Answer = frozenset[str] | str

_PORT = ServicePort("default", "web", "", "TCP", 80, 30080, ("10.96.0.1",), ("192.0.2.1",), ("192.0.2.2",))


def answering(decide: Callable[..., Decision] = decide) -> Callable[[Any], Answer]:
    """Return a function that takes a state and returns the endpoints that its client can use, or "drop" or "reject"."""
    known: Any = None
    read: list[Endpoint] = []
    answers: dict[tuple[str, str, str], tuple[Answer, Answer, Answer]] = {}

    def answer(state: Any) -> Answer:
        nonlocal known, read
        if state.endpoints is not known:
            known, read = state.endpoints, [_read(each) for each in state.endpoints]
            answers.clear()
        key = (state.node, state.internal, state.external)
        if key not in answers:
            decision = decide(_port(state.internal, state.external), read, OwnNode(state.node, state.zone), NEWEST)
            answers[key] = (_answer(decision.cluster_ip), _answer(decision.outside), _answer(decision.inside))
        return answers[key][0 if state.to == "cluster-ip" else 1 if state.client == "external" else 2]

    return answer


@cache
def _port(internal: str, external: str) -> ServicePort:
    return replace(_PORT, internal_local=internal == "Local", external_local=external == "Local")


def _read(each: Any) -> Endpoint:
    ready, serving, terminating = each.ready is not False, each.serving is not False, each.terminating is True
    return Endpoint(each.address, 8080, ready, serving, terminating, each.node, each.zone_hints, each.node_hints)


def _answer(action: Action | None) -> Answer:
    if isinstance(action, Forward):
        return frozenset([each.address for each in action.endpoints])
    return "drop" if isinstance(action, Drop) else "reject"


decide_plain_values = answering()
