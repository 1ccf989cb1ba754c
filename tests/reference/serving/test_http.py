"""A single-threaded HTTP server. Listening sockets can be added and removed while it runs."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.eventually import eventually
from reference.serving import Handler, HttpThread, Response, not_found, plain


@pytest.fixture
def serving() -> Iterator[HttpThread]:
    made = HttpThread()
    made.start()
    yield made
    made.stop()


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def serve(serving: HttpThread, handler: Handler) -> int:
    made = listener()
    serving.listen(made, handler)
    return int(made.getsockname()[1])


def get(port: int, path: str = "/", method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path)
    response = connection.getresponse()
    answer = response.status, dict(response.headers), response.read()
    connection.close()
    return answer


def exchange(port: int, *parts: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        for part in parts:
            client.sendall(part)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def echo(path: str) -> Response:
    return plain(200, path)


def test_a_handler_gets_the_path_and_gives_code_headers_and_body(serving: HttpThread) -> None:
    port = serve(serving, lambda path: (503, {"X-Weight": "0"}, path.encode()))

    code, headers, body = get(port, "/healthz?verbose=1")

    assert (code, headers["X-Weight"], headers["Content-Length"], body) == (503, "0", "8", b"/healthz")


def test_each_socket_has_its_own_handler(serving: HttpThread) -> None:
    ports = [serve(serving, lambda path, name=name: plain(200, name)) for name in ("one", "two", "three")]  # type: ignore[misc]

    assert [get(port)[2] for port in ports] == [b"one", b"two", b"three"]


def test_removed_socket_is_closed_and_others_remain(serving: HttpThread) -> None:
    gone, port = listener(), serve(serving, echo)
    serving.listen(gone, echo)
    address = gone.getsockname()

    serving.remove(gone)
    serving.remove(gone)

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)
    socket.create_server(address).close()
    assert get(port, "/here")[2] == b"/here"


def test_response_larger_than_the_socket_buffer_arrives_completely(serving: HttpThread) -> None:
    port = serve(serving, lambda path: plain(200, "x" * (8 << 20)))

    assert len(get(port)[2]) == 8 << 20


def test_a_request_may_come_in_pieces(serving: HttpThread) -> None:
    port = serve(serving, echo)

    answer = exchange(port, b"GET /pie", b"ces HTTP/1.1\r\nHost: x\r", b"\n\r\n")

    assert answer.endswith(b"\r\n\r\n/pieces")


def test_a_slow_client_does_not_keep_others_waiting(serving: HttpThread) -> None:
    port = serve(serving, echo)

    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET /slow")
        assert get(port, "/fast")[2] == b"/fast"


def test_silent_client_is_disconnected(serving: HttpThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference.serving.http.TIMEOUT_SECONDS", 0.05)
    port = serve(serving, echo)

    assert exchange(port, b"GET /") == b""


def test_client_that_does_not_read_its_response_is_disconnected(
    serving: HttpThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference.serving.http.TIMEOUT_SECONDS", 0.05)
    large = plain(200, "x" * (64 << 20))
    port = serve(serving, lambda path: large)

    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        received = len(client.recv(1))
        eventually(lambda: not serving._connections, within=20, describe="the server to end the connection")
        with contextlib.suppress(ConnectionResetError):
            received += sum(map(len, iter(lambda: client.recv(1 << 20), b"")))

    assert received < len(large[2])


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", b"405 Method Not Allowed"),
        (b"GET / HTTP/2\r\n\r\n", b"400 Bad Request"),
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 16), b"431 Request Header Fields Too Large"),
        (b"GET /elsewhere HTTP/1.1\r\n\r\n", b"404 Not Found"),
    ],
)
def test_invalid_request_gets_an_error_status(serving: HttpThread, request_: bytes, status: bytes) -> None:
    port = serve(serving, not_found)

    assert exchange(port, request_).startswith(b"HTTP/1.1 " + status + b"\r\n")


def test_head_returns_only_headers(serving: HttpThread) -> None:
    code, headers, body = get(serve(serving, echo), "/four", method="HEAD")

    assert (code, headers["Content-Length"], body) == (200, "5", b"")


def test_failing_handler_is_logged_and_others_continue(serving: HttpThread, caplog: pytest.LogCaptureFixture) -> None:
    port = serve(serving, lambda path: plain(200 // len(path[1:]), ""))

    with caplog.at_level(logging.ERROR):
        assert get(port, "/")[0] == 500

    assert "the handler of /" in caplog.text
    assert get(port, "/x")[0] == 200


def test_stopping_closes_everything_and_leaves_no_thread() -> None:
    serving = HttpThread()
    serving.start()
    port = serve(serving, echo)
    with socket.create_connection(("127.0.0.1", port)) as client:
        get(port)
        serving.stop()
        serving.stop()
        assert client.recv(1) == b""

    assert "serving" not in {each.name for each in threading.enumerate()}


def test_server_that_was_never_started_can_be_stopped() -> None:
    serving = HttpThread()
    made = listener()
    serving.listen(made, echo)

    serving.stop()

    assert made.fileno() == -1


@pytest.mark.parametrize("answer", [(299, {}, b""), (200, {"X": "\u2713"}, b""), (200, {}, "text"), None])
def test_handler_with_an_invalid_result_fails_alone(
    serving: HttpThread, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    assert get(serve(serving, lambda path: answer))[0] == 500
    assert get(serve(serving, echo), "/x")[0] == 200
