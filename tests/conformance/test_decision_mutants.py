"""Each mutant of the proxy's decision is wrong only in the situations that its description names.

`SAID` has, for each mutant, the conditions that trigger its fault. Without one of these conditions, the mutant decides
like the reference. In some of the situations with all conditions, the mutant decides differently.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import pytest

from mutants import MUTANTS, duplicate_addresses
from mutants.wrong_decisions import DecisionInput, without_hints
from reference.features import Features
from reference.objects.topology_keys import ANY
from reference.proxy.decision import Action, Behaviour, Decision, Endpoint, Forward, OwnNode, ServicePort
from reference.proxy.state import State

SITUATIONS, MOST = 500, 8000
MANY = 101
ZONES, NODES = ("a", "b", "A", "01", "1"), ("a1", "a2", "b1")
HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.org/rack"
LABELS = {
    "a1": frozenset({(HOST, "a1"), (ZONE, "a"), (RACK, "1")}),
    "a2": frozenset({(HOST, "a2"), (ZONE, "a")}),
    "b1": frozenset({(HOST, "b1"), (ZONE, "b"), (RACK, "1")}),
    "b2": frozenset({(HOST, "b2"), (ZONE, "b")}),
}
KEYS = ((HOST,), (ZONE,), (RACK,), (HOST, ZONE), (RACK, ZONE), (ZONE, RACK), (HOST, ANY), (RACK, ANY), (ANY,))
NEWEST = Behaviour.of(Features())
BEHAVIOURS = (
    *(NEWEST,) * 6,
    Behaviour.of(Features((1, 29))),
    *(Behaviour.of(Features(gates={"ServiceTopology": True})),) * 3,
    Behaviour.of(Features(gates={"ServiceTopology": True}, follows="released")),
    Behaviour.of(Features((1, 29), {"NodeLevelTopology": True})),
)
ADDRESSES = ("cluster_ip", "outside", "inside")

Without = Callable[[DecisionInput], DecisionInput]


def _port(**changes: Any) -> Without:
    return lambda asked: replace(asked, port=replace(asked.port, **changes))


def _behaviour(**changes: Any) -> Without:
    return lambda asked: replace(asked, behaviour=replace(asked.behaviour, **changes))


def _endpoints(kept: Callable[[Endpoint], bool]) -> Without:
    return lambda asked: replace(asked, endpoints=[each for each in asked.endpoints if kept(each)])


def _each(change: Callable[[Endpoint], Endpoint]) -> Without:
    return lambda asked: replace(asked, endpoints=[change(each) for each in asked.endpoints])


def _keys(change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Without:
    return lambda asked: replace(asked, port=replace(asked.port, topology_keys=change(asked.port.topology_keys)))


def _labelled(asked: DecisionInput) -> DecisionInput:
    """Give every node a separate rack."""
    own = {node: {*labels, *({(RACK, node)} if RACK not in dict(labels) else ())} for node, labels in LABELS.items()}
    moved = [each._replace(labels=frozenset(own[each.node])) for each in asked.endpoints]
    return replace(asked, endpoints=moved, place=replace(asked.place, labels=frozenset(own[asked.place.node])))


def _starting(each: Endpoint) -> bool:
    return not each.ready and not each.terminating


WITHOUT: Mapping[str, Without] = {
    "hints": lambda asked: replace(asked, endpoints=without_hints(asked.endpoints)),
    "zone hints": lambda asked: replace(asked, endpoints=without_hints(asked.endpoints, nodes=False)),
    "node hints": lambda asked: replace(asked, endpoints=without_hints(asked.endpoints, zones=False)),
    "unhinted endpoints": _endpoints(lambda each: bool(each.zone_hints and each.node_hints)),
    "endpoints that are not ready": _endpoints(lambda each: each.ready),
    "unready endpoints": _endpoints(lambda each: not _starting(each)),
    "terminating endpoints": _endpoints(lambda each: not each.terminating),
    "terminating endpoints that do not serve": _endpoints(lambda each: each.serving or not each.terminating),
    "no zone label": lambda asked: replace(asked, place=replace(asked.place, zone=asked.place.zone or "a")),
    "unusual zone names": lambda asked: replace(
        _each(lambda each: each._replace(zone_hints=each.zone_hints & {"a", "b"}))(asked),
        place=replace(asked.place, zone=asked.place.zone if asked.place.zone in {"a", "b"} else "a"),
    ),
    "another node": lambda asked: replace(asked, place=OwnNode("a1", "a", LABELS["a1"])),
    "annotation": _port(topology_annotation=""),
    "no annotation": _port(topology_annotation="Auto"),
    "a release with the annotation": _behaviour(annotation="unused"),
    "UDP": _port(protocol="TCP"),
    "IPv6": _port(cluster_ips=("10.96.0.1",)),
    "external addresses": _port(node_port=0, load_balancer_ips=(), external_ips=()),
    "load balancer IPs": _port(load_balancer_ips=()),
    "external IPs": _port(external_ips=()),
    "affinity": _port(affinity_seconds=0),
    "internal Local": _port(internal_local=False),
    "external Local": _port(external_local=False),
    "any Local": _port(internal_local=False, external_local=False),
    "several endpoints": lambda asked: replace(asked, endpoints=asked.endpoints[:1]),
    "several target ports": _each(lambda each: each._replace(port=8080)),
    "many endpoints": lambda asked: replace(asked, endpoints=asked.endpoints[: MANY - 1]),
    "topology keys": _port(topology_keys=()),
    "gate of topologyKeys": _behaviour(topology_keys=False, keys_alone=False, internal_policy=True),
    "gate as released": _behaviour(keys_alone=False),
    "ineffective internal policy": _behaviour(internal_policy=True),
    "several topology keys": _keys(lambda keys: keys[:1]),
    "keys without *": _keys(lambda keys: (*(each for each in keys if each != ANY), ANY) if keys else ()),
    "*": _keys(lambda keys: tuple(each for each in keys if each != ANY)),
    "custom topology keys": _keys(lambda keys: tuple(each for each in keys if each != RACK)),
    "missing labels": _labelled,
    "rejected connections": lambda asked: replace(
        asked,
        port=replace(asked.port, topology_keys=()),
        endpoints=[*asked.endpoints, Endpoint("10.244.9.9", 80)],
    ),
}
"""Maps the name of a condition in `SAID` to a function that removes the condition from a situation."""


@dataclass(frozen=True)
class FaultScope:
    """The conditions that trigger a mutant's fault, and the affected kinds of addresses."""

    needs: tuple[str, ...]
    at: tuple[str, ...] = ADDRESSES


