"""Proxies that apply endpoint conditions or traffic policies wrongly."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from mutants.mutant import NO_ANSWER, REFUSED, Mutant
from mutants.wrong_decisions import DecisionInput, faults_in, without_hints
from reference.proxy.decision import Decision, Drop, Endpoint, Forward

MUTANTS: list[Mutant] = []

_fault = faults_in(MUTANTS)


# Conditions


@_fault(
    "uses-unready-hinted-endpoint",
    "The proxy uses a hinted endpoint that is not ready, instead of falling back to another node or zone.",
    "kubernetes PR#106507",
)
def uses_unready_hinted_endpoint(asked: DecisionInput) -> Decision:
    right = asked.answer()
    unready = asked.starting
    on_node = tuple(each for each in unready if asked.place.node in each.node_hints)
    in_zone = tuple(each for each in unready if asked.place.zone in each.zone_hints and not right.mode)
    chosen = on_node or in_zone
    return asked.instead(Forward(chosen, "hinted, if not ready")) if chosen else right


@_fault(
    "unready-endpoint-breaks-hints", "An endpoint that is not ready and has no hint disables hints.", "cilium#47960"
)
def unready_endpoint_breaks_hints(asked: DecisionInput) -> Decision:
    return _broken_by(asked, asked.starting)


@_fault(
    "terminating-endpoint-breaks-hints",
    "A terminating endpoint without a hint disables hints.",
    "cilium PR#45947, Calico eBPF",
)
def terminating_endpoint_breaks_hints(asked: DecisionInput) -> Decision:
    return _broken_by(asked, [each for each in asked.endpoints if each.terminating])


@_fault("unready-endpoint-breaks-node-hints", "An endpoint that is not ready and has no hint disables node hints.")
def unready_endpoint_breaks_node_hints(asked: DecisionInput) -> Decision:
    return _broken_by(asked, asked.starting, zones=False)


@_fault("terminating-endpoint-breaks-node-hints", "A terminating endpoint without a hint disables node hints.")
def terminating_endpoint_breaks_node_hints(asked: DecisionInput) -> Decision:
    return _broken_by(asked, [each for each in asked.endpoints if each.terminating], zones=False)


def _broken_by(asked: DecisionInput, counted: Sequence[Endpoint], *, zones: bool = True) -> Decision:
    zones = zones and not all(each.zone_hints for each in counted)
    nodes = not all(each.node_hints for each in counted)
    return asked.answer(endpoints=without_hints(asked.endpoints, zones=zones, nodes=nodes))


@_fault(
    "mixes-terminating-with-ready",
    "The proxy uses terminating endpoints that still serve together with ready endpoints.",
    "ovn-kubernetes 418043c, kube-router",
)
def mixes_terminating_with_ready(asked: DecisionInput) -> Decision:
    return asked.answer(
        endpoints=[each._replace(ready=each.ready or (each.terminating and each.serving)) for each in asked.endpoints]
    )


@_fault(
    "no-terminating-fallback",
    "The proxy never uses terminating endpoints.",
    "kubernetes#96514, Calico eBPF",
    symptom=f"{REFUSED}|{NO_ANSWER}",
)
def no_terminating_fallback(asked: DecisionInput) -> Decision:
    return asked.answer(behaviour=replace(asked.behaviour, terminating_fallback=False))


@_fault(
    "terminating-means-serving",
    "The proxy treats terminating endpoints as serving, whatever their serving condition.",
    "calico#8423",
)
def terminating_means_serving(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=[each._replace(serving=each.serving or each.terminating) for each in asked.endpoints])


@_fault("hints-on-terminating-endpoints", "Hints restrict the terminating endpoints that are used as a last resort.")
def hints_on_terminating_endpoints(asked: DecisionInput) -> Decision:
    right = asked.answer()
    if asked.ready or not asked.leaving:
        return right
    ready = [each._replace(ready=True) for each in asked.leaving]
    wrong = asked.answer(endpoints=ready, port=replace(asked.port, internal_local=False))
    return asked.instead(wrong.cluster_ip)


@_fault(
    "hinted-endpoints-on-the-node-come-first",
    "Of the endpoints that are hinted for a node, the proxy uses only those on the node, if there are any.",
)
def hinted_endpoints_on_the_node_come_first(asked: DecisionInput) -> Decision:
    right, node = asked.answer(), asked.place.node
    hinted = [each for each in asked.ready if node in each.node_hints]
    if right.mode != "PreferSameNode" or all(each.node != node for each in hinted):
        return right
    return asked.answer(endpoints=[each for each in asked.endpoints if each not in hinted or each.node == node])


# Traffic policies


@_fault(
    "hints-on-top-of-local",
    "Hints restrict the endpoints that a Local policy selects.",
    "Calico eBPF",
    symptom=NO_ANSWER,
)
def hints_on_top_of_local(asked: DecisionInput) -> Decision:
    return narrowed_on_top_of_local(asked, asked.place.zone, lambda each: each.zone_hints)


def narrowed_on_top_of_local(asked: DecisionInput, here: str, hints: Callable[[Endpoint], Collection[str]]) -> Decision:
    """Return the decision with hints applied to the endpoints of a `Local` policy, if all of them have hints."""
    right = asked.answer()
    hinted = asked.ready and all(map(hints, asked.ready))
    narrowed = [each for each in asked.endpoints if here in hints(each)] if hinted else asked.endpoints
    wrong = asked.answer(endpoints=narrowed)
    return replace(
        right,
        cluster_ip=wrong.cluster_ip if asked.port.internal_local else right.cluster_ip,
        outside=wrong.outside if asked.port.external_local else right.outside,
    )


@_fault("ignores-internal-local", "The proxy ignores internalTrafficPolicy Local.", "calico#8255")
def ignores_internal_local(asked: DecisionInput) -> Decision:
    return asked.answer(port=replace(asked.port, internal_local=False))


@_fault("udp-ignores-internal-local", "The proxy ignores internalTrafficPolicy Local over UDP.")
def udp_ignores_internal_local(asked: DecisionInput) -> Decision:
    return asked.answer(
        port=replace(asked.port, internal_local=asked.port.internal_local and asked.port.protocol != "UDP")
    )


@_fault(
    "internal-local-falls-back",
    "With internalTrafficPolicy Local, a node without endpoints uses the endpoints on other nodes.",
)
def internal_local_falls_back(asked: DecisionInput) -> Decision:
    right = asked.answer()
    if not isinstance(right.cluster_ip, Drop):
        return right
    return replace(right, cluster_ip=asked.answer(port=replace(asked.port, internal_local=False)).cluster_ip)


@_fault(
    "internal-local-restricts-external",
    "internalTrafficPolicy Local also restricts external traffic.",
    "kubernetes#105470",
)
def internal_local_restricts_external(asked: DecisionInput) -> Decision:
    right = asked.answer()
    if not asked.port.internal_local or right.outside is None:
        return right
    return replace(right, outside=right.cluster_ip, inside=right.cluster_ip)


@_fault(
    "external-local-restricts-cluster-ip",
    "externalTrafficPolicy Local also restricts traffic to the cluster IP.",
    "kube-router#818",
    symptom=NO_ANSWER,
)
def external_local_restricts_cluster_ip(asked: DecisionInput) -> Decision:
    local = asked.port.internal_local or (asked.port.external_local and asked.port.externally_accessible)
    return asked.answer(port=replace(asked.port, internal_local=local))


@_fault(
    "external-local-restricts-clients-inside",
    "externalTrafficPolicy Local also restricts in-cluster clients.",
    "kubernetes#131765",
    symptom=NO_ANSWER,
)
def external_local_restricts_clients_inside(asked: DecisionInput) -> Decision:
    right = asked.answer()
    return replace(right, inside=right.outside) if asked.port.external_local else right
