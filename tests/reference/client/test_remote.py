"""The HTTPS client notifies subscribers of changes on a server in another process."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from harness.eventually import eventually
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from reference.client import ApiError, Event
from reference.client.remote import RemoteClient

Events = queue.SimpleQueue[Event]


@pytest.fixture
def api() -> ApiServer:
    return ApiServer()


@pytest.fixture
def server(api: ApiServer) -> Iterator[HttpServer]:
    served = HttpServer(api)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def client(server: HttpServer) -> Iterator[RemoteClient]:
    connected = RemoteClient(server.kubeconfig())
    yield connected
    connected.close()


def _service(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


def _next(events: Events) -> tuple[str, str]:
    event = events.get(timeout=10)
    return event.type, (event.object.get("metadata") or {}).get("name", "")


def test_subscriber_receives_existing_objects_then_synced_then_changes(api: ApiServer, client: RemoteClient) -> None:
    api.create("services", "default", _service("old"))
    events: Events = queue.SimpleQueue()
    client.subscribe(["services", "endpointslices"], events.put)
    assert [_next(events), _next(events)] == [("ADDED", "old"), ("SYNCED", "")]

    api.create("services", "default", _service("new"))
    api.delete("services", "default", "old")
    assert [_next(events), _next(events)] == [("ADDED", "new"), ("DELETED", "old")]


def test_second_subscriber_receives_the_same_immediately(api: ApiServer, client: RemoteClient) -> None:
    api.create("services", "default", _service("web"))
    first: Events = queue.SimpleQueue()
    client.subscribe(["services"], first.put)
    assert [_next(first), _next(first)] == [("ADDED", "web"), ("SYNCED", "")]
    second: Events = queue.SimpleQueue()
    client.subscribe(["services"], second.put).close()
    assert [second.get_nowait().type, second.get_nowait().type] == ["ADDED", "SYNCED"]


def test_missed_events_are_delivered_when_the_server_returns(
    api: ApiServer, server: HttpServer, client: RemoteClient
) -> None:
    api.create("services", "default", _service("old"))
    events: Events = queue.SimpleQueue()
    client.subscribe(["services"], events.put)
    assert [_next(events), _next(events)] == [("ADDED", "old"), ("SYNCED", "")]

    server.replace(None)
    assert client.caught_up()  # no notification can arrive
    api.delete("services", "default", "old")
    server.replace(ApiServer(predecessor=api))
    eventually(client.caught_up, describe="the client to know what is there")
    assert _next(events) == ("DELETED", "old")


def test_caught_up_client_has_delivered_its_events(api: ApiServer, client: RemoteClient) -> None:
    events: Events = queue.SimpleQueue()
    client.subscribe(["services"], events.put)
    for number in range(20):
        api.create("services", "default", _service(f"web-{number}"))
    eventually(client.caught_up, describe="the client to know what is there")
    told = {events.get_nowait().object.get("metadata", {}).get("name") for _ in range(events.qsize())}
    assert {f"web-{number}" for number in range(20)} <= told


def test_client_reads_and_writes(client: RemoteClient) -> None:
    client.create("namespaces", "", {"metadata": {"name": "shop"}})
    made = client.create("services", "shop", _service("web"))
    changed = client.update("services", "shop", {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
    condition = {"type": "Seen", "status": "True", "reason": "Looked", "message": ""}
    status = {"conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    client.update_status("services", "shop", {**changed, "status": status})
    stored = client.get("services", "shop", "web")
    assert (stored["metadata"]["labels"], stored["status"]["conditions"][0]["type"]) == ({"a": "b"}, "Seen")
    client.delete("services", "shop", "web")
    with pytest.raises(ApiError) as refused:
        client.get("services", "shop", "web")
    assert refused.value.reason == "NotFound"


def test_watch_continues_after_a_refused_list(api: ApiServer, server: HttpServer) -> None:
    kubeconfig = server.kubeconfig(token="of nobody")
    client = RemoteClient(kubeconfig)
    events: Events = queue.SimpleQueue()
    client.subscribe(["services"], events.put)
    eventually(lambda: any(each.code == 401 for each in server.requests()) or None, describe="a refusal")
    (thread,) = client.threads
    client.headers["Authorization"] = f"Bearer {server.token}"
    assert _next(events) == ("SYNCED", "")
    assert thread.is_alive()
    client.close()


def test_subscribers_can_select_one_object_each(api: ApiServer, client: RemoteClient) -> None:
    for name in ("a1", "a2"):
        api.create("nodes", "", {"metadata": {"name": name}})
    first, second, every = (queue.SimpleQueue[Event]() for _ in range(3))
    client.subscribe(["nodes/a1"], first.put)
    client.subscribe(["nodes/a2"], second.put)
    client.subscribe(["nodes"], every.put)
    assert [_next(first), _next(first)] == [("ADDED", "a1"), ("SYNCED", "")]
    assert [_next(second), _next(second)] == [("ADDED", "a2"), ("SYNCED", "")]
    assert [_next(every) for _ in range(3)] == [("ADDED", "a1"), ("ADDED", "a2"), ("SYNCED", "")]

    api.delete("nodes", "", "a1")
    api.delete("nodes", "", "a2")
    eventually(client.caught_up, describe="the client to know what is there")
    assert (_next(first), _next(second)) == (("DELETED", "a1"), ("DELETED", "a2"))
    assert (first.qsize(), second.qsize()) == (0, 0)
    assert [_next(every), _next(every)] == [("DELETED", "a1"), ("DELETED", "a2")]