EXTERNAL = ("outside", "inside")

SAID: Mapping[str, FaultScope] = {
    "ignores-zone-hints": FaultScope(("zone hints",)),
    "ignores-node-hints": FaultScope(("node hints",)),
    "accepts-partial-zone-hints": FaultScope(("zone hints", "unhinted endpoints", "several endpoints")),
    "accepts-partial-node-hints": FaultScope(("node hints", "unhinted endpoints", "several endpoints")),
    "unhinted-endpoint-joins-every-zone": FaultScope(("zone hints", "unhinted endpoints", "several endpoints")),
    "no-hints-mean-nobody": FaultScope(("unhinted endpoints",)),
    "drops-without-hinted-endpoint": FaultScope(("hints",)),
    "drops-without-zone-label": FaultScope(("zone hints", "no zone label")),
    "skips-zone-tier": FaultScope(("zone hints", "node hints")),
    "node-as-zone": FaultScope(("zone hints", "node hints", "several endpoints")),
    "zone-before-node": FaultScope(("zone hints", "node hints", "several endpoints")),
    "hints-need-the-annotation": FaultScope(("zone hints", "no annotation")),
    "annotation-disabled-ends-hints": FaultScope(("hints", "annotation")),
    "zone-names-in-any-case": FaultScope(("zone hints", "unusual zone names")),
    "zone-names-as-numbers": FaultScope(("zone hints", "unusual zone names")),
    "decides-as-on-another-node": FaultScope(("another node",)),
    "udp-ignores-hints": FaultScope(("hints", "UDP")),
    "ipv6-ignores-hints": FaultScope(("hints", "IPv6")),
    "external-addresses-ignore-hints": FaultScope(("hints", "external addresses"), EXTERNAL),
    "uses-unready-hinted-endpoint": FaultScope(("hints", "unready endpoints")),
    "uses-unready-endpoints": FaultScope(("unready endpoints",)),
    "local-fallback-needs-a-service-without-ready-endpoints": FaultScope(
        ("terminating endpoints", "any Local"), ("cluster_ip", "outside")
    ),
    "unready-endpoint-breaks-hints": FaultScope(("hints", "unready endpoints", "unhinted endpoints")),
    "terminating-endpoint-breaks-hints": FaultScope(("hints", "terminating endpoints", "unhinted endpoints")),
    "hinted-endpoints-on-the-node-come-first": FaultScope(("node hints", "several endpoints")),
    "unready-endpoint-breaks-node-hints": FaultScope(("node hints", "unready endpoints", "unhinted endpoints")),
    "terminating-endpoint-breaks-node-hints": FaultScope(("node hints", "terminating endpoints", "unhinted endpoints")),
    "mixes-terminating-with-ready": FaultScope(("terminating endpoints", "several endpoints")),
    "no-terminating-fallback": FaultScope(("terminating endpoints",)),
    "terminating-means-serving": FaultScope(("terminating endpoints that do not serve",)),
    "hints-on-terminating-endpoints": FaultScope(("hints", "terminating endpoints", "several endpoints")),
    "hints-on-top-of-local": FaultScope(("zone hints", "any Local"), ("cluster_ip", "outside")),
    "ignores-internal-local": FaultScope(("internal Local",), ("cluster_ip",)),
    "udp-ignores-internal-local": FaultScope(("internal Local", "UDP"), ("cluster_ip",)),
    "internal-local-falls-back": FaultScope(("internal Local",), ("cluster_ip",)),
    "internal-local-restricts-external": FaultScope(("internal Local", "external addresses"), EXTERNAL),
    "external-local-restricts-cluster-ip": FaultScope(("external Local", "external addresses"), ("cluster_ip",)),
    "external-local-restricts-clients-inside": FaultScope(("external Local", "external addresses"), ("inside",)),
    "rejects-where-drop-is-due": FaultScope(("any Local",), ("cluster_ip", "outside")),
    "drops-where-reject-is-due": FaultScope(("rejected connections",)),
    "starves-one-endpoint": FaultScope(("several endpoints",)),
    # combinations of several dimensions
    "no-policies-over-udp-and-ipv6": FaultScope(("any Local", "UDP", "IPv6"), ("cluster_ip", "outside")),
    "no-hints-over-udp-and-ipv6": FaultScope(("hints", "UDP", "IPv6")),
    "no-hints-at-external-addresses-over-ipv6": FaultScope(("hints", "external addresses", "IPv6"), EXTERNAL),
    "no-last-resort-over-ipv6": FaultScope(("terminating endpoints", "IPv6")),
    "unready-over-ipv6": FaultScope(("endpoints that are not ready", "IPv6")),
    "no-last-resort-with-affinity": FaultScope(("terminating endpoints", "affinity")),
    "no-external-local-with-affinity": FaultScope(("external Local", "affinity", "external addresses"), ("outside",)),
    "first-hundred-endpoints": FaultScope(("many endpoints",)),
    "no-hints-over-a-hundred": FaultScope(("hints", "many endpoints")),
    "no-policies-over-a-hundred": FaultScope(("any Local", "many endpoints"), ("cluster_ip", "outside")),
    "external-local-for-all-at-load-balancers": FaultScope(("external Local", "load balancer IPs"), ("inside",)),
    "internal-local-at-external-ips": FaultScope(("internal Local", "external IPs"), ("inside",)),
    "no-hints-inside-at-external-ips": FaultScope(("hints", "external IPs"), ("inside",)),
    "target-port-of-the-first-pod": FaultScope(("several endpoints", "several target ports")),
    "unready-as-last-resort": FaultScope(("unready endpoints",)),
    "drops-where-none-is-ready": FaultScope(("endpoints that are not ready", "rejected connections")),
    "no-last-resort-at-udp-node-ports": FaultScope(("terminating endpoints", "UDP", "external addresses"), EXTERNAL),
    "node-hints-need-a-zone": FaultScope(("node hints", "no zone label")),
    "node-hints-on-top-of-local": FaultScope(("node hints", "any Local"), ("cluster_ip", "outside")),
    "hints-on-top-of-local-at-load-balancers": FaultScope(
        ("zone hints", "any Local", "load balancer IPs"), ("cluster_ip", "outside")
    ),
    "affinity-ignores-node-hints-at-load-balancers": FaultScope(
        ("node hints", "affinity", "load balancer IPs"), EXTERNAL
    ),
    "accepts-partial-hints-over-ipv6": FaultScope(("zone hints", "unhinted endpoints", "several endpoints", "IPv6")),
    "no-policies-at-external-addresses-over-ipv6": FaultScope(
        ("external Local", "external addresses", "IPv6"), ("outside",)
    ),
    "affinity-ignores-hints": FaultScope(("hints", "affinity")),
    "affinity-ignores-policies": FaultScope(("any Local", "affinity"), ("cluster_ip", "outside")),
    # topology keys
    "ignores-topology-keys": FaultScope(("topology keys", "gate of topologyKeys")),
    "topology-keys-are-soft": FaultScope(("topology keys", "gate of topologyKeys", "keys without *")),
    "first-topology-key-only": FaultScope(("several topology keys", "gate of topologyKeys")),
    "reads-topology-keys-backwards": FaultScope(("several topology keys", "gate of topologyKeys")),
    "unites-topology-keys": FaultScope(("several topology keys", "gate of topologyKeys", "several endpoints")),
    "demands-every-topology-key": FaultScope(("several topology keys", "gate of topologyKeys")),
    "star-is-a-label": FaultScope(("*", "gate of topologyKeys")),
    "star-decides-at-once": FaultScope(("*", "several topology keys", "gate of topologyKeys")),
    "knows-common-topology-keys-only": FaultScope(("custom topology keys", "gate of topologyKeys")),
    "topology-keys-stay-in-the-zone": FaultScope(("topology keys", "gate of topologyKeys", "several endpoints")),
    "missing-label-is-a-place": FaultScope(("topology keys", "gate of topologyKeys", "missing labels")),
    "topology-keys-match-any-label": FaultScope(("topology keys", "gate of topologyKeys")),
    "unready-endpoint-meets-a-key": FaultScope(("topology keys", "gate of topologyKeys", "unready endpoints")),
    "udp-ignores-topology-keys": FaultScope(("topology keys", "gate of topologyKeys", "UDP")),
    "ipv6-ignores-topology-keys": FaultScope(("topology keys", "gate of topologyKeys", "IPv6")),
    "external-addresses-ignore-topology-keys": FaultScope(
        ("topology keys", "gate of topologyKeys", "external addresses"), EXTERNAL
    ),
    "hints-before-topology-keys": FaultScope(("topology keys", "gate of topologyKeys", "hints")),
    "annotation-before-topology-keys": FaultScope(("topology keys", "gate of topologyKeys", "annotation")),
    "hints-narrow-topology-keys": FaultScope(("topology keys", "gate of topologyKeys", "hints", "several endpoints")),
    "topology-keys-end-policy-local": FaultScope(
        ("topology keys", "gate of topologyKeys", "any Local"), ("cluster_ip", "outside")
    ),
    "gate-of-topology-keys-ends-hints": FaultScope(("gate of topologyKeys", "hints")),
    "hints-beside-the-gate-of-topology-keys": FaultScope(("gate of topologyKeys", "gate as released", "hints")),
    "policy-local-beside-the-gate-of-topology-keys": FaultScope(
        ("gate of topologyKeys", "ineffective internal policy", "internal Local"), ("cluster_ip",)
    ),
    # node-level topology
    "node-level-needs-the-annotation": FaultScope(("node hints", "no annotation", "a release with the annotation")),
    "node-level-softens-local": FaultScope(("node hints", "any Local"), ("cluster_ip", "outside")),
    "node-level-narrows-local": FaultScope(("node hints", "any Local"), ("cluster_ip", "outside")),
    "node-level-needs-both-policies": FaultScope(("node hints", "any Local")),
    "node-level-without-fallback": FaultScope(("node hints",)),
}


