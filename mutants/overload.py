"""Proxies that route differently under heavy traffic."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mutants.decisions import Question, deciding
from mutants.mutant import NO_ANSWER, REACHED, Mutant
from reference.proxy import ServiceProxy
from reference.proxy import expressions as nft
from reference.proxy.decision import Decision, Family, Forward
from reference.proxy.netlink import attribute, nested, number
from reference.proxy.nftables import KernelTable
from reference.proxy.skeleton import Chain, Rule
from reference.proxy.state import State

MUCH = 50  # open connections by the rules of a node


def _connections(*, over: bool) -> bytes:
    """Return a match of more open connections than `MUCH`, or of fewer."""
    return nft.expression("connlimit", number(1, MUCH), number(2, int(over)))


def _sheds(_: Family, chain: Chain) -> Chain:
    if not chain.name.startswith("lb-"):
        return chain
    drop = Rule(f"ct count over {MUCH} drop", _connections(over=True) + nft.verdict(nft.Verdict.DROP))
    return replace(chain, rules=(drop, *chain.rules))


def _spills(_: Family, chain: Chain) -> Chain:
    """Choose the second of two endpoints only under heavy traffic."""
    if chain.name != "lb-2":
        return chain
    draw, *others = chain.rules
    first = nft.FIRST_REGISTER
    zero = nft.expression("immediate", number(1, first), nested(2, attribute(1, bytes(4))))
    near = Rule(f"ct count {MUCH} meta mark set 0", _connections(over=False) + zero + nft.set_mark(first))
    return replace(chain, rules=(draw, near, *others))


def _one_more(asked: Question) -> Decision:
    """Decide for the one endpoint of the zone, and add another one for heavy traffic."""
    right = asked.answer()
    match right.cluster_ip:
        case Forward((only,), reason) if right.mode:
            others = [each for each in asked.ready if each != only]
            return replace(right, cluster_ip=Forward((only, *others[:1]), reason))
    return right


MUTANTS: list[Mutant] = [
    Mutant(
        "spills-under-load",
        "While many connections are open, some of them leave the zone that has one endpoint.",
        "Istio and Kuma, by design",
        REACHED,
        proxy=partial(
            ServiceProxy,
            state=partial(State, decide=deciding(_one_more)),
            kernel_table=partial(KernelTable, edit=_spills),
        ),
    ),
    Mutant(
        "sheds-under-load",
        "While many connections are open, further ones get no answer.",
        "",
        NO_ANSWER,
        proxy=partial(ServiceProxy, kernel_table=partial(KernelTable, edit=_sheds)),
    ),
]
