"""A mutant that decides wrongly is wrong in what its sentence names, and right in all else.

`SAID` names what each one needs to be wrong: where any of it is taken out of a situation, the decision is the
reference's. What it needs is there in some of the situations, and there it is another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from mutants import MUTANTS, decisions, proxy_hints, proxy_policies
from mutants.decisions import Question, without_hints
from reference.proxy.decision import NEWEST as BEHAVIOUR
from reference.proxy.decision import Action, Decision, Endpoint, Forward, Place, ServicePort

SITUATIONS = 1500
ZONES, NODES = ("a", "b", "A", "01", "1"), ("a1", "a2", "b1")
ADDRESSES = ("cluster_ip", "outside", "inside")

Without = Callable[[Question], Question]


def _port(**changes: Any) -> Without:
    return lambda asked: replace(asked, port=replace(asked.port, **changes))


def _endpoints(kept: Callable[[Endpoint], bool]) -> Without:
    return lambda asked: replace(asked, endpoints=[each for each in asked.endpoints if kept(each)])


def _each(change: Callable[[Endpoint], Endpoint]) -> Without:
    return lambda asked: replace(asked, endpoints=[change(each) for each in asked.endpoints])


def _starting(each: Endpoint) -> bool:
    return not each.ready and not each.terminating


WITHOUT: Mapping[str, Without] = {
    "hints": lambda asked: replace(asked, endpoints=without_hints(asked.endpoints)),
    "zone hints": lambda asked: replace(asked, endpoints=without_hints(asked.endpoints, nodes=False)),
    "node hints": lambda asked: replace(asked, endpoints=without_hints(asked.endpoints, zones=False)),
    "unhinted endpoints": _endpoints(lambda each: bool(each.zone_hints and each.node_hints)),
    "unready endpoints": _endpoints(lambda each: not _starting(each)),
    "terminating endpoints": _endpoints(lambda each: not each.terminating),
    "terminating endpoints that do not serve": _endpoints(lambda each: each.serving or not each.terminating),
    "no zone label": lambda asked: replace(asked, place=replace(asked.place, zone=asked.place.zone or "a")),
    "odd names of zones": lambda asked: replace(
        _each(lambda each: each._replace(zone_hints=each.zone_hints & {"a", "b"}))(asked),
        place=replace(asked.place, zone=asked.place.zone if asked.place.zone in {"a", "b"} else "a"),
    ),
    "another node": lambda asked: replace(asked, place=Place("a1", "a")),
    "annotation": _port(topology_annotation=""),
    "no annotation": _port(topology_annotation="Auto"),
    "UDP": _port(protocol="TCP"),
    "IPv6": _port(cluster_ips=("10.96.0.1",)),
    "external addresses": _port(node_port=0),
    "internal Local": _port(internal_local=False),
    "external Local": _port(external_local=False),
    "any Local": _port(internal_local=False, external_local=False),
    "several endpoints": lambda asked: replace(asked, endpoints=asked.endpoints[:1]),
    "no usable endpoint": lambda asked: replace(asked, endpoints=[*asked.endpoints, Endpoint("10.244.9.9", 80)]),
}
"""Takes something out of a situation, by what it is called in `SAID`."""


@dataclass(frozen=True)
class Said:
    """What a mutant needs to be wrong, and at which addresses it is."""

    needs: tuple[str, ...]
    at: tuple[str, ...] = ADDRESSES


EXTERNAL = ("outside", "inside")

SAID: Mapping[str, Said] = {
    "ignores-zone-hints": Said(("zone hints",)),
    "ignores-node-hints": Said(("node hints",)),
    "accepts-partial-zone-hints": Said(("zone hints", "unhinted endpoints", "several endpoints")),
    "accepts-partial-node-hints": Said(("node hints", "unhinted endpoints", "several endpoints")),
    "unhinted-endpoint-joins-every-zone": Said(("zone hints", "unhinted endpoints", "several endpoints")),
    "no-hints-mean-nobody": Said(("unhinted endpoints",)),
    "drops-without-hinted-endpoint": Said(("hints",)),
    "drops-without-zone-label": Said(("zone hints", "no zone label")),
    "skips-zone-tier": Said(("zone hints", "node hints")),
    "node-as-zone": Said(("zone hints", "node hints", "several endpoints")),
    "zone-before-node": Said(("zone hints", "node hints", "several endpoints")),
    "hints-need-the-annotation": Said(("zone hints", "no annotation")),
    "annotation-disabled-ends-hints": Said(("hints", "annotation")),
    "zone-names-in-any-case": Said(("zone hints", "odd names of zones")),
    "zone-names-as-numbers": Said(("zone hints", "odd names of zones")),
    "decides-as-on-another-node": Said(("another node",)),
    "udp-ignores-hints": Said(("hints", "UDP")),
    "ipv6-ignores-hints": Said(("hints", "IPv6")),
    "external-addresses-ignore-hints": Said(("hints", "external addresses"), EXTERNAL),
    "uses-unready-hinted-endpoint": Said(("hints", "unready endpoints")),
    "unready-endpoint-breaks-hints": Said(("hints", "unready endpoints", "unhinted endpoints")),
    "terminating-endpoint-breaks-hints": Said(("hints", "terminating endpoints", "unhinted endpoints")),
    "mixes-terminating-with-ready": Said(("terminating endpoints", "several endpoints")),
    "no-terminating-fallback": Said(("terminating endpoints",)),
    "terminating-means-serving": Said(("terminating endpoints that do not serve",)),
    "hints-on-terminating-endpoints": Said(("hints", "terminating endpoints", "several endpoints")),
    "hints-on-top-of-local": Said(("zone hints", "any Local"), ("cluster_ip", "outside")),
    "ignores-internal-local": Said(("internal Local",), ("cluster_ip",)),
    "udp-ignores-internal-local": Said(("internal Local", "UDP"), ("cluster_ip",)),
    "internal-local-falls-back": Said(("internal Local",), ("cluster_ip",)),
    "internal-local-restricts-external": Said(("internal Local", "external addresses"), EXTERNAL),
    "external-local-restricts-cluster-ip": Said(("external Local", "external addresses"), ("cluster_ip",)),
    "external-local-restricts-clients-inside": Said(("external Local", "external addresses"), ("inside",)),
    "rejects-where-drop-is-due": Said(("any Local",), ("cluster_ip", "outside")),
    "drops-where-reject-is-due": Said(("no usable endpoint",)),
    "starves-one-endpoint": Said(("several endpoints",)),
}

DECIDING = [each.name for group in (proxy_hints, proxy_policies, decisions) for each in group.MUTANTS]


@cache
def situations() -> list[Question]:
    """Generated situations, always the same."""
    chance = random.Random(18)
    return [_situation(chance) for _ in range(SITUATIONS)]


def _situation(chance: random.Random) -> Question:
    def some(names: tuple[str, ...]) -> frozenset[str]:
        return frozenset(each for each in names if chance.random() < 0.4)

    def endpoint(number: int, zones: float, nodes: float) -> Endpoint:
        state = chance.choice(("ready", "ready", "ready", "starting", "leaving", "gone"))
        return Endpoint(
            f"10.244.0.{number}",
            8080,
            ready=state == "ready",
            serving=state in {"ready", "leaving"},
            terminating=state in {"leaving", "gone"},
            node=chance.choice(NODES),
            zone_hints=some(ZONES) if chance.random() < zones else frozenset(),
            node_hints=some(NODES) if chance.random() < nodes else frozenset(),
        )

    zones, nodes = (chance.choice((0, 0.7, 1)) for _ in range(2))
    port = ServicePort(
        "default", "web", "", chance.choice(("TCP", "UDP")), 80,
        node_port=chance.choice((0, 30080)),
        cluster_ips=chance.choice((("10.96.0.1",), ("fd00::1",))),
        internal_local=chance.random() < 0.3,
        external_local=chance.random() < 0.3,
        topology_annotation=chance.choice(("", "Auto", "Disabled")),
    )  # fmt: skip
    place = Place(chance.choice(NODES), chance.choice((*ZONES, "")))
    return Question(port, [endpoint(each, zones, nodes) for each in range(chance.randint(0, 4))], place, BEHAVIOUR)


def _decided(name: str, asked: Question) -> Decision:
    decide = MUTANTS[name].proxy.keywords["state"].keywords["decide"]  # type: ignore[attr-defined]
    decision: Decision = decide(asked.port, asked.endpoints, asked.place, asked.behaviour)
    return decision


def _what(action: Action | None) -> object:
    """What happens to connections: reasons are not compared, nor is the order of endpoints."""
    return frozenset(each[:2] for each in action.endpoints) if isinstance(action, Forward) else type(action)


def _wrong_at(name: str, asked: Question) -> set[str]:
    right, seen = asked.answer(), _decided(name, asked)
    return {each for each in ADDRESSES if _what(getattr(right, each)) != _what(getattr(seen, each))}


def test_what_each_mutant_that_decides_needs_is_said() -> None:
    assert SAID.keys() == set(DECIDING)


@pytest.mark.parametrize("name", SAID)
def test_a_mutant_is_wrong_where_it_says_so(name: str) -> None:
    assert set().union(*(_wrong_at(name, each) for each in situations())) == set(SAID[name].at)


@pytest.mark.parametrize(("name", "need"), [(name, need) for name, said in SAID.items() for need in said.needs])
def test_a_mutant_is_right_without_what_it_needs(name: str, need: str) -> None:
    changed = [WITHOUT[need](each) for each in situations()]
    assert [each for each in changed if _wrong_at(name, each)] == []
