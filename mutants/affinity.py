"""Proxies whose session affinity is missing, too broad, or wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.data_planes import edited
from mutants.mutant import NO_ANSWER, REACHED, WRITTEN, Mutant
from mutants.wrong_decisions import DecisionInput, Wrong, deciding, proxy_deciding, without_hints
from mutants.wrong_tables import ReplacesTables
from reference.proxy import ServiceProxy, uapi
from reference.proxy.base_rules import Chain
from reference.proxy.decision import Decision, Family, ServicePort
from reference.proxy.netlink import number
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import (
    Endpoint,
    PortEntries,
    RuleAction,
    Ruleset,
    ServiceAddress,
    StickyEndpoints,
    place,
    render,
)
from reference.proxy.state import State
from reference.proxy.table import Table

FOR_EVER = 86_400  # seconds

_ADD, _UPDATE = (number(uapi.NFTA_DYNSET_OP, each) for each in (uapi.NFT_DYNSET_OP_ADD, uapi.NFT_DYNSET_OP_UPDATE))

Render = Callable[[ServicePort, Decision, str, Sequence[str]], PortEntries]
Change = Callable[[ServicePort, ServiceAddress, StickyEndpoints], RuleAction]


def _rendering(of: Callable[[ServicePort], ServicePort]) -> Callable[..., ServiceProxy]:
    """Return a proxy that renders rules from modified service ports."""

    def rendered(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
        return render(of(port), decision, node, addresses)

    return partial(ServiceProxy, state=partial(State, render=rendered))


def _changed(change: Change, outside: Change | None = None) -> Render:
    """Return a function like `render` that applies `change` to the actions of Services with session affinity.

    `outside` is applied to the actions for external clients instead.
    """

    def rendered(port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]) -> PortEntries:
        def each(actions: Mapping[ServiceAddress, RuleAction], changed: Change) -> dict[ServiceAddress, RuleAction]:
            return {
                service: changed(port, service, action) if isinstance(action, StickyEndpoints) else action
                for service, action in actions.items()
            }

        right = render(port, decision, node, addresses)
        return replace(right, services=each(right.services, change), external=each(right.external, outside or change))

    return rendered


def _changing(change: Change) -> Callable[..., ServiceProxy]:
    return partial(ServiceProxy, state=partial(State, render=_changed(change)))


class _AffinityOutlivesEndpoints(State):
    """Never removes an endpoint from the rules of a Service with affinity."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, render=_changed(_with_former(), _with_former()))


def _with_former() -> Change:
    known: dict[ServiceAddress, dict[Endpoint, None]] = {}

    def change(port: ServicePort, service: ServiceAddress, action: StickyEndpoints) -> RuleAction:
        mine = known.setdefault(service, {})
        mine.update(dict.fromkeys(action.endpoints))
        return replace(action, endpoints=tuple(mine))

    return change


class _AffinityOutlivesReadiness(State):
    """Once an endpoint of a Service with affinity is ready, counts it as ready until it terminates or is removed."""

    def __init__(self, *arguments: Any) -> None:
        known: dict[tuple[str, str, str, str], set[str]] = {}

        def wrong(asked: DecisionInput) -> Decision:
            port = asked.port
            if not port.affinity_seconds:
                return asked.answer()
            key = (port.namespace, port.name, port.port_name, port.protocol)
            mine = known[key] = {
                each.address
                for each in asked.endpoints
                if each.ready or (each.address in known.get(key, ()) and not each.terminating)
            }
            return asked.answer(endpoints=[each._replace(ready=each.address in mine) for each in asked.endpoints])

        super().__init__(*arguments, decide=deciding(wrong))


class _PositionedAddress(str):
    """An address that looks like its position in the list of endpoints where an identity is computed from it."""

    __slots__ = ("position",)

    position: int

    def __format__(self, format_spec: str) -> str:
        return str(self.position)


def _positioned(address: str, position: int) -> str:
    found = _PositionedAddress(address)
    found.position = position
    return found


def _by_position(current: RuleAction | None, wanted: RuleAction) -> RuleAction:
    """Return the slots of a proxy that remembers the position of a client's endpoint, and not the endpoint."""
    action = place(current, wanted)
    if not isinstance(action, StickyEndpoints):
        return action
    placed = [(_positioned(address, at), port) for at, (address, port) in enumerate(action.endpoints)]
    return replace(action, endpoints=tuple(placed))


class _ReplacesItsTable(KernelTable):
    """Deletes its table, and so the clients in the table, before each load."""

    def load(self, ruleset: Ruleset) -> None:
        if self._nft.exists(uapi.NFT_MSG_GETTABLE, self._messages.table):
            self._nft.commit(self._messages.delete_table())
        super().load(ruleset)


