"""Changes lead a model kernel from its content to the wanted content, without packets that hit an empty slot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reference.proxy.changes import (
    Changes,
    Element,
    EndpointElement,
    HairpinElement,
    IdentityElement,
    MarkElement,
    RangesElement,
)
from reference.proxy.ruleset import NOTHING, PortEntries, ServiceAddress, StaleUdp, StickyEndpoints
from reference.proxy.table import Table, elements

ONE, TWO = ServiceAddress("10.96.0.1", "UDP", 53), ServiceAddress("10.96.0.2", "UDP", 53)
A, B, C = ("10.244.1.1", 53), ("10.244.1.2", 53), ("10.244.1.3", 53)


def forwards(service: ServiceAddress, *endpoints: tuple[str, int]) -> PortEntries:
    return PortEntries({service: endpoints}, {}, frozenset())


def taken(table: Table) -> Changes:
    (changes,) = table.take_changes()
    return changes


class FakeKernel:
    """Applies changes as the kernel does. A replaced element must exist, and a new element must not."""

    def __init__(self) -> None:
        self.content: dict[Any, Any] = {}

    def apply(self, delete: list[Element], add: list[Element]) -> None:
        for element in delete:
            del self.content[_key(element)]
        for element in add:
            assert _key(element) not in self.content
            self.content[_key(element)] = element[-1]

    def holes(self) -> set[ServiceAddress]:
        """Return the addresses of Services whose endpoint count is greater than the number of filled slots."""
        marks = [(key[1], value) for key, value in self.content.items() if key[0] in {"services", "external"}]
        return {
            service
            for service, mark in marks
            for slot in range(mark & 0x4000, mark & 0x7FFF)
            if not self.leads_on(service, slot, sticky=mark >> 15 > 0)
        }

    def leads_on(self, service: ServiceAddress, slot: int, *, sticky: bool) -> bool:
        """Return whether a packet with this slot reaches an endpoint."""
        return (service, self.content.get(("identity", service, slot)) if sticky else slot) in self.content


def _key(element: Element) -> Any:
    match element:
        case IdentityElement(service, slot, _):
            return "identity", service, slot
        case MarkElement(name, service, _):
            return name, service
        case EndpointElement(service, slot, _):
            return service, slot
        case HairpinElement(address):
            return "hairpin", address


def test_a_new_endpoint_needs_one_element_and_the_count() -> None:
    table = Table("IPv4")
    table.put("web", forwards(ONE, A))
    table.take_changes()

    table.put("web", forwards(ONE, A, B))
    changes = taken(table)

    assert changes.first_add == [EndpointElement(ONE, 1, B), MarkElement("services", ONE, 2)]
    assert changes.first_delete == [MarkElement("services", ONE, 1)]
    assert changes.later_delete == []


def test_an_endpoint_that_leaves_is_deleted_after_the_count() -> None:
    table = Table("IPv4")
    table.put("web", forwards(ONE, A, B, C))
    table.take_changes()

    table.put("web", forwards(ONE, B, C))
    changes = taken(table)

    assert changes.first_add == [EndpointElement(ONE, 0, C), MarkElement("services", ONE, 2)]
    assert changes.later_delete == [EndpointElement(ONE, 2, C)]
    assert changes.stale == [StaleUdp(ONE, A)]


def test_change_undone_before_it_is_applied_has_no_effect() -> None:
    table = Table("IPv4")
    table.put("web", forwards(ONE, A))
    table.take_changes()

    table.put("web", forwards(ONE, A, B))
    table.put("web", forwards(ONE, A))

    assert not any(table.take_changes())


def test_with_affinity_an_endpoint_keeps_its_identity_wherever_it_stands() -> None:
    table = Table("IPv4")
    table.put("web", PortEntries({ONE: StickyEndpoints((A, B, C), 60)}, {}, frozenset()))
    identity = {each.slot: each.identity for each in taken(table).first_add if isinstance(each, IdentityElement)}

    table.put("web", PortEntries({ONE: StickyEndpoints((B, C), 60)}, {}, frozenset()))
    changes = taken(table)

    assert IdentityElement(ONE, 0, identity[2]) in changes.first_add
    assert EndpointElement(ONE, identity[0], A) in changes.later_delete
    assert not any(isinstance(each, EndpointElement) for each in changes.first_add)


def test_frontend_belongs_to_its_first_service_until_that_is_removed() -> None:
    table = Table("IPv4")
    table.put("first", forwards(ONE, A))
    table.put("second", forwards(ONE, B))
    assert table.endpoints(ONE) == {A}
    assert table.conflicts("second") == [ONE]

    table.put("first", NOTHING)

    assert table.endpoints(ONE) == {B}
    assert table.conflicts("second") == []


def test_hairpin_element_remains_while_any_service_needs_it() -> None:
    table = Table("IPv4")
    table.put("first", PortEntries({}, {}, frozenset({"10.244.1.1"})))
    table.put("second", PortEntries({}, {}, frozenset({"10.244.1.1"})))
    assert taken(table).first_add == [HairpinElement("10.244.1.1")]

    table.put("first", NOTHING)
    assert not any(table.take_changes())
    table.put("second", NOTHING)
    assert taken(table).later_delete == [HairpinElement("10.244.1.1")]


def test_new_udp_frontend_may_have_untranslated_connections() -> None:
    table = Table("IPv4")

    table.put("web", forwards(ONE, A))

    assert taken(table).stale == [StaleUdp(ONE, ("10.96.0.1", 53))]


def test_the_connections_of_a_udp_frontend_without_endpoints_are_all_wrong() -> None:
    table = Table("IPv4")
    table.put("web", forwards(ONE, A, B))
    table.take_changes()

    table.put("web", PortEntries({ONE: "reject"}, {}, frozenset()))

    assert taken(table).stale == [StaleUdp(ONE, A), StaleUdp(ONE, B)]


def test_changes_come_in_parts_of_bounded_size() -> None:
    table = Table("IPv4")
    for number in range(10):
        table.put(number, forwards(ServiceAddress("10.96.0.1", "TCP", number), A, B))

    parts = table.take_changes(6)

    assert [len(each.first_add) for each in parts] == [6, 6, 6, 6, 6]


def test_source_ranges_are_replaced_and_go_with_their_service() -> None:
    table = Table("IPv4")
    first, second = ("10.0.0.0/8",), ("192.0.2.0/24",)
    table.put("web", replace(forwards(ONE, A), ranges={ONE: first}))
    assert RangesElement(ONE, first) in taken(table).first_add

    table.put("web", replace(forwards(ONE, A), ranges={ONE: second}))
    changes = taken(table)
    assert (changes.first_delete, changes.first_add) == ([RangesElement(ONE, first)], [RangesElement(ONE, second)])

    table.put("web", replace(forwards(ONE, A), ranges={ONE: first}))
    table.put("web", replace(forwards(ONE, A), ranges={ONE: second}))
    assert not any(table.take_changes())

    table.put("web", NOTHING)
    assert RangesElement(ONE, second) in taken(table).first_delete
    assert list(elements(table.ruleset((), ()))) == []


lists = st.lists(st.sampled_from((A, B, C)), min_size=1, unique=True).map(tuple)
actions = st.one_of(
    st.sampled_from(("drop", "reject")), lists, st.builds(StickyEndpoints, lists, st.sampled_from((60, 10_800)))
)
wanted = st.builds(
    PortEntries,
    st.dictionaries(st.sampled_from((ONE, TWO)), actions),
    st.just({}),
    st.frozensets(st.sampled_from(("10.244.1.1", "10.244.1.2"))),
).flatmap(
    lambda made: (
        st.dictionaries(st.sampled_from(list(made.services)), actions).map(
            lambda external: PortEntries(made.services, external, made.hairpin)
        )
        if made.services
        else st.just(made)
    )
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(("first", "second")), wanted, st.booleans()), max_size=12))
def test_changes_reach_the_wanted_rules_without_gaps(steps: list[tuple[str, PortEntries, bool]]) -> None:
    table, kernel = Table("IPv4"), FakeKernel()
    for owner, entries, take in [*steps, ("first", NOTHING, True)]:
        table.put(owner, entries)
        for changes in table.take_changes() if take else ():
            before = dict(kernel.content)
            kernel.apply(changes.first_delete, changes.first_add)
            drawn_before = {key for key in before if isinstance(key[0], ServiceAddress)}
            assert drawn_before <= kernel.content.keys()
            assert not kernel.holes()
            kernel.apply(changes.later_delete, [])
            assert not kernel.holes()

    whole = {_key(each): each[-1] for each in elements(table.ruleset((), ()))}
    assert kernel.content == whole


def test_what_changes_for_one_frontend_is_in_one_part() -> None:
    table = Table("IPv4")
    table.put("one", PortEntries({ONE: (A, B)}, {}, frozenset()))
    table.put("two", PortEntries({TWO: (C,)}, {TWO: "drop"}, frozenset()))
    table.put("one", PortEntries({ONE: (A, B)}, {ONE: (A,)}, frozenset()))

    parts = table.take_changes(most=1)

    marks = [{each[:2] for each in part.first_add if isinstance(each, MarkElement)} for part in parts]
    assert marks == [{("services", ONE), ("external", ONE)}, {("services", TWO), ("external", TWO)}]
