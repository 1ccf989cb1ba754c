"""Proxies that decide wrongly: each function is the reference's `decide` with one fault.

Most of them give the right answer to a changed question, so that everything but the fault stays right.
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
    Place,
    Reject,
    ServicePort,
    decide,
)
from reference.proxy.state import State

NONE: frozenset[str] = frozenset()

MUTANTS: list[Mutant] = []


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of `decide`."""

    port: ServicePort
    endpoints: Sequence[Endpoint]
    place: Place
    behaviour: Behaviour

    def answer(self, **changes: Any) -> Decision:
        """Return the right answer to this question, or to a changed one."""
        asked = replace(self, **changes)
        return decide(asked.port, asked.endpoints, asked.place, asked.behaviour)

    def instead(self, action: Action) -> Decision:
        """Return the right answer with another Cluster list; decisions by policy Local stay."""
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


Wrong = Callable[[Question], Decision]


def deciding(wrong: Wrong) -> Callable[..., Decision]:
    """Return a function like `decide` that calls a function of one question."""

    def decide_wrongly(
        port: ServicePort, endpoints: Iterable[Endpoint], place: Place, behaviour: Behaviour
    ) -> Decision:
        return wrong(Question(port, tuple(endpoints), place, behaviour))

    return decide_wrongly


def _fault(name: str, sentence: str, provenance: str = "", *, symptom: str = REACHED) -> Callable[[Wrong], Wrong]:
    """Make a mutant of a wrong decision."""

    def register(wrong: Wrong) -> Wrong:
        proxy = partial(ServiceProxy, state=partial(State, decide=deciding(wrong)))
        MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=proxy))
        return wrong

    return register


def _each(decision: Decision, change: Callable[[Action], Action]) -> Decision:
    def changed(action: Action | None) -> Action | None:
        return None if action is None else change(action)

    cluster_ip = change(decision.cluster_ip)
    return replace(decision, cluster_ip=cluster_ip, outside=changed(decision.outside), inside=changed(decision.inside))


def without_hints(endpoints: Iterable[Endpoint], *, zones: bool = True, nodes: bool = True) -> list[Endpoint]:
    """Return the endpoints without hints of these kinds."""
    return [
        each._replace(zone_hints=NONE if zones else each.zone_hints, node_hints=NONE if nodes else each.node_hints)
        for each in endpoints
    ]


# Hints


@_fault("ignores-zone-hints", "Hints for zones are not looked at.", "kubernetes#101525, calico#10430")
def ignores_zone_hints(asked: Question) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints, nodes=False))


@_fault("ignores-node-hints", "Hints for nodes are not looked at.", "Antrea, with its gate off")
def ignores_node_hints(asked: Question) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints, zones=False))


@_fault(
    "accepts-partial-zone-hints", "Hints for zones are followed while some ready endpoints have none.", "cilium#41022"
)
def accepts_partial_zone_hints(asked: Question) -> Decision:
    right = asked.answer()
    near = tuple(each for each in asked.ready if asked.place.zone in each.zone_hints)
    return asked.instead(Forward(near, "partial hints")) if near and not right.mode else right


@_fault("accepts-partial-node-hints", "Hints for nodes are followed while some ready endpoints have none.")
def accepts_partial_node_hints(asked: Question) -> Decision:
    right = asked.answer()
    near = tuple(each for each in asked.ready if asked.place.node in each.node_hints)
    return asked.instead(Forward(near, "partial hints")) if near else right


@_fault("unhinted-endpoint-joins-every-zone", "An endpoint without hint joins those of every zone.", "kpng")
def unhinted_endpoint_joins_every_zone(asked: Question) -> Decision:
    right = asked.answer()
    ready = asked.ready
    mine = tuple(each for each in ready if not each.zone_hints or asked.place.zone in each.zone_hints)
    partial_hints = any(each.zone_hints for each in ready) and not all(each.zone_hints for each in ready)
    return asked.instead(Forward(mine, "unhinted ones too")) if partial_hints and mine else right


@_fault(
    "no-hints-mean-nobody", "Where no endpoint has hints, nobody is meant, and packets are dropped.", symptom=NO_ANSWER
)
def no_hints_mean_nobody(asked: Question) -> Decision:
    right = asked.answer()
    unhinted = not any(each.zone_hints or each.node_hints for each in asked.endpoints)
    return asked.instead(Drop("no hints")) if unhinted and asked.ready else right


