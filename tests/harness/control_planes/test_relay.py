"""Tests that the relay forwards bytes from a listening socket to a port on loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from harness.control_planes.relay import Relay


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(10)
        yield server


def _through(port: Callable[[], int], *, patient: bool = False) -> tuple[Relay, tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    relay = Relay(port, patient=patient)
    relay.listen(listening)
    return relay, listening.getsockname()


def test_relay_passes_both_ways_and_ends_with_the_server(target: socket.socket) -> None:
    relay, address = _through(lambda: int(target.getsockname()[1]))
    with closing(relay), socket.create_connection(address, timeout=10) as client:
        server, _ = target.accept()
        client.sendall(b"question")
        assert server.recv(100) == b"question"
        server.sendall(b"answer")
        assert client.recv(100) == b"answer"
        server.close()
        assert client.recv(100) == b""


def test_relay_refuses_connections_while_the_server_is_down() -> None:
    relay, address = _through(lambda: 0)
    with (
        closing(relay),
        pytest.raises(ConnectionResetError),  # raised by the second call, or already by the first
        socket.create_connection(address, timeout=10) as client,
    ):
        client.recv(100)


def test_waiting_relay_holds_clients_until_the_server_is_up(target: socket.socket) -> None:
    ports = [0]
    relay, address = _through(lambda: ports[-1], patient=True)
    with closing(relay), socket.create_connection(address, timeout=10) as client:
        client.sendall(b"question")
        ports.append(target.getsockname()[1])
        server, _ = target.accept()
        with server:
            assert server.recv(100) == b"question"


def test_connections_end_with_the_relay(target: socket.socket) -> None:
    relay, address = _through(lambda: int(target.getsockname()[1]))
    with socket.create_connection(address, timeout=10) as client:
        server, _ = target.accept()
        relay.close()
        relay.close()
        with server:
            assert server.recv(100) == b""
        with pytest.raises(ConnectionResetError):
            client.recv(100)
