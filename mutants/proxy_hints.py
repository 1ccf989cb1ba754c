"""Proxies that follow hints wrongly, or ignore them."""

from __future__ import annotations

from dataclasses import replace

from mutants.mutant import NO_ANSWER, Mutant
from mutants.wrong_decisions import DecisionInput, faults_in, without_hints
from reference.proxy.decision import Decision, Drop, Forward

MUTANTS: list[Mutant] = []

_fault = faults_in(MUTANTS)

_ELSEWHERE = frozenset({"elsewhere"})


@_fault("ignores-zone-hints", "The proxy ignores zone hints.", "kubernetes#101525, calico#10430")
def ignores_zone_hints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints, nodes=False))


@_fault("ignores-node-hints", "The proxy ignores node hints.", "Antrea, with its gate off")
def ignores_node_hints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints, zones=False))


@_fault(
    "accepts-partial-zone-hints",
    "The proxy follows zone hints even if some ready endpoints have none.",
    "cilium#41022",
)
def accepts_partial_zone_hints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=[each._replace(zone_hints=each.zone_hints or _ELSEWHERE) for each in asked.endpoints])


@_fault("accepts-partial-node-hints", "The proxy follows node hints even if some ready endpoints have none.")
def accepts_partial_node_hints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=[each._replace(node_hints=each.node_hints or _ELSEWHERE) for each in asked.endpoints])


@_fault("unhinted-endpoint-joins-every-zone", "The proxy uses an endpoint without hints in every zone.", "kpng")
def unhinted_endpoint_joins_every_zone(asked: DecisionInput) -> Decision:
    right = asked.answer()
    ready = asked.ready
    mine = tuple(each for each in ready if not each.zone_hints or asked.place.zone in each.zone_hints)
    partial_hints = any(each.zone_hints for each in ready) and not all(each.zone_hints for each in ready)
    return asked.instead(Forward(mine, "unhinted ones too")) if partial_hints and mine else right


@_fault("no-hints-mean-nobody", "The proxy drops packets if no endpoint has hints.", symptom=NO_ANSWER)
def no_hints_mean_nobody(asked: DecisionInput) -> Decision:
    right = asked.answer()
    unhinted = not any(each.zone_hints or each.node_hints for each in asked.endpoints)
    return asked.instead(Drop("no hints")) if unhinted and asked.ready else right


@_fault(
    "drops-without-hinted-endpoint",
    "A client gets no answer if no endpoint is hinted for its zone.",
    "cilium#41022",
    symptom=NO_ANSWER,
)
def drops_without_hinted_endpoint(asked: DecisionInput) -> Decision:
    right = asked.answer()
    ready = asked.ready
    all_hinted = ready and all(each.zone_hints or each.node_hints for each in ready)
    return asked.instead(Drop("nobody is hinted for here")) if all_hinted and not right.mode else right


@_fault(
    "drops-without-zone-label",
    "Clients on a node without a zone label get no answer from hinted endpoints.",
    symptom=NO_ANSWER,
)
def drops_without_zone_label(asked: DecisionInput) -> Decision:
    right = asked.answer()
    lost = not asked.place.zone and not right.mode and any(each.zone_hints for each in asked.ready)
    return asked.instead(Drop("where am I?")) if lost else right


@_fault(
    "skips-zone-tier",
    "If no endpoint is hinted for a node, the proxy ignores zone hints too, and uses every endpoint.",
    "Cilium, spring 2026",
)
def skips_zone_tier(asked: DecisionInput) -> Decision:
    hinted = all(each.node_hints for each in asked.ready)
    return asked.answer(endpoints=without_hints(asked.endpoints, nodes=False) if hinted else asked.endpoints)


@_fault("node-as-zone", "Node hints have no effect within the zone: other endpoints of the zone are used as well.")
def node_as_zone(asked: DecisionInput) -> Decision:
    right = asked.answer()
    if right.mode != "PreferSameNode":
        return right
    near = [each for each in asked.ready if asked.place.node in each.node_hints or asked.place.zone in each.zone_hints]
    return asked.instead(Forward(tuple(near), "node or zone"))


@_fault("zone-before-node", "Zone hints take precedence over node hints.")
def zone_before_node(asked: DecisionInput) -> Decision:
    by_zone = asked.answer(endpoints=without_hints(asked.endpoints, zones=False))
    return by_zone if by_zone.mode else asked.answer()


@_fault(
    "hints-need-the-annotation",
    "The proxy follows hints only on Services with the topology annotation.",
    "kubernetes#116098, cilium#37930",
)
def hints_need_the_annotation(asked: DecisionInput) -> Decision:
    return asked.answer(behaviour=replace(asked.behaviour, annotation="any"))


@_fault(
    "annotation-disabled-ends-hints",
    "The annotation with the value Disabled disables hints.",
    "kube-proxy before 1.30",
)
def annotation_disabled_ends_hints(asked: DecisionInput) -> Decision:
    disabled = asked.port.topology_annotation in {"disabled", "Disabled"}
    return asked.answer(endpoints=without_hints(asked.endpoints) if disabled else asked.endpoints)


@_fault("zone-names-in-any-case", "The proxy compares zone names case-insensitively.")
def zone_names_in_any_case(asked: DecisionInput) -> Decision:
    lower = [each._replace(zone_hints=frozenset(zone.lower() for zone in each.zone_hints)) for each in asked.endpoints]
    return asked.answer(endpoints=lower, place=replace(asked.place, zone=asked.place.zone.lower()))


@_fault(
    "zone-names-as-numbers",
    "The proxy compares zone names that look like numbers as numbers.",
    "envoyproxy/gateway#6669",
)
def zone_names_as_numbers(asked: DecisionInput) -> Decision:
    short = [
        each._replace(zone_hints=frozenset(zone.lstrip("0") for zone in each.zone_hints)) for each in asked.endpoints
    ]
    return asked.answer(endpoints=short, place=replace(asked.place, zone=asked.place.zone.lstrip("0")))


@_fault("decides-as-on-another-node", "Except for topology keys, every proxy decides as if its node were a1 in zone a.")
def decides_as_on_another_node(asked: DecisionInput) -> Decision:
    return asked.answer(place=replace(asked.place, node="a1", zone="a"))


@_fault("udp-ignores-hints", "The proxy ignores hints over UDP.")
def udp_ignores_hints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints) if asked.port.protocol == "UDP" else asked.endpoints)


@_fault("ipv6-ignores-hints", "The proxy ignores hints over IPv6.", "kubernetes#101525 (one family of two)")
def ipv6_ignores_hints(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints) if asked.is_ipv6 else asked.endpoints)


@_fault(
    "external-addresses-ignore-hints",
    "The proxy follows hints only at the cluster IP, not at node ports and load balancer addresses.",
)
def external_addresses_ignore_hints(asked: DecisionInput) -> Decision:
    everywhere = asked.answer(endpoints=without_hints(asked.endpoints))
    right = asked.answer()
    return replace(right, outside=everywhere.outside, inside=everywhere.inside)
