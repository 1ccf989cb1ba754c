"""The Services that an event affects, and the pods that a Service selects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.client import Event, Key, Object
from reference.client.client import EventType
from reference.endpointslice.index import ClusterIndex
from tests.reference.endpointslice.objects import make_node, make_pod, make_service

WEB, DB = ("default", "web"), ("default", "db")
PLURALS = {"Service": "services", "Pod": "pods", "Node": "nodes"}


def send(index: ClusterIndex, event_type: EventType, obj: Object) -> Collection[Key]:
    return set(index.apply(Event(event_type, PLURALS[obj["kind"]], obj)))


def index_of(*objects: Object) -> ClusterIndex:
    index = ClusterIndex()
    for obj in objects:
        send(index, "ADDED", obj)
    return index


def pods_of(index: ClusterIndex, service: Key = WEB) -> set[str]:
    return {pod["metadata"]["name"] for pod in index.pods_of(service)}


def two_services() -> ClusterIndex:
    return index_of(make_service("web"), make_service("db", selector={"app": "db", "tier": "back"}), make_node("a1"))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"app": "web"}, {WEB}),
        ({"app": "web", "tier": "back"}, {WEB}),
        ({"app": "db", "tier": "back", "more": "x"}, {DB}),
        ({"app": "db"}, set()),
        ({"tier": "back"}, set()),
        ({"other": "x"}, set()),
    ],
)
def test_pod_affects_the_services_that_select_it(labels: dict[str, str], expected: set[Key]) -> None:
    index = two_services()
    pod = make_pod(labels=labels)
    assert send(index, "ADDED", pod) == expected
    assert send(index, "DELETED", pod) == expected
    assert pods_of(index, WEB) == pods_of(index, DB) == set()


def test_pod_of_another_namespace_affects_no_service() -> None:
    pod = make_pod()
    pod["metadata"]["namespace"] = "other"
    assert send(two_services(), "ADDED", pod) == set()


def test_relabelled_pod_affects_its_old_and_new_service() -> None:
    index = two_services()
    send(index, "ADDED", make_pod(labels={"app": "web"}))
    assert send(index, "MODIFIED", make_pod(labels={"app": "db", "tier": "back"})) == {WEB, DB}
    assert (pods_of(index, WEB), pods_of(index, DB)) == (set(), {"p1"})


def test_pod_update_without_effect_on_slices_affects_no_service_but_is_stored() -> None:
    index = two_services()
    send(index, "ADDED", make_pod())
    pod = make_pod()
    pod["status"]["startTime"] = "2026-01-01T00:00:00Z"
    assert send(index, "MODIFIED", pod) == set()
    assert list(index.pods_of(WEB)) == [pod]


def test_service_finds_existing_pods() -> None:
    index = index_of(make_pod("p1"), make_pod("p2", labels={"app": "db"}))
    assert send(index, "ADDED", make_service()) == {WEB}
    assert pods_of(index) == {"p1"}


def test_changed_selector_changes_the_pods() -> None:
    index = index_of(make_service(), make_pod("p1"), make_pod("p2", labels={"app": "db"}))
    assert send(index, "MODIFIED", make_service(selector={"app": "db"})) == {WEB}
    assert pods_of(index) == {"p2"}
    assert send(index, "MODIFIED", make_pod("p1", ready=False)) == set()


@pytest.mark.parametrize("spec", [{"selector": None}, {"selector": {}}, {"type": "ExternalName"}])
def test_service_without_selector_has_no_pods_and_gets_them_with_one(spec: Any) -> None:
    index = index_of(make_service(**spec), make_pod())
    assert pods_of(index) == set()
    send(index, "MODIFIED", make_service())
    assert pods_of(index) == {"p1"}


def test_deleted_service_is_forgotten() -> None:
    index = index_of(make_service(), make_pod())
    assert send(index, "DELETED", make_service()) == {WEB}
    assert pods_of(index) == set()
    assert send(index, "MODIFIED", make_pod(ready=False)) == set()


def node_index() -> ClusterIndex:
    db_pod = make_pod("p2", "b1", labels={"app": "db", "tier": "back"})
    index = two_services()
    for obj in (make_pod("p1", "a1"), db_pod, make_node("b1")):
        send(index, "ADDED", obj)
    return index


def test_node_affects_only_services_with_pods_on_it() -> None:
    index = node_index()
    assert send(index, "MODIFIED", make_node("a1", "z")) == {WEB}
    assert send(index, "DELETED", make_node("b1")) == {DB}
    assert send(index, "ADDED", make_node("b1")) == {DB}
    assert send(index, "ADDED", make_node("c1")) == set()


def test_node_update_without_a_new_zone_affects_no_service() -> None:
    node = make_node("a1")
    node["status"] = {"conditions": []}
    assert send(node_index(), "MODIFIED", node) == set()


SELECTORS = st.sampled_from([None, {"k": "1"}, {"k": "2"}, {"l": "1"}, {"k": "1", "l": "1"}])
LABELS = st.dictionaries(st.sampled_from("kl"), st.sampled_from("12"))
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("service"), st.sampled_from("abc"), st.one_of(st.just("gone"), SELECTORS)),
        st.tuples(st.just("pod"), st.sampled_from("abcd"), st.one_of(st.just("gone"), LABELS)),
    ),
    max_size=25,
)


@given(CHANGES)
def test_members_match_the_selectors_after_any_changes(changes: list[tuple[str, str, Any]]) -> None:
    index, state = ClusterIndex(), {}
    for kind, name, value in changes:
        old = state.pop((kind, name), None)
        labels = {"none": "x"} if value == {} else value
        new = value if value == "gone" else make_service(name, selector=value)
        if kind == "pod" and value != "gone":
            new = make_pod(name, labels=labels)
        if new != "gone":
            state[kind, name] = new
            send(index, "MODIFIED" if old else "ADDED", new)
        elif old:
            send(index, "DELETED", old)
    for (kind, name), obj in state.items():
        if kind == "service":
            assert pods_of(index, ("default", name)) == selected(obj, state)


def selected(service: Object, state: dict[tuple[str, str], Object]) -> set[str]:
    selector = service["spec"]["selector"]
    return {
        name
        for (kind, name), pod in state.items()
        if kind == "pod" and selector and selector.items() <= pod["metadata"]["labels"].items()
    }
