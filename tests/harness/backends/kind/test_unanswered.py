"""A port that answers no SYN of other nodes for a while, in a netns of its own with the machine's iptables."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pyroute2 import IPRoute

from harness.backends.kind.unanswered import UnansweredPort
from harness.netns import programs
from harness.netns.namespace import Namespace
from harness.netns.process import search_path

PORT = 6443
NODE, SUITE, NODE6 = "10.9.0.1", "10.9.0.2", "fd09::1"

needs_iptables = pytest.mark.skipif(
    not all(shutil.which(each, path=search_path()) for each in ("iptables", "ip6tables")),
    reason="iptables is not installed",
)


class Netns:
    """A shell whose node is a netns."""

    def __init__(self, place: Namespace) -> None:
        self.place = place
        self.asked: list[str] = []

    def execute(self, container: str, *command: str, **_: Any) -> str:
        self.asked.append(command[-1])
        ended = programs.run(self.place, command, environment={"PATH": search_path()})
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def switch_off(self, container: str) -> None:
        raise NotImplementedError

    switch_on = switch_off


@pytest.fixture
def shell(netns_allowed: None) -> Iterator[Netns]:
    """The control plane node, on which other nodes are addresses of its loopback."""
    with Namespace.create() as place:
        with place.entered(), IPRoute() as ip:
            ip.link("set", index=1, state="up")
            for address in (NODE, SUITE):
                ip.addr("add", index=1, address=address, prefixlen=32)
            ip.addr("add", index=1, address=NODE6, prefixlen=128, IFA_FLAGS=0x02)  # IFA_F_NODAD
        yield Netns(place)


def outcome(place: Namespace, source: str) -> str:
    """Return what an attempt to connect from this address comes to; nobody listens."""
    family, target = (socket.AF_INET6, "::1") if ":" in source else (socket.AF_INET, "127.0.0.1")
    with place.entered():
        client = socket.socket(family)
    with client:
        client.settimeout(0.2)
        client.bind((source, 0))
        try:
            client.connect((target, PORT))
        except (ConnectionRefusedError, TimeoutError) as error:
            return type(error).__name__
    return "connected"


@needs_iptables
def test_connections_of_nodes_have_no_answer_until_the_port_is_open(shell: Netns) -> None:
    port = UnansweredPort(shell, "control-plane", PORT)
    port.close_to([NODE, NODE6])
    assert [outcome(shell.place, each) for each in (NODE, NODE6, SUITE)] == [
        "TimeoutError",
        "TimeoutError",
        "ConnectionRefusedError",
    ]

    port.open()
    assert [outcome(shell.place, each) for each in (NODE, NODE6)] == ["ConnectionRefusedError"] * 2


@needs_iptables
def test_a_port_that_is_closed_twice_is_open_after_one_opening(shell: Netns) -> None:
    port = UnansweredPort(shell, "control-plane", PORT)
    port.close_to([NODE])
    port.close_to([NODE, SUITE])
    assert outcome(shell.place, SUITE) == "TimeoutError"
    port.open()
    assert [outcome(shell.place, each) for each in (NODE, SUITE)] == ["ConnectionRefusedError"] * 2

    asked = len(shell.asked)
    port.open()
    assert len(shell.asked) == asked
