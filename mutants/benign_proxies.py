"""Benign variants of proxies: unusual but correct, so they must pass every requirement.

A conformance suite must accept every permitted implementation. These proxies use round robin instead of random choice,
masquerade more connections than necessary, are slow, or rewrite all rules.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.data_planes import edited
from mutants.load_balancing import KeepsDuplicateSlots
from mutants.mutant import Mutant
from reference.client import Event
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.proxy import ServiceProxy, uapi
from reference.proxy import expressions as nft
from reference.proxy.base_rules import Chain, Rule, address_length, load_source
from reference.proxy.decision import Decision, Family, ServicePort
from reference.proxy.netlink import Message, attribute, nested, number, text
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import LOCAL_LIST, PortEntries, RuleAction, Ruleset, render
from reference.proxy.state import State

DELAY = 0.2  # seconds


def _takes_turns(_: Family, chain: Chain) -> Chain:
    """Select endpoints in round robin order (numgen inc) instead of at random (numgen random)."""
    if not chain.name.startswith("lb-"):
        return chain
    draw, *rest = chain.rules
    random, incremental = (number(uapi.NFTA_NG_TYPE, each) for each in (uapi.NFT_NG_RANDOM, uapi.NFT_NG_INCREMENTAL))
    return replace(chain, rules=(draw._replace(expressions=draw.expressions.replace(random, incremental, 1)), *rest))


def _hashes_the_source(family: Family, chain: Chain) -> Chain:
    """Choose the endpoint by jhash over the client's address and port."""
    if not chain.name.startswith("lb-"):
        return chain
    first = nft.FIRST_REGISTER
    length = address_length(family)
    _, count, *local = chain.name.split("-")
    draw = (
        load_source(family, first)
        + nft.load_payload(uapi.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2, first + length // 4)
        + nft.hash_of(first, length + 4, below=int(count), seed=1, first=LOCAL_LIST if local else 0, into=first)
        + nft.set_mark(first)
    )
    return replace(chain, rules=(Rule("meta mark set jhash saddr . sport", draw), *chain.rules[1:]))


def _translates_inside_too(_: Family, chain: Chain) -> Chain:
    """Also masquerade connections of the node and its pods. No KEP or API reference promises to preserve their source
    address."""
    return replace(chain, rules=tuple(each for each in chain.rules if not each.text.endswith("saddr @own return")))


class _DelayedSync(State):
    def compute(self) -> bool:
        time.sleep(DELAY)
        return super().compute()


class RewritesRules(State):
    """Rewrites all rules for each change."""

    def compute(self) -> bool:
        super().compute()
        return True


class _ExitsWithItsNode(ServiceProxy):
    """Exits when its own Node is deleted, and leaves its rules in the kernel."""

    def _deliver(self, event: Event) -> None:
        super()._deliver(event)
        own = event.resource == "nodes" and event.object["metadata"]["name"] == self._node_name
        if own and event.type == "DELETED":
            self._events.put(None)


class _WithForeignTable(KernelTable):
    """Adds a table like that of another program, whose chain comes first and accepts everything."""

    def load(self, ruleset: Ruleset) -> None:
        here = struct.pack(">BBH", 2 if ruleset.family == "IPv4" else 10, 0, 0) + text(1, "somebody-else")
        hook = nested(4, number(1, 0), attribute(2, struct.pack(">i", -300)))
        chain = here + text(3, "first") + text(7, "filter") + hook
        rule = here + text(2, "first") + nested(4, nft.verdict(nft.Verdict.ACCEPT))
        self._nft.commit_all(
            [
                Message(uapi.NFT_MSG_NEWTABLE, uapi.NLM_F_CREATE, here, "a foreign table"),
                Message(uapi.NFT_MSG_NEWCHAIN, uapi.NLM_F_CREATE, chain, "a foreign chain"),
                Message(uapi.NFT_MSG_NEWRULE, uapi.NLM_F_CREATE, rule, "a foreign rule"),
            ]
        )
        super().load(ruleset)


def _backwards(port: ServicePort, decision: Decision, node: str, addresses: Iterable[str]) -> PortEntries:
    """Reverse the order of endpoints."""
    entries = render(port, decision, node, tuple(addresses))
    return replace(entries, services={front: _turned(action) for front, action in entries.services.items()})


def _turned(action: RuleAction) -> RuleAction:
    return action[::-1] if isinstance(action, tuple) else action


def _slow_plan(*arguments: Any, **options: Any) -> SlicePlan:
    time.sleep(DELAY / 10)
    return plan_service(*arguments, **options)


def _proxy(name: str, sentence: str, family: str, **parts: Any) -> Mutant:
    return Mutant(name, sentence, family, proxy=partial(ServiceProxy, **parts))


BENIGN: list[Mutant] = [
    Mutant("takes-turns", "The proxy uses endpoints in round robin order instead of at random.", "IPVS rr",
           proxy=edited(_takes_turns)),
    Mutant("hashes-the-source", "The proxy chooses the endpoint by the client's address and port.", "OVN-Kubernetes",
           proxy=edited(_hashes_the_source)),
    Mutant("translates-inside-too", "The proxy masquerades in-cluster clients too.", "kube-proxy --masquerade-all",
           proxy=edited(_translates_inside_too)),
    _proxy("slow", "The proxy applies changes 200 ms later.", "kube-proxy --nftables-min-sync-period",
           state=_DelayedSync),
    _proxy("rebuilds", "Every change rewrites all rules.", "kube-proxy before 1.28, kube-router",
           state=RewritesRules),
    _proxy("beside-others", "A chain of another program receives all packets first, and accepts them.",
           "nodes with firewalld", kernel_table=_WithForeignTable),
    Mutant("ends-with-its-node", "The proxy exits when its Node is deleted, and leaves its rules in the kernel.",
           "kube-proxy with a NodeManager that exits", proxy=_ExitsWithItsNode),
    _proxy("backwards", "The rules list endpoints in reverse order.", "iteration over Go maps",
           state=partial(KeepsDuplicateSlots, render=_backwards)),
    Mutant("one-endpoint-a-slice", "No slice has more than one endpoint.", "--max-endpoints-per-slice",
           controller=partial(EndpointSliceController, max_endpoints_per_slice=1)),
    Mutant("slow-controller", "Every sync of the controller takes 20 ms.", "--kube-api-qps",
           controller=partial(EndpointSliceController, plan=_slow_plan)),
]  # fmt: skip
