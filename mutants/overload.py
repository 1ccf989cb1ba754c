"""Proxies that route differently under heavy traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mutants.data_planes import edited
from mutants.load_balancing import KeepsDuplicateSlots
from mutants.mutant import NO_ANSWER, REACHED, Mutant
from mutants.wrong_decisions import DecisionInput, address, deciding
from reference.proxy import ServiceProxy
from reference.proxy import expressions as nft
from reference.proxy.base_rules import Chain, Rule
from reference.proxy.decision import Decision, Family, Forward, ServicePort
from reference.proxy.netlink import attribute, nested, number
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import PortEntries, StickyEndpoints, render

MUCH = 90  # open connections by the rules of a node
SPILL = "one more under load"
OWN_CHAIN = (1 << 17) - 1  # an affinity timeout (s) that no Service can have, so that only these rules use the chain


def _connections(*, over: bool) -> bytes:
    """Return a match for more, or fewer, open connections than `MUCH`."""
    return nft.expression("connlimit", number(1, MUCH), number(2, int(over)))


def _sheds(_: Family, chain: Chain) -> Chain:
    if not chain.name.startswith(("lb-", "affinity-")):
        return chain
    drop = Rule(f"ct count over {MUCH} drop", _connections(over=True) + nft.verdict(nft.Verdict.DROP))
    return replace(chain, rules=(drop, *chain.rules))


def _spills(_: Family, chain: Chain) -> Chain:
    """Select the second of two endpoints only under heavy traffic and without session affinity."""
    if chain.name != f"affinity-2-{OWN_CHAIN}":
        return chain
    (draw, identity), (translate, drop) = chain.rules[:2], chain.rules[-2:]
    first = nft.FIRST_REGISTER
    zero = nft.expression("immediate", number(1, first), nested(2, attribute(1, bytes(4))))
    near = Rule(f"ct count {MUCH} meta mark set 0", _connections(over=False) + zero + nft.set_mark(first))
    return replace(chain, rules=(draw, near, identity, translate, drop))


def _one_more(asked: DecisionInput) -> Decision:
    """Decide for the only endpoint in the zone, and add a second endpoint for heavy traffic."""
    right = asked.answer()
    others = [each for each in asked.ready if asked.place.zone not in each.zone_hints]
    match right.cluster_ip:
        case Forward((only,)) if right.mode == "PreferSameZone" and not asked.port.internal_local and others:
            if not asked.port.affinity_seconds:
                return replace(right, cluster_ip=Forward((only, min(others, key=address)), SPILL))
    return right


def _in_own_chain(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    right = render(port, decision, node, addresses)
    match decision.cluster_ip:
        case Forward(endpoints, reason) if reason == SPILL:
            action = StickyEndpoints(tuple(each[:2] for each in endpoints), OWN_CHAIN)
            spilling = {each: action for each in right.services if each.address in port.cluster_ips}
            return replace(right, services={**right.services, **spilling})
    return right


MUTANTS: list[Mutant] = [
    Mutant(
        "spills-under-load",
        "While many connections to a zone with one endpoint are open, some connections to a cluster IP leave the zone.",
        "Istio and Kuma, by design",
        REACHED,
        proxy=partial(
            ServiceProxy,
            state=partial(KeepsDuplicateSlots, decide=deciding(_one_more), render=_in_own_chain),
            kernel_table=partial(KernelTable, edit=_spills),
        ),
    ),
    Mutant(
        "sheds-under-load",
        "While many connections are open, new connections get no answer.",
        "",
        NO_ANSWER,
        proxy=edited(_sheds),
    ),
]
