"""Tests that a client, slow or hostile, takes a bounded part of the server's memory, time and log."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any

import pytest

from harness.api.client import Api
from harness.errors import DistrustError
from harness.eventually import eventually
from reference.apiserver import ApiServer, bounded_log, dispatcher, store, watch
from reference.apiserver.dispatcher import LONG_BODY_BYTES, Dispatcher
from reference.apiserver.handlers import Response
from reference.apiserver.http_request import HttpRequest
from reference.apiserver.server import HttpServer
from tests.reference.api_server_calls import patched
from tests.reference.apiserver.conftest import HttpsClient

CONFIGS = "/api/v1/namespaces/default/configmaps"
OBJECTS = 400
SLACK = 256 * 1024
"""Lines that are written together, and the buffer of TLS."""


@pytest.fixture
def served() -> Iterator[Callable[..., HttpServer]]:
    """Return a function that starts a server."""
    with contextlib.ExitStack() as stack:

        def start(api: ApiServer, **options: Any) -> HttpServer:
            server = HttpServer(api, **options)
            server.start()
            stack.callback(server.stop)
            return server

        yield start


@contextlib.contextmanager
def connected(server: HttpServer) -> Iterator[ssl.SSLSocket]:
    host, port = server.url.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cadata=server.ca_pem)
    with (
        socket.create_connection((host, int(port)), timeout=60) as raw,
        tls.wrap_socket(raw, server_hostname=host, suppress_ragged_eofs=True) as made,
    ):
        yield made


def received(connection: ssl.SSLSocket) -> bytes:
    """Return all bytes that the server sends until it closes the connection."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            said += data
    return said


def write_much(api: ApiServer) -> list[str]:
    """Create 16 MB of objects, which is more than the buffers of sockets hold, and return their names."""
    names = [f"c{index:03}" for index in range(OBJECTS)]
    for name in names:
        api.create("configmaps", "default", {"metadata": {"name": name}, "data": {"x": "y" * 40_000}})
    return names


def watchers(server: HttpServer) -> list[watch.Watcher]:
    assert server._frontend is not None
    return [each for some in list(server._frontend.hub._watchers.values()) for each in tuple(some)]


def opened(server: HttpServer, stack: contextlib.ExitStack) -> Any:
    return stack.enter_context(HttpsClient(server).open("GET", f"{CONFIGS}?watch=true"))


def test_slow_client_misses_nothing(api: ApiServer, server: HttpServer) -> None:
    with contextlib.ExitStack() as stack:
        slow, attentive = opened(server, stack), opened(server, stack)
        names = write_much(api)
        for stream in (attentive, slow):
            assert [json.loads(stream.readline())["object"]["metadata"]["name"] for _ in names] == names


def test_client_that_is_too_slow_for_the_memory_of_the_store_gets_410(served: Any) -> None:
    api = ApiServer(window=16)
    with contextlib.ExitStack() as stack:
        slow = opened(served(api), stack)
        names = write_much(api)
        events = [json.loads(line) for line in slow]
        assert events[-1]["type"] == "ERROR"
        assert events[-1]["object"]["code"] == 410
        assert [each["object"]["metadata"]["name"] for each in events[:-1]] == names[: len(events) - 1]


def test_clients_that_do_not_read_have_small_buffers(api: ApiServer, server: HttpServer) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            opened(server, stack)
        write_much(api)
        eventually(lambda: all(each.behind for each in watchers(server)), describe="full buffers")
        sizes = [each.waiting for each in watchers(server)]
        assert len(sizes) == 10
        assert max(sizes) <= watch.MAX_WAITING_BYTES + SLACK


@pytest.mark.timeout(400)
@pytest.mark.parametrize("initial", [False, True])
def test_unread_bytes_of_all_clients_are_bounded(
    api: ApiServer, server: HttpServer, monkeypatch: pytest.MonkeyPatch, initial: bool
) -> None:
    """Those with the most to read are disconnected, and the others miss nothing."""
    monkeypatch.setattr(watch, "MAX_WAITING_BYTES_OF_ALL", most := 400 * 1024)
    names = write_much(api) if initial else []
    with contextlib.ExitStack() as stack:
        streams = [opened(server, stack) for _ in range(6)]  # at least 80 KB wait for each, and at most 360
        names = names or write_much(api)
        complete = 0
        for stream in streams:
            with contextlib.suppress(OSError, HTTPException, ValueError):  # cut off, maybe inside a line
                complete += [json.loads(stream.readline())["object"]["metadata"]["name"] for _ in names] == names
        assert 1 <= complete <= 5
        eventually(lambda: len(watchers(server)) == complete, describe="the end of the other watches")
        assert server._frontend is not None
        hub = server._frontend.hub
        assert hub._waiting == sum(each.counted for each in watchers(server)) <= most
    eventually(lambda: not watchers(server), describe="the end of all watches")
    assert hub._waiting == 0