@_fault(
    "drops-without-hinted-endpoint",
    "A client in a zone that no endpoint is hinted for gets no answer.",
    "cilium#41022",
    symptom=NO_ANSWER,
)
def drops_without_hinted_endpoint(asked: Question) -> Decision:
    right = asked.answer()
    ready = asked.ready
    all_hinted = ready and all(each.zone_hints or each.node_hints for each in ready)
    return asked.instead(Drop("nobody is hinted for here")) if all_hinted and not right.mode else right


@_fault(
    "drops-without-zone-label",
    "Clients on a node without zone label get no answer from hinted endpoints.",
    symptom=NO_ANSWER,
)
def drops_without_zone_label(asked: Question) -> Decision:
    right = asked.answer()
    lost = not asked.place.zone and not right.mode and any(each.zone_hints for each in asked.ready)
    return asked.instead(Drop("where am I?")) if lost else right


@_fault(
    "skips-zone-tier",
    "A node that nobody is hinted for uses every endpoint, without a look at the zone.",
    "Cilium, spring 2026",
)
def skips_zone_tier(asked: Question) -> Decision:
    hinted = all(each.node_hints for each in asked.ready)
    return asked.answer(endpoints=without_hints(asked.endpoints, nodes=False) if hinted else asked.endpoints)


@_fault("node-as-zone", "Hints for nodes do not narrow the zone: its other endpoints are used as well.")
def node_as_zone(asked: Question) -> Decision:
    right = asked.answer()
    if right.mode != "PreferSameNode":
        return right
    near = [each for each in asked.ready if asked.place.node in each.node_hints or asked.place.zone in each.zone_hints]
    return asked.instead(Forward(tuple(near), "node or zone"))


@_fault("zone-before-node", "Hints for zones come before hints for nodes.")
def zone_before_node(asked: Question) -> Decision:
    by_zone = asked.answer(endpoints=without_hints(asked.endpoints, zones=False))
    return by_zone if by_zone.mode else asked.answer()


@_fault(
    "hints-need-the-annotation",
    "Hints are followed only on Services with the topology annotation.",
    "kubernetes#116098, cilium#37930",
)
def hints_need_the_annotation(asked: Question) -> Decision:
    return asked.answer(behaviour=replace(asked.behaviour, annotation="any"))


@_fault(
    "annotation-disabled-ends-hints",
    "The annotation, with the value Disabled, switches hints off.",
    "kube-proxy before 1.30",
)
def annotation_disabled_ends_hints(asked: Question) -> Decision:
    disabled = asked.port.topology_annotation in {"disabled", "Disabled"}
    return asked.answer(endpoints=without_hints(asked.endpoints) if disabled else asked.endpoints)


@_fault("zone-names-in-any-case", "Names of zones are compared without regard to case.")
def zone_names_in_any_case(asked: Question) -> Decision:
    lower = [each._replace(zone_hints=frozenset(zone.lower() for zone in each.zone_hints)) for each in asked.endpoints]
    return asked.answer(endpoints=lower, place=replace(asked.place, zone=asked.place.zone.lower()))


@_fault(
    "zone-names-as-numbers", "Names of zones that look like numbers are compared as numbers.", "envoyproxy/gateway#6669"
)
def zone_names_as_numbers(asked: Question) -> Decision:
    short = [
        each._replace(zone_hints=frozenset(zone.lstrip("0") for zone in each.zone_hints)) for each in asked.endpoints
    ]
    return asked.answer(endpoints=short, place=replace(asked.place, zone=asked.place.zone.lstrip("0")))


@_fault("decides-as-on-another-node", "Every node does what is right on node a1.")
def decides_as_on_another_node(asked: Question) -> Decision:
    return asked.answer(place=Place("a1", "a"))


@_fault("udp-ignores-hints", "Hints are not followed over UDP.")
def udp_ignores_hints(asked: Question) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints) if asked.port.protocol == "UDP" else asked.endpoints)


@_fault("ipv6-ignores-hints", "Hints are not followed over IPv6.", "kubernetes#101525 (one family of two)")
def ipv6_ignores_hints(asked: Question) -> Decision:
    is_ipv6 = any(":" in address for address in asked.port.cluster_ips)
    return asked.answer(endpoints=without_hints(asked.endpoints) if is_ipv6 else asked.endpoints)


