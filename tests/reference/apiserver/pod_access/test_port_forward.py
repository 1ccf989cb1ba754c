"""Ports of pods over a WebSocket, as the official Python client asks for them."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes import client, config, stream

from reference.apiserver import ApiServer
from reference.apiserver.pod_access.port_forward import PROTOCOL
from reference.apiserver.server import HttpServer

IN_THE_CLUSTER = "10.244.1.2"


class Inside(socket.socket):
    """A socket for which the address of the pod is on this machine."""

    def connect(self, address: Any) -> None:
        assert address[0] == IN_THE_CLUSTER
        super().connect(("127.0.0.1", address[1]))


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """What the pod's server is."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.settimeout(20)
        yield sock


@pytest.fixture(autouse=True)
def pod(api: ApiServer, server: HttpServer) -> None:
    server.reach_pods(Inside)
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "a1"}
    made = api.create("pods", "default", {"metadata": {"name": "p"}, "spec": spec})
    api.update_status("pods", "default", {**made, "status": {"phase": "Running", "podIP": IN_THE_CLUSTER}})


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
            if thread.name.startswith("Kubernetes port forward"):  # the client's, of each WebSocket
                thread.join(20)
        for each in every:
            each.websocket.shutdown()  # which it leaves open when the server ends it
        connection.rest_client.pool_manager.clear()


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def test_bytes_go_both_ways(forward: Callable[..., Any], listening: socket.socket) -> None:
    forwarded = forward(port_of(listening))
    with closing(forwarded.socket(port_of(listening))) as here, listening.accept()[0] as pod:
        here.settimeout(20)
        here.sendall(b"there")
        assert pod.recv(100) == b"there"
        pod.sendall(b"x" * 200_000)
        pod.shutdown(socket.SHUT_WR)
        assert sum(iter(lambda: len(here.recv(1 << 16)), 0)) == 200_000
    assert forwarded.error(port_of(listening)) is None


def test_each_port_has_a_connection_of_its_own(forward: Callable[..., Any], listening: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        forwarded = forward(port_of(listening), port_of(other))
        with other.accept()[0] as second, listening.accept()[0] as first:
            forwarded.socket(port_of(other)).sendall(b"second")
            assert second.recv(100) == b"second"
            first.sendall(b"first")
            assert forwarded.socket(port_of(listening)).recv(100) == b"first"
            forwarded.close()


def test_port_where_nobody_listens_is_an_error_of_its_channel(forward: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = port_of(unused)
    forwarded = forward(port)
    with closing(forwarded.socket(port)) as here:
        here.settimeout(20)
        assert here.recv(1) == b""
    said = f"error forwarding port {port}: dial tcp {IN_THE_CLUSTER}:{port}: connect: connection refused"
    assert forwarded.error(port) == said


def test_pod_sees_that_the_client_has_gone(forward: Callable[..., Any], listening: socket.socket) -> None:
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
        ("", PROTOCOL, 'query parameter "ports" is required'),
        ("ports=many", PROTOCOL, 'unable to parse "many" as a port'),
        ("ports=80", "v5.channel.k8s.io", "ports are forwarded over WebSockets only, by v4.channel.k8s.io"),
    ],
)
def test_what_cannot_be_forwarded_is_refused(server: HttpServer, query: str, protocol: str, said: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}", "Connection": "Upgrade", "Upgrade": "websocket"}
    headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    path = f"/api/v1/namespaces/default/pods/p/portforward?{query}"
    tls = ssl.create_default_context(cadata=server.ca_pem)
    with closing(HTTPSConnection(urlsplit(server.url).netloc, context=tls, timeout=20)) as connection:
        connection.request("GET", path, headers={**headers, "Sec-WebSocket-Protocol": protocol})
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["message"][: len(said)]) == (400, said)


def test_without_an_upgrade_nothing_is_forwarded(http: Any) -> None:
    code, status = http("GET", "/api/v1/namespaces/default/pods/p/portforward?ports=80")
    assert (code, "over WebSockets" in status["message"]) == (400, True)


def test_who_may_not_is_told_so(http: Any, server: HttpServer) -> None:
    token = server.add_user("guest")
    path = "/api/v1/namespaces/default/pods/p/portforward?ports=80"
    code, status = http("GET", path, Authorization=f"Bearer {token}")
    assert (code, 'cannot get resource "pods/portforward"' in status["message"]) == (403, True)