def test_initial_state_is_that_of_its_revision_however_slow_the_client(api: ApiServer, server: HttpServer) -> None:
    names = write_much(api)
    with contextlib.ExitStack() as stack:
        slow = opened(server, stack)
        api.create("configmaps", "default", {"metadata": {"name": "a-new"}})
        api.delete("configmaps", "default", names[-1])
        patched(api, "configmaps", "default", names[-2], {"data": {"x": "changed"}})
        events = [json.loads(slow.readline()) for _ in range(OBJECTS + 3)]
        seen = [(each["type"], each["object"]["metadata"]["name"]) for each in events]
        assert seen[:OBJECTS] == [("ADDED", name) for name in names]
        assert len(events[OBJECTS - 2]["object"]["data"]["x"]) == 40_000
        assert seen[OBJECTS:] == [("ADDED", "a-new"), ("DELETED", names[-1]), ("MODIFIED", names[-2])]


def test_initial_state_of_which_the_store_remembers_nothing_ends_with_410(served: Any) -> None:
    api = ApiServer(window=16)
    names = write_much(api)
    with contextlib.ExitStack() as stack:
        slow = opened(served(api), stack)
        for name in names[:40]:
            api.delete("configmaps", "default", name)
        events = [json.loads(line) for line in slow]
        assert events[-1]["object"]["code"] == 410
        assert [each["object"]["metadata"]["name"] for each in events[:-1]] == names[: len(events) - 1]


def test_client_that_reads_nothing_of_its_watch_is_disconnected(served: Any) -> None:
    api = ApiServer()
    server = served(api, silence_seconds=0.5)
    with contextlib.ExitStack() as stack:
        deaf = opened(server, stack)
        write_much(api)
        eventually(lambda: not watchers(server), describe="the end of the watch")
        read = 0
        with contextlib.suppress(OSError, HTTPException):  # cut off inside a line or a TLS record
            for _ in deaf:
                read += 1
        assert read < OBJECTS