def _decides(name: str) -> Callable[..., Decision] | None:
    """Return the decision function of a mutant that replaces only this function."""
    proxy = MUTANTS[name].proxy
    state = proxy.keywords.get("state") if isinstance(proxy, partial) else None
    only = isinstance(state, partial) and state.func is State and state.keywords.keys() == {"decide"}
    return state.keywords["decide"] if isinstance(state, partial) and only else None


REPEATED = {
    each.name for each in duplicate_addresses.MUTANTS
}  # tests/conformance/test_small_scope.py has their trigger
NODELESS = {"endpoints-without-node-are-local"}  # tests/conformance/test_change_mutants.py has its trigger
ELSEWHERE = REPEATED | NODELESS
DECIDING = [name for name, each in MUTANTS.items() if name not in ELSEWHERE and not each.draw and _decides(name)]


@cache
def situations() -> list[DecisionInput]:
    """Return deterministic generated situations.

    Most mutants use only the first ones. The remaining situations are for faults that are rarely triggered.
    """
    chance = random.Random(18)
    return [_situation(chance) for _ in range(MOST)]


def _situation(chance: random.Random) -> DecisionInput:
    def some(names: tuple[str, ...]) -> frozenset[str]:
        return frozenset(each for each in names if chance.random() < 0.4) or frozenset({chance.choice(names)})

    def endpoint(number: int, zones: float, nodes: float) -> Endpoint:
        state = chance.choice(("ready", "ready", "ready", "starting", "leaving", "gone"))
        node = chance.choice(NODES)
        return Endpoint(
            f"10.244.0.{number}",
            chance.choice((8080, 8080, 8080, 9090)),
            ready=state == "ready",
            serving=state in {"ready", "leaving"},
            terminating=state in {"leaving", "gone"},
            node=node,
            zone_hints=some(ZONES) if chance.random() < zones else frozenset(),
            node_hints=some(NODES) if chance.random() < nodes else frozenset(),
            labels=LABELS[node],
        )

    zones, nodes = (chance.choice((0, 0.7, 1)) for _ in range(2))
    port = ServicePort(
        "default", "web", "", chance.choice(("TCP", "UDP")), 80,
        node_port=chance.choice((0, 30080)),
        cluster_ips=chance.choice((("10.96.0.1",), ("fd00::1",))),
        load_balancer_ips=chance.choice(((), (), ("192.0.2.1",))),
        external_ips=chance.choice(((), (), ("192.0.2.2",))),
        internal_local=chance.random() < 0.3,
        external_local=chance.random() < 0.3,
        topology_annotation=chance.choice(("", "Auto", "Disabled")),
        affinity_seconds=chance.choice((0, 0, 60)),
        topology_keys=chance.choice(((), (), *KEYS)),
    )  # fmt: skip
    node, zone = chance.choice(NODES), chance.choice((*ZONES, ""))
    count = MANY if chance.random() < 0.02 else chance.randint(0, 4)
    endpoints = [endpoint(each, zones, nodes) for each in range(count)]
    return DecisionInput(port, endpoints, OwnNode(node, zone, LABELS[node]), chance.choice(BEHAVIOURS))


