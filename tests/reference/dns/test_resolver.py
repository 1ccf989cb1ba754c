"""What the resolver remembers, and what makes it find out anew."""

from __future__ import annotations

from typing import Any

import dns.message
import pytest

from reference.apiserver import ApiServer
from reference.client import Event
from reference.dns import resolver as module
from reference.dns.index import ClusterIndex
from reference.dns.records import find
from reference.dns.resolver import Resolver
from tests.reference.dns.cluster import HOST, WITH_KEYS, ZONE, DnsCluster, at, full, told


class Counting:
    """A resolver fed from an API server, that counts how often it looks for records."""

    def __init__(self) -> None:
        self.cluster = DnsCluster()
        self.api = self.cluster.api = ApiServer(WITH_KEYS)
        self.resolver = Resolver(ClusterIndex(), find=self._find)
        self.finds = 0
        self.api.subscribe(["services", "endpointslices", "podlocators"], self._apply)

    def _apply(self, event: Event) -> None:
        if event.type != "SYNCED":
            self.resolver.apply(event)

    def _find(self, *arguments: Any) -> Any:
        self.finds += 1
        return find(*arguments)

    def ask(self, name: str, client: str, **options: Any) -> list[str]:
        wire = self.resolver.answer(dns.message.make_query(full(name), "A", **options).to_wire(), client)
        assert wire is not None
        return sorted(told(dns.message.from_wire(wire)))

    def finds_of(self, *questions: tuple[str, str]) -> int:
        """How often it looks for records to answer these (name, client) pairs."""
        before = self.finds
        for question in questions:
            self.ask(*question)
        return self.finds - before


@pytest.fixture
def counting() -> Counting:
    """Clients a1 and a2 in zone a, b1 in zone b; Service `zoned` looks at zones, `plain` at nothing."""
    made = Counting()
    for node in ("a1", "a2", "b1"):
        made.cluster.locate(node, node, f"10.1.0.{len(made.api.list('podlocators'))}")
    made.cluster.create_headless("zoned", keys=[ZONE, "*"])
    made.cluster.create_headless("plain")
    for name in ("zoned", "plain"):
        made.cluster.publish(name, at("10.0.0.1"))
    return made


A1, A2, B1, UNKNOWN = "10.1.0.0", "10.1.0.1", "10.1.0.2", "192.0.2.1"


def test_question_is_found_out_once_for_each_place_that_matters(counting: Counting) -> None:
    every = [("zoned", client) for client in (A1, A2, B1, UNKNOWN)] * 3
    assert counting.finds_of(*every) == 3
    assert counting.finds_of(*[("plain", client) for _, client in every]) == 2  # for known clients and for unknown


def test_change_of_one_service_leaves_the_others_known(counting: Counting) -> None:
    both = ("zoned", A1), ("plain", A1)
    assert counting.finds_of(*both) == 2
    counting.cluster.publish("plain", at("10.0.0.2"))
    assert counting.finds_of(*both) == 1
    counting.cluster.locate("elsewhere", "b1", "10.9.9.9")
    assert counting.finds_of(*both) == 0


def test_label_that_no_service_looks_at_costs_nothing(counting: Counting) -> None:
    assert counting.finds_of(("zoned", A1)) == 1
    counting.cluster.locate("a1", "a1", A1, labels={ZONE: "a", "color": "red"})
    assert counting.finds_of(("zoned", A1)) == 0


def test_keys_that_come_and_go_tell_clients_apart_and_together_again(counting: Counting) -> None:
    counting.cluster.locate("here", "a1", "10.0.0.1")
    counting.cluster.locate("there", "a2", "10.0.0.2")
    counting.cluster.publish("plain", at("10.0.0.1"), at("10.0.0.2"))
    for keys, seen in ((None, ["10.0.0.1", "10.0.0.2"]), ([HOST], ["10.0.0.1"])) * 2:
        counting.api.patch("services", "default", "plain", {"spec": {"topologyKeys": keys}})
        assert counting.ask("plain", A1) == seen


def test_random_parts_of_queries_do_not_cost_a_search(counting: Counting) -> None:
    assert counting.finds_of(("plain", A1)) == 1
    for name in ("PLAIN", "pLaIn"):
        assert counting.finds_of((name, A1)) == 0


def test_memory_is_bounded_and_forgetting_is_complete(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 50)
    for number in range(1, 201):
        counting.ask(f"none-{number}", f"10.2.0.{number}")
        counting.cluster.publish("zoned", at(f"10.0.0.{number}"))
        assert counting.ask("zoned", A1) == [f"10.0.0.{number}"]
    assert len(counting.resolver._shelf_of) <= 51
    assert sum(map(len, counting.resolver._shelves.values())) <= 51
    assert sum(map(len, counting.resolver._bodies.values())) <= 51