def test_full_store_answers_507_and_names_who_filled_it(
    api: ApiServer, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", api.registry.store.bytes + 200_000)
    monkeypatch.setattr(dispatcher, "MOST_AGENTS", 2)
    http = HttpsClient(server)

    def answer(size: int, agent: str) -> tuple[int, str]:
        body = {"metadata": {"generateName": "c"}, "data": {"x": "y" * size}}
        said = http.open("POST", CONFIGS, body, User_Agent=agent)
        return said.status, said.read().decode()

    assert [answer(10, f"small-{number}")[0] for number in range(4)] == [201] * 4
    assert [answer(150_000, "small-1")[0] for _ in range(2)] == [201, 201]
    code, said = answer(10, "small-2")
    assert (code, "most was written by the user agent 'small-1'" in said) == (507, True), said
    assert http.open("GET", CONFIGS).status == 507
    assert http.open("GET", "/readyz").status == 200
    with pytest.raises(DistrustError, match="'small-1'"):
        Api(server.kubeconfig()).list("configmaps", "default")


def test_store_that_is_emptied_is_not_full(api: ApiServer) -> None:
    before = api.registry.store.bytes
    for name in write_much(api):
        assert api.registry.store.bytes > before
        api.delete("configmaps", "default", name)
    assert api.registry.store.bytes == before


def test_bytes_of_changes_are_bounded(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_BYTES_OF_CHANGES", 1_000_000)
    begin = api.registry.store.revision
    write_much(api)
    table = api.registry.store._tables["configmaps"]
    assert table.bytes_of_changes == sum(len(each.new.json) for each in table.changes) < 1_000_000
    with pytest.raises(store.TooOldError):
        api.registry.store.changes_since("configmaps", begin)
    assert len(api.registry.store.changes_since("configmaps", table.changes[0].revision)) == len(table.changes) - 1


def test_number_of_watches_is_bounded(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_WATCHES", 2)
    with contextlib.ExitStack() as stack:
        assert [opened(server, stack).status for _ in range(3)] == [200, 200, 429]
    eventually(lambda: not watchers(server), describe="the end of the watch")
    with contextlib.ExitStack() as stack:
        assert opened(server, stack).status == 200


def test_server_listens_on_loopback_with_tls_and_a_token_of_its_own(server: HttpServer, served: Any) -> None:
    other = served(ApiServer())
    assert server.url.startswith("https://127.0.0.1:")
    assert HttpsClient(server).open("GET", CONFIGS).status == 200
    for head in ("", f"Authorization: Bearer {other.token}\r\n"):
        with connected(server) as connection:
            connection.sendall(f"GET {CONFIGS} HTTP/1.1\r\nHost: a\r\n{head}\r\n".encode())
            assert connection.recv(65536)[8:12] == b" 401"
    host, port = server.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        plain.sendall(f"GET {CONFIGS} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in plain.recv(65536)


UNFINISHED = {
    "chunked": b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n',
    "plain": b"Content-Length: 100\r\n\r\n{",
    "large": b"Content-Length: 1000000\r\n\r\n{",
    "head": b"X-A: ",
}


@pytest.mark.parametrize("rest", UNFINISHED.values(), ids=list(UNFINISHED))
def test_request_that_never_ends_is_closed(served: Any, rest: bytes) -> None:
    server = served(ApiServer(), silence_seconds=0.5)
    with connected(server) as connection:
        head = f"POST {CONFIGS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
        connection.sendall(head.encode() + rest)
        assert received(connection) == b""


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x", "gzip, gzip"])
@pytest.mark.parametrize("body", [gzip.compress(b"{}"), b"{}", b"\x1f\x8b"], ids=["gzip", "JSON", "cut"])
def test_encoded_body_is_a_bad_request(http: Any, encoding: str, body: bytes) -> None:
    code, answer = http("POST", CONFIGS, body, Content_Encoding=encoding)
    assert (code, answer["reason"]) == (400, "BadRequest")


def test_broken_chunk_is_a_bad_request(server: HttpServer) -> None:
    with connected(server) as connection:
        head = f"POST {CONFIGS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n")
        assert connection.recv(65536)[8:12] == b" 400"


MALFORMED = (
    b"\x00\x01\x02\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /\x1b[2J HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
)


def test_errors_before_authentication_do_not_fill_the_log(
    server: HttpServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_log, "_SECONDS", 3600.0)
    for _ in range(15):
        for sent in MALFORMED:
            with connected(server) as connection:
                connection.sendall(sent)
                assert connection.recv(65536)[8:10] == b" 4"
    assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) <= bounded_log.MOST + 1


def test_warnings_of_asyncio_do_not_fill_the_log(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        logging.getLogger("asyncio").warning("socket.send() raised exception.")
    assert len(caplog.records) <= bounded_log.MOST + 1


def test_long_requests_are_answered_beside_the_others(
    api: ApiServer, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[tuple[str, str]] = []
    answer = Dispatcher.answer

    def recorded(dispatcher: Dispatcher, asked: HttpRequest) -> Response | None:
        answered.append((asked.method, threading.current_thread().name.partition("_")[0]))
        return answer(dispatcher, asked)

    monkeypatch.setattr(Dispatcher, "answer", recorded)
    http = HttpsClient(server)
    text = "x" * LONG_BODY_BYTES
    assert http("POST", CONFIGS, {"metadata": {"name": "long"}, "data": {"a": text}})[0] == 201
    yaml = b"metadata: {name: yaml}\ndata:\n" + b"".join(b" k%d: v\n" % index for index in range(2000))
    assert http("POST", CONFIGS, yaml, Content_Type="application/yaml")[0] == 201
    merge = "application/merge-patch+json"
    assert http("PATCH", f"{CONFIGS}/long", {"data": {"b": "c"}}, Content_Type=merge)[0] == 200
    assert answered == [("POST", "apiserver-long"), ("POST", "apiserver-long"), ("PATCH", "apiserver-long")]
    assert http("POST", CONFIGS, {"metadata": {"name": "short"}})[0] == 201
    assert answered[-1] == ("POST", "apiserver")
