"""Tests connections of kube-apiserver to pods: which are allowed, which are rejected, and with which error."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.control_planes.relay import EgressProxy
from tests.closed_ports import closed_port

POD = "10.244.1.2"


class PodSocket(socket.socket):
    """A socket that connects to the pod's addresses on this machine."""

    def connect(self, address: Any) -> None:
        assert address[0] in {POD, "fd00:10:244:1::2"}
        super().connect(("127.0.0.1" if self.family == socket.AF_INET else "::1", address[1]))


@pytest.fixture
def egress(tmp_path: Path) -> Iterator[EgressProxy]:
    made = EgressProxy(tmp_path)
    made.start()
    yield made
    made.close()


def ask(egress: EgressProxy, request: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(str(egress.configuration.parent / "egress"))
    sock.sendall(request.encode())
    return sock


def refusal(egress: EgressProxy, request: str) -> str:
    with ask(egress, request) as sock, sock.makefile() as answer:
        return answer.readline().strip()


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_connection_to_a_pod_carries_bytes_both_ways(egress: EgressProxy, host: str, family: int) -> None:
    egress.reach_pods(PodSocket)
    address = POD if family == socket.AF_INET else "[fd00:10:244:1::2]"
    listening = socket.create_server((host, 0), family=family)
    request = f"CONNECT {address}:{listening.getsockname()[1]} HTTP/1.1\r\nHost: x\r\n\r\n"
    with listening, ask(egress, request) as sock, listening.accept()[0] as pod:
        assert sock.recv(100) == b"HTTP/1.1 200 Connection established\r\n\r\n"
        sock.sendall(b"there")
        assert pod.recv(100) == b"there"
        pod.sendall(b"back")
        assert sock.recv(100) == b"back"
        pod.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b""


def test_refused_connection_is_reported(egress: EgressProxy) -> None:
    egress.reach_pods(PodSocket)
    with closed_port() as port:
        assert refusal(egress, f"CONNECT {POD}:{port} HTTP/1.1\r\n\r\n") == "HTTP/1.1 503 connection refused"


@pytest.mark.parametrize(
    ("request_line", "said"),
    [
        (f"CONNECT {POD}:80 HTTP/1.1", "there is no access to the network of pods"),
        ("GET / HTTP/1.1", "only CONNECT is supported"),
        ("nonsense", "only CONNECT is supported"),
    ],
)
def test_unroutable_target_is_refused(egress: EgressProxy, request_line: str, said: str) -> None:
    assert refusal(egress, f"{request_line}\r\n\r\n") == f"HTTP/1.1 503 {said}"


def test_connections_end_with_the_proxy(egress: EgressProxy) -> None:
    egress.reach_pods(PodSocket)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sock = ask(egress, f"CONNECT {POD}:{listening.getsockname()[1]} HTTP/1.1\r\n\r\n")
        with sock, listening.accept()[0] as pod:
            pod.settimeout(20)
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
            egress.close()
            assert pod.recv(1) == b""
