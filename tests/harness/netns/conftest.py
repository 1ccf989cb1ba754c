"""Fixtures for tests of networks: a network, and a function that exchanges packets."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from harness.model.topology import grid
from harness.netns import sandbox
from harness.netns.addresses import Family
from harness.netns.fabric import Network, NetworkPeer
from harness.netns.namespace import Namespace

KINDS = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
PORT = 8080

Reach = Callable[[NetworkPeer, NetworkPeer, Family], str]


@pytest.fixture(autouse=True, scope="session")
def _sandbox() -> None:
    sandbox.enter()


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.create() as created:
        yield created


@pytest.fixture
def network() -> Iterator[Network]:
    """Return a network with two zones, and one node in each: a1 and b1."""
    with Network(grid("two", {"a": 1, "b": 1})) as created:
        yield created


def ask(client: NetworkPeer, host: str, *, port: int = PORT, timeout: float = 0.2) -> str:
    """Send "who" over UDP from the client. Return the answer. Raises `TimeoutError` or `ConnectionRefusedError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with client.namespace.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect((host, port))
        sock.send(b"who")
        return sock.recv(100).decode()


@pytest.fixture
def reach() -> Reach:
    """Exchange UDP packets between two hosts. Return the client's address as seen by the server."""

    def exchange(client: NetworkPeer, server: NetworkPeer, family: Family) -> str:
        with (
            server.namespace.socket(KINDS[family], socket.SOCK_DGRAM) as listener,
            client.namespace.socket(KINDS[family], socket.SOCK_DGRAM) as sender,
        ):
            listener.settimeout(1)
            sender.settimeout(1)
            listener.bind((server.addresses[family], PORT))
            sender.connect((server.addresses[family], PORT))
            sender.send(b"who")
            _, seen = listener.recvfrom(100)
            listener.sendto(b"you", seen)
            assert sender.recv(100) == b"you"
            return str(seen[0])

    return exchange


Send = Callable[..., str]


@pytest.fixture
def send() -> Send:
    """Return the function `ask`. Test modules cannot import one another in importlib mode."""
    return ask
