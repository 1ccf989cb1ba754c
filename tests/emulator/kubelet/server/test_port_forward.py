"""`port-forward` works with kubectl (over WebSocket and SPDY) and with the official Python client."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes import client, config, stream

from reference.apiserver.server import HttpServer
from tests.ports import closed_port
from tests.reference.limited_users import add_user

PROTOCOL = "v4.channel.k8s.io"
BY_WEBSOCKET, BY_SPDY = "true", "false"  # KUBECTL_PORT_FORWARD_WEBSOCKETS


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Yield a listening socket of the pod."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.settimeout(20)
        yield sock


@pytest.fixture
def forward(kubeconfig: Path) -> Iterator[Callable[..., Any]]:
    with config.new_client_from_config(str(kubeconfig)) as connection:
        method = client.CoreV1Api(connection).connect_get_namespaced_pod_portforward
        every = []

        def forward(*ports: int) -> Any:
            every.append(stream.portforward(method, "p", "default", ports=",".join(map(str, ports))))
            return every[-1]

        yield forward
        for thread in threading.enumerate():
            if thread.name.startswith("Kubernetes port forward"):  # the client's sockets, one per WebSocket
                thread.join(20)
        for each in every:
            each.websocket.shutdown()  # the client leaves it open when the server closes the connection
        connection.rest_client.pool_manager.clear()


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def test_bytes_pass_in_both_directions(forward: Callable[..., Any], listening: socket.socket) -> None:
    forwarded = forward(port_of(listening))
    with closing(forwarded.socket(port_of(listening))) as here, listening.accept()[0] as pod:
        here.settimeout(20)
        here.sendall(b"there")
        assert pod.recv(100) == b"there"
        pod.sendall(b"x" * 200_000)
        pod.shutdown(socket.SHUT_WR)
        assert sum(iter(lambda: len(here.recv(1 << 16)), 0)) == 200_000
    assert forwarded.error(port_of(listening)) is None


def test_each_port_has_its_own_connection(forward: Callable[..., Any], listening: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        forwarded = forward(port_of(listening), port_of(other))
        with other.accept()[0] as second, listening.accept()[0] as first:
            forwarded.socket(port_of(other)).sendall(b"second")
            assert second.recv(100) == b"second"
            first.sendall(b"first")
            assert forwarded.socket(port_of(listening)).recv(100) == b"first"
            forwarded.close()


def test_port_without_listener_is_an_error_on_its_channel(forward: Callable[..., Any]) -> None:
    with closed_port() as port, closing((forwarded := forward(port)).socket(port)) as here:
        here.settimeout(20)
        assert here.recv(1) == b""
    said = f"error forwarding port {port}: dial tcp localhost:{port}: connect: connection refused"
    assert forwarded.error(port) == said


def test_pod_sees_that_the_client_has_disconnected(forward: Callable[..., Any], listening: socket.socket) -> None:
    forwarded = forward(port_of(listening))
    with listening.accept()[0] as pod:
        pod.settimeout(20)
        forwarded.close()
        assert pod.recv(1) == b""


def test_connections_end_with_the_server(
    forward: Callable[..., Any], listening: socket.socket, server: HttpServer
) -> None:
    forwarded = forward(port_of(listening))
    with listening.accept()[0] as pod, closing(forwarded.socket(port_of(listening))) as here:
        pod.settimeout(20)
        here.settimeout(20)
        server.stop()
        assert here.recv(1) == b""
        assert pod.recv(1) == b""


@pytest.mark.parametrize(
    ("query", "protocol", "said"),
    [
        ("", PROTOCOL, 'query parameter "port" is required'),
        ("ports=many", PROTOCOL, 'unable to parse "many" as a port'),
        ("ports=80", "v5.channel.k8s.io", "unable to upgrade: the server accepts SPDY/3.1+portforward.k8s.io and v4"),
    ],
)
def test_invalid_forward_request_is_refused(server: HttpServer, query: str, protocol: str, said: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}", "Connection": "Upgrade", "Upgrade": "websocket"}
    headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    path = f"/api/v1/namespaces/default/pods/p/portforward?{query}"
    tls = ssl.create_default_context(cadata=server.ca_pem)
    with closing(HTTPSConnection(urlsplit(server.url).netloc, context=tls, timeout=20)) as connection:
        connection.request("GET", path, headers={**headers, "Sec-WebSocket-Protocol": protocol})
        answer = connection.getresponse()
        assert (answer.status in {400, 403}, said in answer.read().decode()) == (True, True)


@pytest.mark.parametrize(
    ("rights", "code", "said"),
    [
        ((), 403, 'cannot get resource "pods/portforward"'),
        (("get",), 403, 'cannot create resource "pods/portforward"'),
        (("get", "create"), 400, "Upgrade request required"),
    ],
)
def test_forbidden_forward_request_is_refused(
    server: HttpServer, rights: tuple[str, ...], code: int, said: str
) -> None:
    rule = {"verbs": list(rights), "apiGroups": [""], "resources": ["pods/portforward"]}
    headers = {"Authorization": f"Bearer {add_user(server, 'guest', [rule])}"}
    tls = ssl.create_default_context(cadata=server.ca_pem)
    with closing(HTTPSConnection(urlsplit(server.url).netloc, context=tls, timeout=20)) as connection:
        connection.request("GET", "/api/v1/namespaces/default/pods/p/portforward?ports=80", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, said in json.loads(answer.read())["message"]) == (code, True)


@pytest.fixture(params=[BY_WEBSOCKET, BY_SPDY])
def kubectl_forward(
    request: pytest.FixtureRequest, kubeconfig: Path, tmp_path: Path, kubectl: Any
) -> Iterator[Callable[[int], int]]:
    """Forward a port with kubectl, and return the local port."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
    with contextlib.ExitStack() as running:

        def forward(port: int) -> int:
            started = running.enter_context(
                subprocess.Popen(
                    ["kubectl", "port-forward", "p", f":{port}"],
                    env=environment | {"KUBECTL_PORT_FORWARD_WEBSOCKETS": request.param},
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            running.callback(started.kill)
            assert started.stdout is not None
            return int(started.stdout.readline().rpartition(" -> ")[0].rpartition(":")[2])

        yield forward


def accepted(listening: socket.socket) -> socket.socket:
    sock = listening.accept()[0]
    sock.settimeout(20)
    return sock


def test_kubectl_forwards_many_connections(kubectl_forward: Callable[[int], int], listening: socket.socket) -> None:
    here = ("127.0.0.1", kubectl_forward(port_of(listening)))
    with socket.create_connection(here, timeout=20) as one, accepted(listening) as first:
        one.sendall(b"one")
        assert first.recv(100) == b"one"
        for _ in range(3):
            with socket.create_connection(here, timeout=20) as other, accepted(listening) as second:
                other.sendall(b"x" * 300_000)
                with second.makefile("rb") as said:
                    assert len(said.read(300_000)) == 300_000
                second.sendall(b"y" * 300_000)
                second.shutdown(socket.SHUT_WR)
                with other.makefile("rb") as answer:
                    assert len(answer.read()) == 300_000
        first.sendall(b"back")
        assert one.recv(100) == b"back"


def test_pod_sees_that_the_client_of_kubectl_has_disconnected(
    kubectl_forward: Callable[[int], int], listening: socket.socket
) -> None:
    with socket.create_connection(("127.0.0.1", kubectl_forward(port_of(listening))), timeout=20) as here:
        here.sendall(b"hello")
        pod = listening.accept()[0]
    with pod:
        pod.settimeout(20)
        assert pod.recv(100) == b"hello"
        assert pod.recv(100) == b""