@_fault(
    "external-addresses-ignore-hints",
    "Hints are followed at the cluster IP only, not at node ports and load balancer addresses.",
)
def external_addresses_ignore_hints(asked: Question) -> Decision:
    everywhere = asked.answer(endpoints=without_hints(asked.endpoints))
    right = asked.answer()
    return replace(right, outside=everywhere.outside, inside=everywhere.inside)


# Conditions


@_fault(
    "uses-unready-hinted-endpoint",
    "A hinted endpoint that is not ready is used where another node or zone was due.",
    "kubernetes PR#106507",
)
def uses_unready_hinted_endpoint(asked: Question) -> Decision:
    right = asked.answer()
    unready = asked.starting
    on_node = tuple(each for each in unready if asked.place.node in each.node_hints)
    in_zone = tuple(each for each in unready if asked.place.zone in each.zone_hints and not right.mode)
    chosen = on_node or in_zone
    return asked.instead(Forward(chosen, "hinted, if not ready")) if chosen else right


@_fault(
    "unready-endpoint-breaks-hints", "An endpoint that is not ready and has no hint switches hints off.", "cilium#47960"
)
def unready_endpoint_breaks_hints(asked: Question) -> Decision:
    return _broken_by(asked, asked.starting)


@_fault(
    "terminating-endpoint-breaks-hints",
    "An endpoint that terminates and has no hint switches hints off.",
    "cilium PR#45947, Calico eBPF",
)
def terminating_endpoint_breaks_hints(asked: Question) -> Decision:
    return _broken_by(asked, [each for each in asked.endpoints if each.terminating])


def _broken_by(asked: Question, counted: Sequence[Endpoint]) -> Decision:
    zones = not all(each.zone_hints for each in counted)
    nodes = not all(each.node_hints for each in counted)
    return asked.answer(endpoints=without_hints(asked.endpoints, zones=zones, nodes=nodes))


@_fault(
    "mixes-terminating-with-ready",
    "Terminating endpoints that serve are used beside ready ones.",
    "ovn-kubernetes 418043c, kube-router",
)
def mixes_terminating_with_ready(asked: Question) -> Decision:
    return asked.answer(
        endpoints=[each._replace(ready=each.ready or (each.terminating and each.serving)) for each in asked.endpoints]
    )


@_fault(
    "no-terminating-fallback",
    "Terminating endpoints are never used.",
    "kubernetes#96514, Calico eBPF",
    symptom=f"{REFUSED}|{NO_ANSWER}",
)
def no_terminating_fallback(asked: Question) -> Decision:
    return asked.answer(behaviour=replace(asked.behaviour, terminating_fallback=False))


@_fault("terminating-means-serving", "Terminating endpoints count as serving, whatever they say.", "calico#8423")
def terminating_means_serving(asked: Question) -> Decision:
    return asked.answer(endpoints=[each._replace(serving=each.serving or each.terminating) for each in asked.endpoints])


@_fault("hints-on-terminating-endpoints", "Hints narrow the terminating endpoints that are the last resort.")
def hints_on_terminating_endpoints(asked: Question) -> Decision:
    right = asked.answer()
    if asked.ready or not asked.leaving:
        return right
    wrong = asked.answer(endpoints=[each._replace(ready=True) for each in asked.leaving])
    return asked.instead(wrong.cluster_ip)


# Traffic policies


@_fault("hints-on-top-of-local", "Hints narrow what policy Local leaves.", "Calico eBPF", symptom=NO_ANSWER)
def hints_on_top_of_local(asked: Question) -> Decision:
    right = asked.answer()
    hinted = all(each.zone_hints for each in asked.ready)
    narrowed = [each for each in asked.endpoints if asked.place.zone in each.zone_hints] if hinted else asked.endpoints
    wrong = asked.answer(endpoints=narrowed)
    return replace(
        right,
        cluster_ip=wrong.cluster_ip if asked.port.internal_local else right.cluster_ip,
        outside=wrong.outside if asked.port.external_local else right.outside,
    )


@_fault("ignores-internal-local", "internalTrafficPolicy Local is not looked at.", "calico#8255")
def ignores_internal_local(asked: Question) -> Decision:
    return asked.answer(port=replace(asked.port, internal_local=False))


