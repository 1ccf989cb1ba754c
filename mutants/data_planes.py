"""Proxies with correct decisions that program wrong rules or chains, or delete the wrong conntrack entries."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.delayed_watches import DelayedClient
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, Mutant
from mutants.wrong_tables import keeping_flows
from reference.client import Client, Event
from reference.proxy import ServiceProxy, uapi
from reference.proxy import expressions as nft
from reference.proxy.base_rules import Chain
from reference.proxy.changes import Changes, Element, HairpinElement
from reference.proxy.decision import Decision, Drop, Family, Forward, ServicePort
from reference.proxy.netlink import attributes, pack
from reference.proxy.nftables import ChainEdit, KernelTable
from reference.proxy.ruleset import NOTHING, PortEntries, Ruleset, render
from reference.proxy.state import State

HOLE = 0.05  # seconds
CACHED = 6.0  # seconds

MUTANTS: list[Mutant] = []


def _register(name: str, sentence: str, provenance: str, symptom: str, **parts: Any) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=partial(ServiceProxy, **parts)))


# Rendering

Render = Callable[[ServicePort, Decision, str, Sequence[str]], PortEntries]


def _misrender(
    name: str, sentence: str, provenance: str = "", *, symptom: str = NO_ANSWER
) -> Callable[[Render], Render]:
    def register(wrong: Render) -> Render:
        _register(name, sentence, provenance, symptom, state=partial(State, render=wrong))
        return wrong

    return register


@_misrender("nothing-moves", "The proxy programs no rules.")
def nothing_moves(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    return NOTHING


@_misrender(
    "no-hairpin-masquerade",
    "When a pod connects to itself through a Service, the client address is not translated, so the pod gets no reply.",
)
def no_hairpin_masquerade(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    return replace(render(port, decision, node, addresses), hairpin=frozenset())


@_misrender("no-load-balancer-addresses", "The proxy does not serve load balancer addresses.")
def no_load_balancer_addresses(
    port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]
) -> PortEntries:
    return render(replace(port, load_balancer_ips=()), decision, node, addresses)


@_misrender("no-external-ips", "The proxy does not serve addresses in spec.externalIPs.", "kube-router")
def no_external_ips(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    return render(replace(port, external_ips=()), decision, node, addresses)


@_misrender(
    "node-port-beside-endpoints-only", "Node ports do not answer on nodes without an endpoint.", symptom=REFUSED
)
def node_port_beside_endpoints_only(
    port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]
) -> PortEntries:
    actions = (decision.cluster_ip, decision.outside, decision.inside)
    here = any(each.node == node for action in actions if isinstance(action, Forward) for each in action.endpoints)
    return render(port if here else replace(port, node_port=0), decision, node, addresses)


@_misrender(
    "external-local-falls-back",
    "With externalTrafficPolicy Local, a node without endpoints uses the endpoints on other nodes.",
    symptom=REACHED,
)
def external_local_falls_back(
    port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]
) -> PortEntries:
    lost = isinstance(decision.outside, Drop)
    return render(replace(port, external_local=port.external_local and not lost), decision, node, addresses)


@_misrender(
    "external-ips-ignore-local",
    "externalTrafficPolicy Local is ignored for traffic to the addresses in spec.externalIPs.",
    symptom=REACHED,
)
def external_ips_ignore_local(
    port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]
) -> PortEntries:
    right = render(port, decision, node, addresses)
    kept = {each: action for each, action in right.external.items() if each.address not in port.external_ips}
    return replace(right, external=kept)


@_misrender("no-udp", "The proxy writes no rules for UDP.")
def no_udp(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    return NOTHING if port.protocol == "UDP" else render(port, decision, node, addresses)


@_misrender("no-ipv6", "The proxy writes no rules for IPv6.")
def no_ipv6(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
    is_ipv6 = any(":" in address for address in port.cluster_ips)
    return NOTHING if is_ipv6 else render(port, decision, node, addresses)


# Chains and connections


def edited(edit: ChainEdit) -> Callable[..., ServiceProxy]:
    """Return a proxy whose chains are changed."""
    return partial(ServiceProxy, kernel_table=partial(KernelTable, edit=edit))


def _wrong_chain(
    name: str, sentence: str, provenance: str = "", *, symptom: str = NO_ANSWER
) -> Callable[[ChainEdit], ChainEdit]:
    def register(edit: ChainEdit) -> ChainEdit:
        MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=edited(edit)))
        return edit

    return register


@_wrong_chain(
    "always-masquerades",
    "The proxy always masquerades the address of an external client.",
    "kubernetes#99299",
    symptom="expected",
)
def always_masquerades(family: Family, chain: Chain) -> Chain:
    if chain.name != "masquerading":
        return chain
    return replace(chain, rules=tuple(each for each in chain.rules if "meta mark &" not in each.text))


@_wrong_chain(
    "pods-of-other-nodes-keep-their-address",
    "The proxy does not masquerade pods on other nodes, so replies do not return through this node.",
    "kubernetes#74383",
)
def pods_of_other_nodes_keep_their_address(family: Family, chain: Chain) -> Chain:
    def kept(expressions: bytes) -> bytes:
        return expressions.removesuffix(nft.masquerade()) + nft.verdict(nft.Verdict.RETURN)

    rules = [
        each._replace(expressions=kept(each.expressions)) if "saddr @pods masq" in each.text else each
        for each in chain.rules
    ]
    return replace(chain, rules=tuple(rules))


@_wrong_chain(
    "passes-clients-on-the-node-by",
    "The proxy does not serve clients on the node itself.",
    "cilium#23837",
    symptom=NO_ANSWER,
)
def passes_clients_on_the_node_by(family: Family, chain: Chain) -> Chain:
    return replace(chain, rules=()) if chain.name == "output" else chain


LEAVES_UDP_FLOWS = keeping_flows(lambda table, stale: True)

_register(
    "leaves-udp-flows",
    "The proxy does not delete UDP flows to a removed endpoint.",
    "kubernetes#105657, kubernetes PR#139629",
    "server of the flow",
    state=LEAVES_UDP_FLOWS,
)


class FlushesConntrack(KernelTable):
    """Deletes all conntrack entries after each change to the rules."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._conntrack = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, uapi.NETLINK_NETFILTER
        )

    def __del__(self) -> None:
        self._conntrack.close()

    def apply(self, changes: Changes) -> None:
        super().apply(changes)
        self.flush()

    def flush(self) -> None:
        """Delete all conntrack entries."""
        everything = struct.pack(">BBH", socket.AF_UNSPEC, 0, 0)
        self._conntrack.send(pack(1 << 8 | 2, 1 | 4, 1, everything))
        self._conntrack.recv(1 << 16)


