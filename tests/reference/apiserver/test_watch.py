from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from reference.apiserver import ApiServer, watch
from reference.apiserver.media import ResponseForm
from reference.apiserver.render import Renderer
from reference.apiserver.routes import Routes
from reference.apiserver.selectors import Selection
from reference.apiserver.server import HttpServer
from reference.client import ApiError
from tests.reference.api_server_calls import patched
from tests.reference.apiserver.fake_transports import RecordingTransport

CONFIGS = "/api/v1/namespaces/default/configmaps"
Stream = Iterator[dict[str, Any]]


@pytest.fixture
def watching(http: Any) -> Callable[..., Any]:
    """Return a context manager that yields the events of a watch as they arrive."""

    @contextmanager
    def watching(query: str = "", path: str = CONFIGS, **headers: str) -> Iterator[Stream]:
        with http.open("GET", f"{path}?watch=true&{query}", **headers) as response:
            assert response.status == 200, response.read()
            yield (json.loads(line) for line in response)

    return watching


def create(api: ApiServer, name: str, **labels: str) -> dict[str, Any]:
    return api.create("configmaps", "default", {"metadata": {"name": name, "labels": labels}})


def label(api: ApiServer, name: str, **labels: str | None) -> None:
    patched(api, "configmaps", "default", name, {"metadata": {"labels": labels}})


def told(stream: Stream, count: int) -> list[tuple[str, str]]:
    events = [next(stream) for _ in range(count)]
    return [(each["type"], each["object"]["metadata"].get("name", "")) for each in events]


