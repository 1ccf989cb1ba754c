"""Proxies that are wrong only for a combination of several conditions, for example UDP and IPv6."""

from __future__ import annotations

from dataclasses import replace

from mutants.mutant import NO_ANSWER, REACHED, Mutant
from mutants.proxy_hints import external_addresses_ignore_hints
from mutants.proxy_policies import external_local_restricts_clients_inside
from mutants.wrong_decisions import DecisionInput, faults_in, without_hints
from reference.proxy.decision import Decision

MUTANTS: list[Mutant] = []

EITHER = f"{REACHED}|{NO_ANSWER}"  # an endpoint that must not answer, or whose reply takes a different path


def _unhinted(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints))


def _policies_as_cluster(asked: DecisionInput) -> Decision:
    return asked.answer(port=replace(asked.port, internal_local=False, external_local=False))


def _without_last_resort(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=[each for each in asked.endpoints if each.ready])


_udp_ipv6 = faults_in(MUTANTS, about=lambda asked: asked.port.protocol == "UDP" and asked.is_ipv6)
_ipv6 = faults_in(MUTANTS, about=lambda asked: asked.is_ipv6)
_sticky = faults_in(MUTANTS, about=lambda asked: bool(asked.port.affinity_seconds))
_many = faults_in(MUTANTS, about=lambda asked: len(asked.endpoints) > 100)
_balanced = faults_in(MUTANTS, about=lambda asked: bool(asked.port.load_balancer_ips))
_external_ip = faults_in(MUTANTS, about=lambda asked: bool(asked.port.external_ips))
_every = faults_in(MUTANTS)


_udp_ipv6("no-policies-over-udp-and-ipv6", "The proxy ignores traffic policies for UDP over IPv6.", symptom=EITHER)(
    _policies_as_cluster
)


_udp_ipv6("no-hints-over-udp-and-ipv6", "The proxy ignores hints for UDP over IPv6.")(_unhinted)


_ipv6("no-hints-at-external-addresses-over-ipv6", "Over IPv6, the proxy follows hints only at the cluster IP.")(
    external_addresses_ignore_hints
)


_ipv6(
    "no-last-resort-over-ipv6", "Over IPv6, terminating endpoints are never used.", symptom="was refused|got no answer"
)(_without_last_resort)


@_ipv6("unready-over-ipv6", "Over IPv6, the proxy uses unready endpoints like ready endpoints.")
def unready_over_ipv6(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=[each._replace(ready=True) for each in asked.endpoints])


_sticky(
    "no-last-resort-with-affinity",
    "On Services with session affinity, the proxy never uses terminating endpoints.",
    symptom="was refused|got no answer",
)(_without_last_resort)


@_sticky(
    "no-external-local-with-affinity",
    "On Services with session affinity, the proxy ignores externalTrafficPolicy Local.",
    symptom=EITHER,
)
def no_external_local_with_affinity(asked: DecisionInput) -> Decision:
    return asked.answer(port=replace(asked.port, external_local=False))


@_many(
    "first-hundred-endpoints",
    "The proxy uses only the first 100 endpoints of a Service.",
    symptom=f"{EITHER}|was refused",
)
def first_hundred_endpoints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=asked.endpoints[:100])


_many("no-hints-over-a-hundred", "The proxy ignores hints on a Service with more than 100 endpoints.")(_unhinted)


_many(
    "no-policies-over-a-hundred",
    "The proxy ignores traffic policies on a Service with more than 100 endpoints.",
    symptom=EITHER,
)(_policies_as_cluster)


_balanced(
    "external-local-for-all-at-load-balancers",
    "On a Service with load balancer IPs and externalTrafficPolicy Local, in-cluster clients are treated like "
    "external clients.",
    symptom=EITHER,
)(external_local_restricts_clients_inside)


@_external_ip(
    "internal-local-at-external-ips",
    "On Services with external IPs, internalTrafficPolicy Local also applies to external addresses.",
    symptom=EITHER,
)
def internal_local_at_external_ips(asked: DecisionInput) -> Decision:
    right = asked.answer()
    return replace(right, inside=right.cluster_ip) if asked.port.internal_local else right


@_external_ip(
    "no-hints-inside-at-external-ips",
    "On Services with external IPs, the proxy ignores hints for in-cluster clients that connect to external addresses.",
)
def no_hints_inside_at_external_ips(asked: DecisionInput) -> Decision:
    return replace(asked.answer(), inside=_unhinted(asked).inside)


@_every(
    "target-port-of-the-first-pod",
    "The proxy uses the target port number of the first endpoint for all endpoints.",
    symptom=f"{EITHER}|was refused",
)
def target_port_of_the_first_pod(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=[each._replace(port=asked.endpoints[0].port) for each in asked.endpoints])