_register(
    "cuts-open-connections",
    "Every change to the rules cuts open connections.",
    "cilium#48259, cilium#48348",
    "the open connection of",
    kernel_table=FlushesConntrack,
)


class _DeletesBeforeAdding(KernelTable):
    """Deletes the changed elements of these protocols, and adds the new elements `hole` seconds later."""

    protocols: tuple[str, ...] = ("TCP", "UDP")
    hole = HOLE

    def apply(self, changes: Changes) -> None:
        if gone := [each for each in changes.first_delete if _protocol(each) in self.protocols]:
            self._nft.commit_all(self._messages.delete(gone))
            time.sleep(self.hole)
        super().apply(replace(changes, first_delete=[each for each in changes.first_delete if each not in gone]))


class _DeletesRulesFor200Ms(_DeletesBeforeAdding):
    hole = 0.2


class _DeletesRulesForASecond(_DeletesBeforeAdding):
    hole = 1.0


class _DeletesUdpRulesBeforeAdding(_DeletesBeforeAdding):
    protocols = ("UDP",)


def _protocol(element: Element) -> str:
    return "" if isinstance(element, HairpinElement) else element.service.protocol


_register(
    "forgets-before-it-learns",
    "On a change, the proxy removes the old rules first and adds the new ones a moment later.",
    "",
    f"{NO_ANSWER}|{REFUSED}",
    kernel_table=_DeletesBeforeAdding,
)
_register(
    "forgets-for-200-ms",
    "On a change, the proxy removes the old rules first and adds the new ones 200 ms later.",
    "",
    f"{NO_ANSWER}|{REFUSED}",
    kernel_table=_DeletesRulesFor200Ms,
)
_register(
    "forgets-for-a-second",
    "On a change, the proxy removes the old rules first and adds the new ones a second later.",
    "",
    f"{NO_ANSWER}|{REFUSED}",
    kernel_table=_DeletesRulesForASecond,
)
_register(
    "udp-forgets-before-it-learns",
    "On a change, the proxy removes the old rules for UDP first and adds the new ones a moment later.",
    "",
    f"{NO_ANSWER}|{REFUSED}",
    kernel_table=_DeletesUdpRulesBeforeAdding,
)


_GETSET = uapi.NFT_MSG_NEWSET + 1
_READABLE = (0, 1, 2)  # types of user data before nft 0.9.4, which added the description of a set's type


class _ReadsEveryTable(KernelTable):
    """Reads the sets of all tables in the netns before each write, and writes nothing if it cannot read one."""

    def load(self, ruleset: Ruleset) -> None:
        if self._reads_all():
            super().load(ruleset)

    def apply(self, changes: Changes) -> None:
        if self._reads_all():
            super().apply(changes)

    def _reads_all(self) -> bool:
        sets = self._nft.dump(_GETSET, bytes(4))
        user_data = (dict(attributes(each[4:])).get(uapi.NFTA_SET_USERDATA) for each in sets)
        return all(each is None or each[0] in _READABLE for each in user_data)


_register(
    "reads-tables-of-other-programs",
    "The proxy reads the tables of all programs, and writes nothing while it does not know the type of a set.",
    "kubernetes#136786",
    REACHED,
    kernel_table=_ReadsEveryTable,
)


# When


def _caches(node: str, client: Client, **options: Any) -> ServiceProxy:
    def age(event: Event) -> float:
        return CACHED if (event.resource, event.type) == ("endpointslices", "MODIFIED") else 0.0

    return ServiceProxy(node, DelayedClient(client, age, by_object=True), **options)


MUTANTS.append(
    Mutant(
        "caches-changes",
        f"The proxy processes a changed slice only {CACHED:g} s after the change.",
        symptom="seconds until .*observed",
        proxy=_caches,
    )
)
