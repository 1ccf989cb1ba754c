from __future__ import annotations

from typing import Any

from reference.apiserver import ApiServer
from reference.client import Event
from tests.reference.api_server_calls import patched


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def told(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(each.type, each.resource, each.object.get("metadata", {}).get("name", "")) for each in events]


def test_current_state_comes_first_and_then_one_synced_event(api: ApiServer) -> None:
    api.create("nodes", "", node("b1"))
    api.create("nodes", "", node("a1"))
    events: list[Event] = []
    api.subscribe(["nodes", "services"], events.append)
    assert told(events) == [("ADDED", "nodes", "a1"), ("ADDED", "nodes", "b1"), ("SYNCED", "", "")]


def test_event_is_delivered_before_the_write_returns(api: ApiServer) -> None:
    events: list[Event] = []
    api.subscribe(["nodes"], events.append)
    api.create("nodes", "", node("a1"))
    patched(api, "nodes", "", "a1", {"metadata": {"labels": {"zone": "a"}}})
    api.delete("nodes", "", "a1")
    assert told(events)[1:] == [("ADDED", "nodes", "a1"), ("MODIFIED", "nodes", "a1"), ("DELETED", "nodes", "a1")]
    versions = [int(each.object["metadata"]["resourceVersion"]) for each in events[1:]]
    assert versions == sorted(set(versions))


def test_subscribers_share_one_object(api: ApiServer) -> None:
    first: list[Event] = []
    second: list[Event] = []
    api.subscribe(["nodes"], first.append)
    api.subscribe(["nodes"], second.append)
    api.create("nodes", "", node("a1"))
    assert first[-1].object is second[-1].object is api.get("nodes", "", "a1")


def test_event_is_immutable(api: ApiServer) -> None:
    events: list[Event] = []
    api.subscribe(["nodes"], events.append)
    api.create("nodes", "", node("a1", zone="a"))
    patched(api, "nodes", "", "a1", {"metadata": {"labels": {"zone": "b"}}})
    assert [each.object["metadata"]["labels"]["zone"] for each in events[1:]] == ["a", "b"]


def test_no_event_arrives_after_close(api: ApiServer) -> None:
    events: list[Event] = []
    subscription = api.subscribe(["nodes"], events.append)
    subscription.close()
    api.create("nodes", "", node("a1"))
    assert told(events) == [("SYNCED", "", "")]


def test_other_resources_cause_no_event(api: ApiServer) -> None:
    events: list[Event] = []
    api.subscribe(["services"], events.append)
    api.create("nodes", "", node("a1"))
    assert told(events) == [("SYNCED", "", "")]


def test_subscriber_can_select_one_object(api: ApiServer) -> None:
    for name in ("a1", "a2"):
        api.create("nodes", "", node(name))
    events: list[Event] = []
    api.subscribe(["nodes/a1", "services"], events.append)
    for name in ("a1", "a2"):
        patched(api, "nodes", "", name, {"metadata": {"labels": {"zone": "a"}}})
        api.delete("nodes", "", name)
    assert told(events) == [
        ("ADDED", "nodes", "a1"),
        ("SYNCED", "", ""),
        ("MODIFIED", "nodes", "a1"),
        ("DELETED", "nodes", "a1"),
    ]
