"""The hinted zone of each endpoint with the topology annotation. Source: KEP-2433 and Kubernetes' releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.client import Object
from reference.endpointslice.cpu_hints import CpuOutcome
from reference.endpointslice.plan import SlicePlan
from reference.features import Features
from tests.reference.endpointslice.objects import (
    AUTO,
    RELEASED,
    apply,
    hinted,
    make_node,
    make_pod,
    make_service,
    plan,
    pods_on,
    release,
    slices_for,
)

KEP = Features()
THREE = {name: make_node(name) for name in ("a1", "b1", "c1")}


def auto(**spec: Any) -> Object:
    return make_service(annotations=AUTO, **spec)


def nodes(**cpus: str) -> dict[str, Object]:
    return {f"{zone}1": make_node(f"{zone}1", cpu=cpu) for zone, cpu in cpus.items()}


def hints_for(where: str, **options: Any) -> str:
    options.setdefault("nodes", THREE)
    return hinted(slices_for(auto(), pods_on(where), **options))


@pytest.mark.parametrize("features", [KEP, RELEASED])
@pytest.mark.parametrize(
    ("where", "cpus", "expected"),
    [
        ("ab", {"a": "4", "b": "4", "c": "4"}, "--"),
        ("abc", {"a": "4", "b": "4", "c": "4"}, "abc"),
        ("aab", {"a": "4", "b": "4", "c": "4"}, "cab"),
        ("abcc", {"a": "4", "b": "4", "c": "4"}, "----"),
        ("aabb", {"a": "4", "b": "4"}, "aabb"),
        ("aaaa", {"a": "4", "b": "4"}, "bbaa"),
        ("abca", {"a": "8", "b": "4", "c": "4"}, "abca"),
        ("aaa", {"a": "4"}, "---"),
    ],
)
def test_hints_equal_the_tables_of_the_kep(
    where: str, cpus: Mapping[str, str], expected: str, features: Features
) -> None:
    assert hints_for(where, nodes=nodes(**cpus)) == expected


def test_four_hundred_endpoints_are_allocated_by_cpu() -> None:
    found = hints_for("a" * 400, nodes=nodes(a="40", b="41", c="42", d="43"))
    assert Counter(found) == {"a": 97, "b": 99, "c": 101, "d": 103}


def test_nodes_of_unknown_size_are_treated_equally() -> None:
    unknown = nodes(a="64", b="", c="4")
    assert hints_for("abc", nodes=unknown) == "abc"
    assert hints_for("abc", nodes=unknown, features=RELEASED) == "---"


def test_only_ready_endpoints_count_and_are_hinted() -> None:
    pods = [*pods_on("abc"), make_pod("p9", "a1", ips=["10.244.9.9"], ready=False)]
    assert hinted(slices_for(auto(), pods, nodes=THREE)) == "abc-"


def test_releases_before_1_23_hint_endpoints_that_are_not_ready() -> None:
    old = {**auto()["metadata"], "annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}
    service = {**auto(), "metadata": old}
    features = release("1.22", TopologyAwareHints=True)
    assert hinted(slices_for(service, pods_on("abc", ready=False), nodes=THREE, features=features)) == "abc"
    assert hinted(slices_for(service, pods_on("abc", ready=False), nodes=THREE)) == "---"


def test_endpoint_without_zone_removes_all_hints() -> None:
    planned = plan(auto(), pods_on("abcabx"), nodes=THREE | {"x1": make_node("x1", "", ready=False)})
    assert hinted(apply(planned)) == "------"
    assert refusals(planned) == {"ZoneUnknown"}


def refusals(planned: SlicePlan) -> set[str]:
    outcomes = (family.outcome for family in planned.families.values())
    found = (outcome.refusal for outcome in outcomes if isinstance(outcome, CpuOutcome))
    return {refusal.why for refusal in found if refusal is not None}


def test_each_family_has_its_own_hints() -> None:
    service = auto(ipFamilies=["IPv4", "IPv6"])
    both = [make_pod(f"p{zone}", f"{zone}1", ips=[f"10.244.0.{n}", f"fd00::{n}"]) for n, zone in enumerate("abc", 1)]
    only_four = make_pod("pd", "a1", ips=["10.244.0.9"])
    found = {
        each["addressType"]: sum("hints" in one for one in each["endpoints"])
        for each in slices_for(service, [*both, only_four], nodes=THREE)
    }
    assert found == {"IPv4": 0, "IPv6": 3}


def test_missing_hints_have_a_reason() -> None:
    planned = plan(auto(), pods_on("ab"), nodes=THREE)
    assert planned.families["IPv4"].refusal == "Insufficient number of endpoints (2 endpoints, 3 zones)"
    assert refusals(planned) == {"TooFewEndpoints"}


def test_slices_that_are_right_are_not_written() -> None:
    existing = slices_for(auto(), pods_on("aaabbbccc"), nodes=THREE, max_endpoints=3)
    planned = plan(auto(), pods_on("aaabbbcccaaa"), existing, nodes=THREE, max_endpoints=3)
    assert (len(planned.create), planned.update, planned.delete) == (1, (), ())


def test_addition_beyond_the_threshold_reallocates_hints() -> None:
    existing = slices_for(auto(), pods_on("abc"), nodes=THREE)
    assert hinted(slices_for(auto(), pods_on("abcaaa"), existing, nodes=THREE)) == "bbccaa"


def test_removal_beyond_the_threshold_reallocates_hints() -> None:
    existing = slices_for(auto(), pods_on("aabbcc"), nodes=THREE)
    after = slices_for(auto(), [*pods_on("aabb"), pods_on("aabbcc")[4]], existing, nodes=THREE)
    assert hinted(after) == "-----"
    again = slices_for(auto(), pods_on("aabbaa"), existing, nodes=THREE)
    assert Counter(hinted(again)) == {"a": 2, "b": 2, "c": 2}


def test_node_change_within_the_threshold_writes_nothing() -> None:
    existing = slices_for(auto(), pods_on("abcabc"), nodes=THREE)
    assert plan(auto(), pods_on("abcabc"), existing, nodes=nodes(a="5", b="5", c="4")).is_empty


def test_node_change_beyond_the_threshold_reallocates_hints() -> None:
    existing = slices_for(auto(), pods_on("aaaabbbbcccc"), nodes=THREE)
    after = slices_for(auto(), pods_on("aaaabbbbcccc"), existing, nodes=nodes(a="4", b="4", c="16"))
    assert Counter(hinted(after)) == {"a": 2, "b": 2, "c": 8}


def test_hints_between_twenty_and_thirty_percent_are_kept_but_not_added() -> None:
    existing = slices_for(auto(), pods_on("aabb"), nodes=nodes(a="4", b="4"))
    grown = nodes(a="5", b="3")  # 2.5 and 1.5 endpoints: 25% over
    assert plan(auto(), pods_on("aabb"), existing, nodes=grown).is_empty
    assert hints_for("aabb", nodes=grown) == "----"
    released = plan(auto(), pods_on("aabb"), existing, nodes=grown, features=RELEASED)
    assert hinted(apply(released, existing)) == "----"


def test_endpoints_of_zones_without_nodes_are_allocated_to_other_zones() -> None:
    with_dead = THREE | {"d1": make_node("d1", ready=False)}
    assert Counter(hints_for("abcd" * 3, nodes=with_dead)) == {"a": 4, "b": 4, "c": 4}
    assert Counter(hints_for("abcd" * 3, nodes=with_dead, features=RELEASED))["d"] == 3


def test_hints_of_another_form_are_replaced() -> None:
    (existing,) = slices_for(auto(), pods_on("abc"), nodes=THREE)
    first, *others = existing["endpoints"]
    for wrong in ({}, None, {"forZones": [{"name": "a"}, {"name": "b"}]}, {"forZones": [{"name": "z"}]}):
        tampered = {**existing, "endpoints": [{**first, "hints": wrong}, *others]}
        assert hinted(slices_for(auto(), pods_on("abc"), [tampered], nodes=THREE)) == "abc"


def test_removing_the_annotation_removes_the_hints() -> None:
    existing = slices_for(auto(), pods_on("abc"), nodes=THREE)
    assert hinted(slices_for(make_service(), pods_on("abc"), existing, nodes=THREE)) == "---"


clusters = st.fixed_dictionaries({zone: st.integers(1, 20).map(str) for zone in "abc"}).map(lambda cpus: nodes(**cpus))


@settings(max_examples=200)
@given(st.text("abc", max_size=30), clusters, st.text("abc", max_size=30), clusters, st.integers(2, 10))
def test_no_zone_is_overloaded_and_a_second_sync_writes_nothing(
    before: str, old: dict[str, Object], after: str, new: dict[str, Object], size: int
) -> None:
    existing = slices_for(auto(), pods_on(before), nodes=old, max_endpoints=size)
    slices = slices_for(auto(), pods_on(after), existing, nodes=new, max_endpoints=size)
    found = Counter(hinted(slices))
    assert not found["-"] or len(found) == 1
    total = sum(int(node["status"]["allocatable"]["cpu"]) for node in new.values())
    for node in new.values():
        if after and not found["-"]:
            cpu = int(node["status"]["allocatable"]["cpu"])
            assert 10 * cpu * len(after) < 13 * total * found[node["metadata"]["name"][0]]
    assert plan(auto(), pods_on(after), slices, nodes=new, max_endpoints=size).is_empty


@settings(max_examples=200)
@given(st.text("abc", max_size=30), clusters, st.integers(2, 10))
def test_second_sync_of_a_release_writes_nothing_once_hints_exist(
    where: str, cluster: dict[str, Object], size: int
) -> None:
    existing = slices_for(auto(), pods_on(where), nodes=cluster, max_endpoints=size, features=RELEASED)
    options: Any = {"nodes": cluster, "max_endpoints": size, "features": RELEASED}
    settled = slices_for(auto(), pods_on(where), existing, **options)
    assert plan(auto(), pods_on(where), settled, **options).is_empty
