"""Tests HTTP requests inside a netns. Every invalid response is a connection error."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from harness.netns import http
from harness.netns.addresses import Family
from harness.netns.fabric import Network
from harness.probes.loop import ProbeLoop, ServerPort
from reference.serving import HttpThread, Response

PORT = 10256


def _answer(path: str) -> Response:
    code = 200 if path == "/healthz" else 503
    return code, {"X-Weight": "2", "Content-Type": "application/json"}, f'{{"path": "{path}"}}'.encode()


@pytest.fixture
def server(network: Network) -> Iterator[Network]:
    """Start a server on node a1 that answers at all its addresses."""
    serving = HttpThread()
    serving.start()
    for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        listener = network.nodes["a1"].namespace.socket(family)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, PORT))
        listener.listen()
        serving.listen(listener, _answer)
    yield network
    serving.stop()


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_answer_has_code_headers_and_body(server: Network, family: Family) -> None:
    answer = http.get(server.nodes["b1"].namespace, server.nodes["a1"].addresses[family], PORT, "/healthz")

    assert (answer.code, answer.text) == (200, '{"path": "/healthz"}')
    assert answer.headers["x-weight"] == "2"


def test_error_status_is_a_response(server: Network) -> None:
    assert http.get(server.nodes["a1"].namespace, "127.0.0.1", PORT, "/livez").code == 503


def test_loopback_is_that_of_the_netns(server: Network) -> None:
    with pytest.raises(ConnectionRefusedError):
        http.get(server.nodes["b1"].namespace, "127.0.0.1", PORT, "/healthz")


def test_invalid_http_is_a_connection_error(network: Network) -> None:
    with ProbeLoop() as loop:
        loop.serve(network.nodes["a1"].namespace, "echo", [ServerPort("TCP", "IPv4", PORT)])
        with pytest.raises(ConnectionError, match="did not send an HTTP response"):
            http.get(network.nodes["a1"].namespace, "127.0.0.1", PORT, "/")


def test_missing_response_ends_at_the_time_limit(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "TIMEOUT", 0.1)
    namespace = network.nodes["a1"].namespace
    with namespace.socket(socket.AF_INET) as listener:
        listener.bind(("127.0.0.1", PORT))
        listener.listen()
        with pytest.raises(TimeoutError):
            http.get(namespace, "127.0.0.1", PORT, "/")


@pytest.mark.parametrize(
    ("head", "again", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 10_000, "longer than 100,000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", "timed out|longer"),
        (b"HTTP/1.1 200 OK\r\nX-Endless: ", b"x", "timed out|longer|HTTP"),
        (b"", bytes(range(256)), "did not send an HTTP response"),
    ],
)
def test_answer_without_an_end_is_an_error(
    network: Network, monkeypatch: pytest.MonkeyPatch, head: bytes, again: bytes, said: str
) -> None:
    """The server sends until its client closes the connection."""
    monkeypatch.setattr(http, "TIMEOUT", 2.0)
    monkeypatch.setattr(http, "MOST", 100_000)
    place = network.nodes["a1"].namespace

    def serve() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.sendall(head)
            while True:
                connection.sendall(again)

    with place.socket() as listener:
        listener.bind(("127.0.0.1", PORT))
        listener.listen()
        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(OSError, match=said):
            http.get(place, "127.0.0.1", PORT, "/healthz")
        server.join()