@pytest.mark.parametrize("query", ["", "resourceVersion=0"])
def test_watch_begins_with_the_present_state(api: ApiServer, watching: Any, query: str) -> None:
    create(api, "a")
    with watching(query) as stream:
        assert told(stream, 1) == [("ADDED", "a")]
        create(api, "b")
        label(api, "a", x="y")
        api.delete("configmaps", "default", "b")
        assert told(stream, 3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_watch_resumes_after_a_version(api: ApiServer, watching: Any) -> None:
    create(api, "a")
    revision = create(api, "b")["metadata"]["resourceVersion"]
    create(api, "c")
    with watching(f"resourceVersion={revision}") as stream:
        assert told(stream, 1) == [("ADDED", "c")]
        create(api, "d")
        assert told(stream, 1) == [("ADDED", "d")]


def test_forgotten_version_is_gone(http: Any) -> None:
    api = ApiServer(window=2)
    server = HttpServer(api)
    server.start()
    try:
        for name in "abcdef":
            create(api, name)
        with type(http)(server).open("GET", f"{CONFIGS}?watch=true&resourceVersion=3") as response:
            (event,) = [json.loads(line) for line in response]
    finally:
        server.stop()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_version_of_another_server_is_gone(watching: Any) -> None:
    with watching("resourceVersion=99999") as stream:
        assert next(stream)["object"]["code"] == 410


def test_initial_events_end_with_a_bookmark(api: ApiServer, watching: Any) -> None:
    revision = create(api, "a")["metadata"]["resourceVersion"]
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with watching(query) as stream:
        assert told(stream, 1) == [("ADDED", "a")]
        bookmark = next(stream)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert bookmark["object"]["metadata"]["resourceVersion"] == revision
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("query", ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan"])
def test_initial_events_need_their_match(http: Any, query: str) -> None:
    code, status = http("GET", f"{CONFIGS}?watch=true&{query}")
    assert (code, status["reason"]) == (422, "Invalid")


def test_bookmarks_follow_other_resources(api: ApiServer, watching: Any) -> None:
    with watching("allowWatchBookmarks=true&resourceVersion=0") as stream:
        revision = int(api.create("nodes", "", {"metadata": {"name": "a1"}})["metadata"]["resourceVersion"])
        seen = (int(each["object"]["metadata"]["resourceVersion"]) for each in stream)
        assert next(each for each in seen if each >= revision) == revision


def test_watch_ends_after_its_time(watching: Any) -> None:
    with watching("timeoutSeconds=1") as stream:
        assert list(stream) == []


def test_timed_watch_ends_with_a_bookmark(watching: Any) -> None:
    with watching("timeoutSeconds=1&allowWatchBookmarks=true") as stream:
        assert {each["type"] for each in stream} == {"BOOKMARK"}


def test_object_that_enters_or_leaves_a_label_selection_is_added_or_deleted(api: ApiServer, watching: Any) -> None:
    create(api, "a")
    create(api, "b", app="web")
    with watching("labelSelector=app%3Dweb") as stream:
        assert told(stream, 1) == [("ADDED", "b")]
        label(api, "a", app="web")
        label(api, "a", other="x")
        label(api, "a", app=None)
        label(api, "a", other=None)
        api.delete("configmaps", "default", "b")
        assert told(stream, 4) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("DELETED", "b")]


def test_deleted_event_shows_the_last_matching_state(api: ApiServer, watching: Any) -> None:
    create(api, "a", app="web")
    with watching("labelSelector=app") as stream:
        next(stream)
        label(api, "a", app=None)
        left = next(stream)["object"]["metadata"]
    assert left["labels"] == {"app": "web"}
    assert left["resourceVersion"] == api.get("configmaps", "default", "a")["metadata"]["resourceVersion"]


def test_headless_services_are_excluded_by_the_selector_of_kube_proxy(api: ApiServer, watching: Any) -> None:
    path = "/api/v1/services"
    query = "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name&fieldSelector=spec.clusterIP%21%3DNone"
    with watching(query, path) as stream:
        for name, address in (("headless", "None"), ("web", "")):
            spec = {"ports": [{"port": 80}], "clusterIP": address}
            api.create("services", "default", {"metadata": {"name": name}, "spec": spec})
        assert told(stream, 1) == [("ADDED", "web")]


def test_other_namespaces_are_not_watched(api: ApiServer, watching: Any) -> None:
    with watching() as stream:
        api.create("configmaps", "kube-system", {"metadata": {"name": "a"}})
        create(api, "b")
        assert told(stream, 1) == [("ADDED", "b")]


def test_tables_can_be_watched(api: ApiServer, watching: Any) -> None:
    create(api, "a")
    with watching(Accept="application/json;as=Table;v=v1;g=meta.k8s.io") as stream:
        table = next(stream)["object"]
    assert (table["kind"], table["rows"][0]["cells"][0]) == ("Table", "a")


def test_burst_arrives_completely_and_in_order(api: ApiServer, watching: Any) -> None:
    with watching() as stream:
        for index in range(500):
            create(api, f"c{index}")
        assert told(stream, 500) == [("ADDED", f"c{index}") for index in range(500)]


def test_all_watches_can_be_ended(server: HttpServer, watching: Any) -> None:
    with watching("allowWatchBookmarks=true") as stream:
        next(stream)
        server.end_watches()
        assert all(each["type"] == "BOOKMARK" for each in stream)


def test_watch_in_an_unknown_format_is_refused_and_others_continue(api: ApiServer, watching: Any, http: Any) -> None:
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    current = create(api, "a")["metadata"]["resourceVersion"]
    with watching(f"resourceVersion={current}") as stream:
        path = f"{CONFIGS}?watch=true&resourceVersion={current}&includeObject=All"
        with http.open("GET", path, **table) as refused:
            assert (refused.status, json.loads(refused.read())["reason"]) == (400, "BadRequest")
        create(api, "b")
        assert told(stream, 1) == [("ADDED", "b")]


def test_watch_opened_during_the_stop_ends_with_the_server(api: ApiServer) -> None:
    loop = asyncio.new_event_loop()
    hub = watch.WatchHub(api.registry.store, loop)
    hub.close()
    renderer = Renderer(Routes(api.registry).find(CONFIGS), ResponseForm())
    with pytest.raises(ApiError) as refused:
        hub.open(Selection(), renderer, watch.WatchQuery(), RecordingTransport())
    loop.close()
    assert refused.value.code == 503
    create(api, "a")  # the event loop is closed and cannot handle the connection