@cache
def _answered(need: str = "") -> list[tuple[DecisionInput, Decision]]:
    """Return all situations without the condition `need`, and the correct decisions."""
    changed = map(WITHOUT[need], situations()[:SITUATIONS]) if need else situations()
    return [(each, each.answer()) for each in changed]


def _what(action: Action | None) -> object:
    """Return the effect of a decision on connections, without reasons and without the order of endpoints."""
    return frozenset(each[:2] for each in action.endpoints) if isinstance(action, Forward) else type(action)


def _wrong_at(name: str, asked: DecisionInput, right: Decision) -> set[str]:
    decide = _decides(name)
    assert decide is not None
    seen = decide(asked.port, asked.endpoints, asked.place, asked.behaviour)
    return {each for each in ADDRESSES if _what(getattr(right, each)) != _what(getattr(seen, each))}


def test_each_decision_mutant_states_its_trigger() -> None:
    assert SAID.keys() == set(DECIDING)


@pytest.mark.parametrize("name", SAID)
def test_mutant_is_wrong_where_its_case_says(name: str) -> None:
    wrong: set[str] = set()
    for number, each in enumerate(_answered()):
        if number >= SITUATIONS and wrong >= {*SAID[name].at}:
            break
        wrong |= _wrong_at(name, *each)
    assert wrong == {*SAID[name].at}


@pytest.mark.parametrize(("name", "need"), [(name, need) for name, said in SAID.items() for need in said.needs])
def test_mutant_is_right_without_its_trigger(name: str, need: str) -> None:
    assert [asked for asked, right in _answered(need) if _wrong_at(name, asked, right)] == []