def _at_the_cluster_ip_only(port: ServicePort, service: ServiceAddress, action: StickyEndpoints) -> RuleAction:
    return action if service.address in port.cluster_ips else action.endpoints


def _deciding(wrong: Wrong) -> Callable[..., ServiceProxy]:
    """Return a proxy whose decisions about Services with affinity are changed."""
    return proxy_deciding(wrong, about=lambda asked: bool(asked.port.affinity_seconds))


def unrenewed(_: Family, chain: Chain) -> Chain:
    """The timeout of a client starts at its first connection, and is never renewed."""
    rules = [
        each._replace(expressions=each.expressions.replace(_UPDATE, _ADD)) if "update @affinity" in each.text else each
        for each in chain.rules
    ]
    return replace(chain, rules=tuple(rules))


def _never_forgotten_locally(_: Family, chain: Chain) -> Chain:
    """A client of the node's own endpoints is not deleted from the map when its endpoint has left."""
    if not re.fullmatch(r"affinity-.*-local", chain.name):
        return chain
    return replace(chain, rules=tuple(each for each in chain.rules if not each.text.startswith("delete @affinity")))


MUTANTS = [
    Mutant(
        "no-affinity",
        "The proxy ignores sessionAffinity.",
        symptom=REACHED,
        proxy=_rendering(lambda port: replace(port, affinity_seconds=0)),
    ),
    Mutant(
        "no-affinity-over-udp",
        "The proxy applies sessionAffinity only to TCP.",
        symptom=REACHED,
        proxy=_rendering(lambda port: replace(port, affinity_seconds=0) if port.protocol == "UDP" else port),
    ),
    Mutant(
        "affinity-at-the-cluster-ip-only",
        "Session affinity is not applied at node ports and other external addresses.",
        symptom=REACHED,
        proxy=_changing(_at_the_cluster_ip_only),
    ),
    Mutant(
        "no-affinity-with-external-local",
        "The proxy ignores sessionAffinity on Services with externalTrafficPolicy Local.",
        "kubernetes#55429",
        REACHED,
        proxy=_rendering(lambda port: replace(port, affinity_seconds=0) if port.external_local else port),
    ),
    Mutant(
        "affinity-ignores-hints",
        "The proxy ignores hints on Services with session affinity.",
        symptom=REACHED,
        proxy=_deciding(lambda asked: asked.answer(endpoints=without_hints(asked.endpoints))),
    ),
    Mutant(
        "affinity-ignores-policies",
        "The proxy treats traffic policies as Cluster on Services with session affinity.",
        symptom=f"{REACHED}|{NO_ANSWER}",  # replies from another node to external clients take a different path
        proxy=_deciding(
            lambda asked: asked.answer(port=replace(asked.port, internal_local=False, external_local=False))
        ),
    ),
    Mutant(
        "affinity-outlives-endpoints",
        "A client keeps its endpoint after the endpoint is removed or no longer selected for the client.",
        "kubernetes#99299",
        REACHED,
        proxy=partial(ServiceProxy, state=_AffinityOutlivesEndpoints),
    ),
    Mutant(
        "affinity-outlives-readiness",
        "A client keeps its endpoint after the endpoint is no longer ready.",
        "kubernetes#110302",
        REACHED,
        proxy=partial(ServiceProxy, state=_AffinityOutlivesReadiness),
    ),
    Mutant(
        "affinity-outlives-endpoints-of-the-node",
        "With externalTrafficPolicy Local, an external client gets no answer after its endpoint is removed.",
        symptom=NO_ANSWER,
        proxy=edited(_never_forgotten_locally),
    ),
    Mutant(
        "everyone-gets-the-same-endpoint",
        "With session affinity, all clients get the same endpoint.",
        symptom=WRITTEN,
        proxy=_changing(lambda port, service, action: replace(action, endpoints=(min(action.endpoints),))),
    ),
    Mutant(
        "affinity-by-position",
        "With session affinity, clients of the other endpoints move when an endpoint is removed.",
        "proxies whose groups have numbered buckets",
        symptom=REACHED,
        proxy=partial(ServiceProxy, state=partial(ReplacesTables, table=partial(Table, place=_by_position))),
    ),
    Mutant(
        "affinity-ends-with-the-proxy",
        "The proxy deletes its rules when it starts, so clients lose their session affinity.",
        symptom=REACHED,
        proxy=partial(ServiceProxy, kernel_table=_ReplacesItsTable),
    ),
    Mutant(
        "affinity-for-ever",
        "Session affinity lasts for a day, whatever timeoutSeconds is.",
        symptom=WRITTEN,
        proxy=_changing(lambda port, service, action: replace(action, seconds=FOR_EVER)),
    ),
    Mutant(
        "affinity-is-not-renewed",
        "Session affinity expires after timeoutSeconds, even if the client keeps connecting.",
        symptom=WRITTEN,
        proxy=edited(unrenewed),
    ),
]
