"""Tests that a node's conntrack table is emptied between scenarios, and that a failure shows its content."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.backends.netns import NetnsBackend
from harness.model.topology import grid
from harness.model.workloads import node_client, pod_client
from harness.netns import conntrack
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe


@pytest.fixture
def backend() -> Iterator[NetnsBackend]:
    with NetnsBackend(grid("two", {"a": 2}), families=("IPv4", "IPv6")) as backend:
        yield backend


def tracked(namespace: Namespace) -> int:
    with namespace.entered():
        return int(Path("/proc/sys/net/netfilter/nf_conntrack_count").read_text(encoding="ascii"))


def connect(backend: NetnsBackend, node: str) -> None:
    """Send packets through a node's rules to unused addresses."""
    client = backend.namespace_of(pod_client(node))
    backend.probe([Probe(client, "UDP", each, 80, timeout=0.01) for each in backend.free_addresses().values()])


def test_nodes_forget_the_connections_of_a_scenario(backend: NetnsBackend) -> None:
    nodes = [backend.network.nodes[name].namespace for name in ("a1", "a2")]
    for name in ("a1", "a2"):
        connect(backend, name)
    assert [tracked(each) for each in nodes] == [2, 2]
    backend.forget_connections()
    assert not any(tracked(each) for each in nodes)


def test_nodes_of_another_cluster_keep_their_connections(backend: NetnsBackend) -> None:
    with NetnsBackend(grid("one", {"a": 1}), families=("IPv4",)) as other:
        connect(other, "a1")
        backend.forget_connections()
        assert tracked(other.network.nodes["a1"].namespace)


def test_connections_are_shown_as_by_conntrack(backend: NetnsBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    node, client, server = (
        backend.namespace_of(each) for each in (node_client("a1"), pod_client("a1"), node_client("a2"))
    )
    assert conntrack.as_text(node) == "# no connections\n"
    connect(backend, "a1")
    with server.socket(socket.AF_INET6) as listener, client.socket(socket.AF_INET6) as connected:
        listener.bind(("fd00:10::2", 80))
        listener.listen()
        connected.connect(("fd00:10::2", 80))
        listener.accept()[0].close()
    tcp, *both = conntrack.as_text(node).splitlines()
    there = r"src=10\.244\.1\.2 dst=([\d.]+) sport=(\d+) dport=80"
    assert re.match(rf"udp \d+ {there} \[UNREPLIED\] src=\1 dst=10\.244\.1\.2 sport=80 dport=\2 ", both[0]), both
    assert re.match(r"tcp \d+ [A-Z_]+ src=fd00:10:244:1::2 dst=fd00:10::2 sport=\d+ dport=80 src=.* \[ASSURED\] ", tcp)

    monkeypatch.setattr(conntrack, "MOST", 2)
    assert conntrack.as_text(node).splitlines()[-1] == "# … and 1 more"


def test_icmp_is_shown_with_its_type(backend: NetnsBackend) -> None:
    node = backend.network.nodes["a1"].namespace
    with backend.namespace_of(pod_client("a1")).socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.sendto(bytes([8, 0, 0xF7, 0xFF - 7, 0, 7, 0, 0]), ("10.0.0.3", 0))
    assert re.match(r"icmp \d+ src=10\.244\.1\.2 dst=10\.0\.0\.3 type=8 code=0 id=7 ", conntrack.as_text(node))


@pytest.mark.parametrize(
    ("counters", "without_room"),
    [
        ("entries insert_failed drop early_drop\n00000005 00000000 00000000 00000000\n", 0),
        ("entries insert_failed drop early_drop\n00000005 00000002 00000002 00000000\n", 0),
        ("entries insert_failed drop early_drop\n05 00 0a 00\n05 02 03 10\n", 27),
        ("entries found\n00000005 00000000\n", 0),
    ],
)
def test_full_table_is_distinguished_from_failed_insertions(counters: str, without_room: int) -> None:
    assert conntrack.full_table_drops(counters) == without_room


def test_one_connection_is_found_by_its_first_packet(backend: NetnsBackend) -> None:
    connect(backend, "a1")
    node = backend.network.nodes["a1"].namespace
    for line in conntrack.as_text(node).splitlines():
        told = dict(word.split("=") for word in line.split(" [")[0].split() if "=" in word)
        source, destination = (told["src"], int(told["sport"])), (told["dst"], int(told["dport"]))
        assert conntrack.entry_of(node, "udp", source, destination).partition(" src")[2] == line.partition(" src")[2]
        assert conntrack.entry_of(node, "udp", (told["src"], 1), destination) == ""
