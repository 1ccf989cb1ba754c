"""Proxies that are wrong only in one edge case, and correct in the cases that most requirements test."""

from __future__ import annotations

from dataclasses import replace

from mutants.mutant import NO_ANSWER, REACHED, REFUSED, Mutant
from mutants.proxy_hints import accepts_partial_zone_hints
from mutants.proxy_policies import hints_on_top_of_local, narrowed_on_top_of_local
from mutants.wrong_decisions import DecisionInput, faults_in, in_each, without_hints
from reference.proxy.decision import Action, Decision, Drop, Reject

MUTANTS: list[Mutant] = []


def _is_balanced(asked: DecisionInput) -> bool:
    return bool(asked.port.load_balancer_ips)


_every = faults_in(MUTANTS)
_ipv6 = faults_in(MUTANTS, about=lambda asked: asked.is_ipv6)
_balanced = faults_in(MUTANTS, about=_is_balanced)
_udp_node_port = faults_in(
    MUTANTS, about=lambda asked: asked.port.protocol == "UDP" and asked.port.node_port > 0 and not _is_balanced(asked)
)


# Conditions


@_every("unready-as-last-resort", "If no endpoint is ready or serving, the proxy uses endpoints that are starting.")
def unready_as_last_resort(asked: DecisionInput) -> Decision:
    lost = not asked.ready and not asked.leaving
    wanted = [each._replace(ready=each.ready or (lost and not each.terminating)) for each in asked.endpoints]
    return asked.answer(endpoints=wanted)


@_every(
    "drops-where-none-is-ready",
    "The proxy drops packets if all endpoints of a Service are unready, and rejects them only if it has no endpoints.",
    symptom=NO_ANSWER,
)
def drops_where_none_is_ready(asked: DecisionInput) -> Decision:
    def silent(action: Action) -> Action:
        lost = asked.endpoints and not asked.ready
        return Drop(action.reason) if isinstance(action, Reject) and lost else action

    return in_each(asked.answer(), silent)


@_udp_node_port(
    "no-last-resort-at-udp-node-ports",
    "The proxy never uses terminating endpoints for UDP traffic to node ports.",
    symptom=f"{REFUSED}|{NO_ANSWER}",
)
def no_last_resort_at_udp_node_ports(asked: DecisionInput) -> Decision:
    right, wrong = asked.answer(), asked.answer(endpoints=[each for each in asked.endpoints if not each.terminating])
    return replace(right, inside=wrong.inside, outside=wrong.outside)


# Hints


@_every("node-hints-need-a-zone", "On a node without a zone label, the proxy ignores node hints.")
def node_hints_need_a_zone(asked: DecisionInput) -> Decision:
    return asked.answer() if asked.place.zone else asked.answer(endpoints=without_hints(asked.endpoints, zones=False))


@_every(
    "node-hints-on-top-of-local", "Node hints restrict the endpoints that a Local policy selects.", symptom=NO_ANSWER
)
def node_hints_on_top_of_local(asked: DecisionInput) -> Decision:
    return narrowed_on_top_of_local(asked, asked.place.node, lambda each: each.node_hints)


_balanced(
    "hints-on-top-of-local-at-load-balancers",
    "On Services with load balancer addresses, hints restrict the endpoints that a Local policy selects.",
    "Calico eBPF",
    symptom=NO_ANSWER,
)(hints_on_top_of_local)


@_balanced(
    "affinity-ignores-node-hints-at-load-balancers",
    "On Services with session affinity, the proxy ignores node hints at load balancer addresses.",
)
def affinity_ignores_node_hints_at_load_balancers(asked: DecisionInput) -> Decision:
    if not asked.port.affinity_seconds:
        return asked.answer()
    wrong = asked.answer(endpoints=without_hints(asked.endpoints, zones=False))
    return replace(asked.answer(), inside=wrong.inside, outside=wrong.outside)


_ipv6("accepts-partial-hints-over-ipv6", "Over IPv6, the proxy follows hints even if an endpoint has no hints.")(
    accepts_partial_zone_hints
)


@_ipv6(
    "no-policies-at-external-addresses-over-ipv6",
    "Over IPv6, the proxy ignores externalTrafficPolicy Local.",
    symptom=f"{REACHED}|{NO_ANSWER}",
)
def no_policies_at_external_addresses_over_ipv6(asked: DecisionInput) -> Decision:
    return asked.answer(port=replace(asked.port, external_local=False))
