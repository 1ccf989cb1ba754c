"""Tests a port that drops SYNs of other nodes for a short time.

The test uses its own netns and the machine's iptables.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pyroute2 import IPRoute

from harness.backends.kind import nodes
from harness.backends.kind.nodes import silence_port
from harness.eventually import eventually
from harness.netns import process
from harness.netns.namespace import Namespace
from harness.netns.process import search_path

PORT = 6443
SERVER, SERVER6 = "10.9.0.9", "fd09::9"
SUITE, NODE, SUITE6, NODE6 = "10.9.0.1", "10.9.0.2", "fd09::1", "fd09::2"
REFUSED = dict.fromkeys((NODE, NODE6, SUITE, SUITE6), "ConnectionRefusedError")
UNANSWERED = dict.fromkeys(REFUSED, "TimeoutError")
OTHERS = REFUSED | dict.fromkeys((NODE, NODE6), "TimeoutError")  # no answer

needs_iptables = pytest.mark.skipif(
    not all(shutil.which(each, path=search_path()) for each in ("iptables", "ip6tables")),
    reason="iptables is not installed",
)


class NodeShell:
    """A node's shell that runs in a netns."""

    def __init__(self, place: Namespace, network: Namespace) -> None:
        self.place, self.network = place, network

    def execute(self, container: str, *command: str, **_: Any) -> str:
        ended = process.run(self.place, command)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of a connection attempt from each address. No process listens on the port."""
        with self.network.entered():
            return {each: _outcome(each, SERVER6 if ":" in each else SERVER) for each in REFUSED}


@pytest.fixture
def shell(netns_allowed: None) -> Iterator[NodeShell]:
    """Return a control plane node. Its network has the addresses of another node and of the gateway."""
    with Namespace.create() as place, Namespace.create() as network:
        with place.entered(), IPRoute() as ip:
            ip.link("set", index=1, state="up")
            ip.link("add", ifname="eth0", kind="veth", peer={"ifname": "eth0", "net_ns_fd": network.fd})
            _address(ip, SERVER, SERVER6)
        with network.entered(), IPRoute() as ip:
            _address(ip, SUITE, NODE, SUITE6, NODE6)
        with place.entered(), IPRoute() as ip:
            for gateway, everything in ((SUITE, "0.0.0.0/0"), (SUITE6, "::/0")):
                ip.route("add", dst=everything, gateway=gateway)
        made = NodeShell(place, network)
        eventually(lambda: made.outcomes() == REFUSED, describe="neighbours to be found")
        yield made


def _address(ip: IPRoute, *addresses: str) -> None:
    [index] = ip.link_lookup(ifname="eth0")
    for each in addresses:
        flags = {"prefixlen": 64, "IFA_FLAGS": 0x02} if ":" in each else {"prefixlen": 24}  # IFA_F_NODAD
        ip.addr("add", index=index, address=each, **flags)
    ip.link("set", index=index, state="up")


def _outcome(source: str, target: str) -> str:
    with socket.socket(socket.AF_INET6 if ":" in source else socket.AF_INET) as client:
        client.settimeout(0.2)
        client.bind((source, 0))
        try:
            client.connect((target, PORT))
        except (ConnectionRefusedError, TimeoutError) as error:
            return type(error).__name__
    return "connected"


def silence(shell: NodeShell, *, silent: bool) -> None:
    silence_port(shell, "control-plane", PORT, silent=silent)


@needs_iptables
def test_closed_port_drops_connections_of_nodes(shell: NodeShell) -> None:
    silence(shell, silent=True)
    assert shell.outcomes() == OTHERS
    with shell.place.entered():
        assert _outcome("127.0.0.1", "127.0.0.1") == "ConnectionRefusedError"
    silence(shell, silent=False)
    assert shell.outcomes() == REFUSED


@needs_iptables
def test_port_closed_twice_opens_at_once(shell: NodeShell) -> None:
    silence(shell, silent=True)
    silence(shell, silent=True)
    silence(shell, silent=False)
    assert shell.outcomes() == REFUSED
    silence(shell, silent=False)
    assert shell.outcomes() == REFUSED


@needs_iptables
def test_port_closed_for_one_family_opens(shell: NodeShell, monkeypatch: pytest.MonkeyPatch) -> None:
    families = nodes._FAMILIES
    monkeypatch.setattr(nodes, "_FAMILIES", families.partition(" ")[0])
    silence(shell, silent=True)
    monkeypatch.setattr(nodes, "_FAMILIES", families)
    silence(shell, silent=False)
    assert shell.outcomes() == REFUSED


@needs_iptables
def test_network_without_gateway_times_out(shell: NodeShell) -> None:
    with shell.place.entered(), IPRoute() as ip:
        for everything in ("0.0.0.0/0", "::/0"):
            ip.route("del", dst=everything)
    silence(shell, silent=True)
    assert shell.outcomes() == UNANSWERED
