"""Requests that the API server proxies to pods: the forwarded request, the response, and errors."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from tests.closed_ports import closed_port

Http = Callable[..., tuple[int, Any]]
PODS = "/api/v1/namespaces/default/pods"
IN_THE_CLUSTER = "10.244.1.2"


class EchoHandler(BaseHTTPRequestHandler):
    """Echoes the request.

    `/code/N` answers with status N, `/gate` waits for other requests, and `/broken` closes the connection midway.
    """

    gate = threading.Barrier(20)

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/gate":
            self.gate.wait(timeout=20)
        code = int(self.path.rpartition("/")[2]) if self.path.startswith("/code/") else 200
        asked = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body}
        said = json.dumps(asked).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/x-echo")
        self.send_header("X-Kept", "yes")
        self.send_header("Connection", "X-Dropped, close")
        self.send_header("X-Dropped", "yes")
        self.send_header("Content-Length", str(len(said) + (self.path == "/broken")))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


for each in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
    setattr(EchoHandler, f"do_{each}", EchoHandler.answer)


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of an HTTP server that echoes requests."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), EchoHandler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made.server_port
    made.shutdown()
    thread.join()
    made.server_close()


class PodSocket(socket.socket):
    """A socket that connects to the pod's address on this machine, like a socket in the cluster's netns."""

    def connect(self, address: Any) -> None:
        assert address[0] == IN_THE_CLUSTER
        super().connect(("127.0.0.1", address[1]))


@pytest.fixture
def pod(api: ApiServer, server: HttpServer) -> str:
    server.reach_pods(PodSocket)
    return run_pod(api, "web-1", IN_THE_CLUSTER)


def run_pod(api: ApiServer, name: str, address: str, port: int = 0) -> str:
    ports = [{"containerPort": port}] if port else []
    spec = {"containers": [{"name": "c", "image": "i", "ports": ports}], "nodeName": "a1"}
    made = api.create("pods", "default", {"metadata": {"name": name}, "spec": spec})
    if address:
        api.update_status("pods", "default", {**made, "status": {"phase": "Running", "podIP": address}})
    return name


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_request_and_response_are_forwarded(http: Any, pod: str, echo: int, method: str) -> None:
    body = None if method == "GET" else b"text"
    path = f"{PODS}/{pod}:{echo}/proxy/dial/it?host=a%20b&host=c&watch=1"
    with http.open(method, path, body, Content_Type="text/plain", X_Asked="me") as answer:
        seen = json.loads(answer.read())
    assert (seen["method"], seen["path"]) == (method, "/dial/it?host=a%20b&host=c&watch=1")
    assert (seen["body"], seen["headers"]["X-Asked"]) == ("text" if body else "", "me")
    assert (answer.status, answer.headers["Content-Type"], answer.headers["X-Kept"]) == (
        200,
        "application/x-echo",
        "yes",
    )


def test_credentials_and_hop_by_hop_headers_are_not_forwarded(http: Any, pod: str, echo: int) -> None:
    with http.open("GET", f"{PODS}/{pod}:{echo}/proxy/", TE="trailers", Accept="text/plain") as answer:
        sent = {name.lower() for name in json.loads(answer.read())["headers"]}
    assert sent & {"authorization", "te", "accept"} == {"accept"}
    assert "X-Dropped" not in answer.headers


@pytest.mark.parametrize("code", [404, 500, 302])
def test_error_status_of_the_pod_is_forwarded(http: Any, pod: str, echo: int, code: int) -> None:
    with http.open("GET", f"{PODS}/{pod}:{echo}/proxy/code/{code}") as answer:
        assert (answer.status, json.loads(answer.read())["path"]) == (code, f"/code/{code}")


def test_scheme_can_be_given_and_the_port_defaults_to_the_first(
    http: Http, api: ApiServer, pod: str, echo: int
) -> None:
    run_pod(api, "web-2", IN_THE_CLUSTER, port=echo)
    for identifier in (f"http:{pod}:{echo}", "web-2", f"http%3A{pod}%3A{echo}"):
        assert http("GET", f"{PODS}/{identifier}/proxy/hostname")[1]["path"] == "/hostname"


def test_empty_path_is_forwarded_as_root(http: Any, pod: str, echo: int) -> None:
    with http.open("GET", f"{PODS}/{pod}:{echo}/proxy?a=b") as answer:
        assert json.loads(answer.read())["path"] == "/?a=b"
        assert answer.url.endswith("/proxy/?a=b")


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("none:80", (404, 'pods "none" not found')),
        ("waiting:80", (400, "address not allowed")),
        ("own:80", (400, "address not allowed")),
        ("a:b:c:d", (400, 'invalid pod request "a:b:c:d"')),
        ("ftp:web-1:80", (400, 'invalid pod request "ftp:web-1:80"')),
        ("web-1:many", (503, "error trying to reach service: dial tcp: lookup tcp/many: unknown port")),
    ],
)
def test_invalid_pod_names_are_refused(http: Http, api: ApiServer, identifier: str, expected: tuple[int, str]) -> None:
    run_pod(api, "web-1", IN_THE_CLUSTER)
    run_pod(api, "waiting", "")
    run_pod(api, "own", "127.0.0.1")
    code, status = http("GET", f"{PODS}/{identifier}/proxy/")
    assert (code, status["message"]) == expected
    assert (status["kind"], status["code"]) == ("Status", code)


def test_pod_without_listener_is_unavailable(http: Http, pod: str) -> None:
    with closed_port() as port:
        code, status = http("GET", f"{PODS}/{pod}:{port}/proxy/")
    assert (code, status["reason"]) == (503, "ServiceUnavailable")
    assert status["message"] == (
        f"error trying to reach service: dial tcp {IN_THE_CLUSTER}:{port}: connect: connection refused"
    )


@pytest.mark.parametrize(("answer", "said"), [(b"", "EOF"), (b"hello\n", "malformed HTTP response")])
def test_pod_that_does_not_answer_as_http_is_unavailable(http: Http, pod: str, answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as others:
        asked = others.submit(http, "GET", f"{PODS}/{pod}:{listening.getsockname()[1]}/proxy/")
        connection = listening.accept()[0]
        connection.recv(4096)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        assert asked.result(20)[1]["message"] == f"error trying to reach service: {said}"
        connection.close()


def test_truncated_response_is_truncated_for_the_client(http: Any, pod: str, echo: int) -> None:
    with http.open("GET", f"{PODS}/{pod}:{echo}/proxy/broken") as answer, pytest.raises(IncompleteRead):
        answer.read()


def test_missing_access_to_pods_is_reported(http: Http, api: ApiServer) -> None:
    run_pod(api, "web-1", IN_THE_CLUSTER)
    code, status = http("GET", f"{PODS}/web-1:80/proxy/")
    assert (code, "has no access to the pod network" in status["message"]) == (503, True)


def test_pod_access_requires_the_token(http: Http, pod: str, echo: int) -> None:
    assert http("GET", f"{PODS}/{pod}:{echo}/proxy/", Authorization="Bearer wrong")[0] == 401


def test_requests_to_pods_run_concurrently(http: Http, pod: str, echo: int) -> None:
    """Each of twenty requests waits in its pod for the others; a request for another resource does not wait."""
    with ThreadPoolExecutor(20) as others:
        waiting = [others.submit(http, "GET", f"{PODS}/{pod}:{echo}/proxy/gate") for _ in range(19)]
        assert http("GET", PODS)[0] == 200
        assert not any(each.done() for each in waiting)
        assert http("GET", f"{PODS}/{pod}:{echo}/proxy/gate")[0] == 200
        assert [each.result(20)[0] for each in waiting] == [200] * 19


def test_restarted_server_reaches_pods(http: Http, api: ApiServer, server: HttpServer, pod: str, echo: int) -> None:
    assert http("GET", f"{PODS}/{pod}:{echo}/proxy/a")[0] == 200
    server.replace(None)
    server.replace(ApiServer(predecessor=api))
    assert http("GET", f"{PODS}/{pod}:{echo}/proxy/b")[1]["path"] == "/b"


@pytest.mark.parametrize("end", [HttpServer.stop, lambda server: server.replace(None)])
def test_stopping_server_closes_connections_to_pods(
    http: Http, server: HttpServer, pod: str, end: Callable[[HttpServer], None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as others:
        asked = others.submit(http, "GET", f"{PODS}/{pod}:{listening.getsockname()[1]}/proxy/")
        with listening.accept()[0] as connection:
            connection.settimeout(20)
            assert connection.recv(4096)
            end(server)
            assert connection.recv(1) == b""
        assert isinstance(asked.exception(20), OSError)


def test_client_disconnect_ends_the_request_in_the_pod(server: HttpServer, pod: str) -> None:
    tls = ssl.create_default_context(cadata=server.ca_pem)
    client = HTTPSConnection(server.url.removeprefix("https://"), context=tls, timeout=20)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        path = f"{PODS}/{pod}:{listening.getsockname()[1]}/proxy/"
        client.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
        with listening.accept()[0] as connection:
            connection.settimeout(20)
            assert connection.recv(4096)
            client.close()
            assert connection.recv(1) == b""