@_fault("udp-ignores-internal-local", "internalTrafficPolicy Local does not hold for UDP.")
def udp_ignores_internal_local(asked: Question) -> Decision:
    return asked.answer(
        port=replace(asked.port, internal_local=asked.port.internal_local and asked.port.protocol != "UDP")
    )


@_fault(
    "internal-local-falls-back",
    "With internalTrafficPolicy Local, a node without endpoints falls back to those of others.",
)
def internal_local_falls_back(asked: Question) -> Decision:
    right = asked.answer()
    if not isinstance(right.cluster_ip, Drop):
        return right
    return replace(right, cluster_ip=asked.answer(port=replace(asked.port, internal_local=False)).cluster_ip)


@_fault(
    "internal-local-restricts-external",
    "internalTrafficPolicy Local restricts traffic from outside.",
    "kubernetes#105470",
)
def internal_local_restricts_external(asked: Question) -> Decision:
    right = asked.answer()
    if not asked.port.internal_local or right.outside is None:
        return right
    return replace(right, outside=right.cluster_ip, inside=right.cluster_ip)


@_fault(
    "external-local-restricts-cluster-ip",
    "externalTrafficPolicy Local restricts traffic to the cluster IP.",
    "kube-router#818",
    symptom=NO_ANSWER,
)
def external_local_restricts_cluster_ip(asked: Question) -> Decision:
    local = asked.port.internal_local or (asked.port.external_local and asked.port.externally_accessible)
    return asked.answer(port=replace(asked.port, internal_local=local))


@_fault(
    "external-local-restricts-clients-inside",
    "externalTrafficPolicy Local holds for clients inside the cluster too.",
    "kubernetes#131765",
    symptom=NO_ANSWER,
)
def external_local_restricts_clients_inside(asked: Question) -> Decision:
    right = asked.answer()
    return replace(right, inside=right.outside) if asked.port.external_local else right


# Outcomes


@_fault("rejects-where-drop-is-due", "Clients are refused where packets are to be dropped.", symptom=REFUSED)
def rejects_where_drop_is_due(asked: Question) -> Decision:
    right = asked.answer()
    return _each(right, lambda action: Reject(action.reason) if isinstance(action, Drop) else action)


@_fault(
    "drops-where-reject-is-due",
    "Packets are dropped where clients are to be refused.",
    "kube-router",
    symptom=NO_ANSWER,
)
def drops_where_reject_is_due(asked: Question) -> Decision:
    right = asked.answer()
    return _each(right, lambda action: Drop(action.reason) if isinstance(action, Reject) else action)


@_fault(
    "starves-one-endpoint",
    "One of several endpoints never gets a connection.",
    "calico#8423, calico#10430",
    symptom="never reached",
)
def starves_one_endpoint(asked: Question) -> Decision:
    def starved(action: Action) -> Action:
        match action:
            case Forward(chosen, reason) if len(chosen) > 1:
                return Forward(chosen[:-1], reason)
        return action

    return _each(asked.answer(), starved)


@_fault(
    "leaks-five-percent", "One connection in twenty goes to an endpoint outside the zone.", "Istio and Kuma, by design"
)
def leaks_five_percent(asked: Question) -> Decision:
    right = asked.answer()
    if not right.mode or not isinstance(right.cluster_ip, Forward):
        return right
    chosen = right.cluster_ip.endpoints
    others = [each for each in asked.ready if each not in chosen]
    spilled = (*chosen * (19 // len(chosen)), *others[:1])
    return replace(right, cluster_ip=Forward(spilled, "and one in twenty elsewhere"))


@_fault(
    "one-endpoint-twice",
    "One of several endpoints gets twice what each other one gets.",
    symptom="where an equal share is",
)
def one_endpoint_twice(asked: Question) -> Decision:
    def doubled(action: Action) -> Action:
        match action:
            case Forward(chosen, reason) if len(chosen) > 1:
                return Forward((*chosen, chosen[0]), reason)
        return action

    return _each(asked.answer(), doubled)


@_fault(
    "favours-its-own-node",
    "An endpoint on the own node gets twice what each other one gets.",
    symptom="where an equal share is",
)
def favours_its_own_node(asked: Question) -> Decision:
    def favoured(action: Action) -> Action:
        match action:
            case Forward(chosen, reason) if len(chosen) > 1:
                return Forward((*chosen, *(each for each in chosen if each.node == asked.place.node)), reason)
        return action

    return _each(asked.answer(), favoured)
