"""Tests that a probe distinguishes an answer with the pod's name, a refusal, a timeout, and doubtful results."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyroute2 import IPRoute
from pyroute2.nftables.expressions import genex
from pyroute2.nftables.main import NFTables

from harness.errors import UsageError
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Refused, Unknown
from harness.netns.namespace import Namespace
from harness.probes import control_probes, probe
from harness.probes.loop import Probe, ServerPort
from harness.probes.probe import MOST, without_answer
from harness.run_delay import RunDelay, ThreadSnapshot, ThreadTimes
from tests.harness.probes.conftest import CLIENT, CLIENT6, SECOND, SECOND6, SERVER, SERVER6, ConnectedPair

PROTOCOLS = pytest.mark.parametrize("protocol", ["TCP", "UDP"])


@PROTOCOLS
@pytest.mark.parametrize(
    ("address", "client"), [(SERVER, CLIENT), (SECOND, CLIENT), (SERVER6, CLIENT6), (SECOND6, CLIENT6)]
)
def test_answers_name_the_pod_and_the_client(wire: ConnectedPair, protocol: str, address: str, client: str) -> None:
    wire.serve("a1")
    assert wire.loop.probe([wire.ask(protocol, address)]) == [Reached("a1", client)]


@PROTOCOLS
@pytest.mark.parametrize("address", [SERVER, SERVER6])
def test_closed_port_is_refused(wire: ConnectedPair, protocol: str, address: str) -> None:
    assert wire.loop.probe([wire.ask(protocol, address, 81)]) == [REFUSED]


@PROTOCOLS
def test_unassigned_address_times_out(wire: ConnectedPair, protocol: str) -> None:
    assert wire.loop.probe([wire.ask(protocol, "10.9.0.99", timeout=0.05)]) == [TIMED_OUT]


@pytest.mark.parametrize(
    ("passed", "lost", "outcome"),
    [
        (1.0, 0.0, TIMED_OUT),
        (1.0, 0.5, 0.5),
        (1.5, 0.5, TIMED_OUT),
        (4.75, 4.0, 0.25),
        (5.0, 4.0, TIMED_OUT),
        (5.0, 4.5, Unknown("it got no answer, and the programs of this run could not run for up to 4.500 of 5.000 s")),
    ],
)
def test_time_limit_counts_only_the_time_in_which_programs_could_run(
    passed: float, lost: float, outcome: Observation | float
) -> None:
    assert MOST == 5
    assert without_answer(1.0, passed, lost) == outcome


def stopped(_without: int) -> ThreadSnapshot:
    return ThreadSnapshot(time.monotonic(), time.process_time(), {"1": ThreadTimes("T", 0, 0)})


@PROTOCOLS
def test_timeout_while_a_program_is_stopped_is_no_evidence(
    wire: ConnectedPair, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delay = RunDelay(stopped)
    monkeypatch.setattr(probe, "RUN_DELAY", delay)
    monkeypatch.setattr(control_probes, "RUN_DELAY", delay)
    probes = [wire.ask(protocol, "10.9.0.99", timeout=0.4), wire.ask(protocol, "10.9.0.99", timeout=0.4, silent=True)]
    unknown, silent = wire.loop.probe(probes)
    assert isinstance(unknown, Unknown)
    assert silent == TIMED_OUT


@PROTOCOLS
@pytest.mark.parametrize("address", ["192.0.2.1", "fd99::1"])
def test_missing_route_is_not_a_fault_of_the_proxy(wire: ConnectedPair, protocol: str, address: str) -> None:
    (outcome,) = wire.loop.probe([wire.ask(protocol, address)])
    assert isinstance(outcome, Unknown)
    assert outcome.why.startswith("ENETUNREACH: ")


@PROTOCOLS
def test_a_source_address_can_be_chosen_among_the_clients_own(wire: ConnectedPair, protocol: str) -> None:
    wire.serve("a1", 8080)
    assert wire.loop.probe([wire.ask(protocol, SERVER, 8080, source=CLIENT)]) == [Reached("a1", CLIENT)]
    (outcome,) = wire.loop.probe([wire.ask(protocol, SERVER, 8080, source="10.9.0.77")])
    assert isinstance(outcome, Unknown)
    assert outcome.why.startswith("EADDRNOTAVAIL: ")


def test_closed_netns_is_not_a_fault_of_the_proxy(wire: ConnectedPair) -> None:
    gone = Namespace.create()
    gone.close()
    (outcome,) = wire.loop.probe([ConnectedPair(gone, wire.server, wire.loop).ask()])
    assert isinstance(outcome, Unknown)
    assert "closed" in outcome.why


@PROTOCOLS
def test_packet_dropped_on_the_clients_node_times_out(wire: ConnectedPair, protocol: str) -> None:
    with Namespace.create() as node:
        wire.loop.serve(node, "a1", [ServerPort(protocol, "IPv4", 80)])
        with node.entered(), IPRoute() as ip, NFTables(nfgen_family=socket.AF_INET) as nft:
            ip.link("set", index=1, state="up")
            nft.table("add", name="proxy")
            nft.chain("add", table="proxy", name="drops", hook="output", type="filter", policy=0)
        assert wire.loop.probe([Probe(node, protocol, "127.0.0.1", 80, timeout=0.1)]) == [TIMED_OUT]


KINDS = {
    ("127.0.0.1", 0): "ENETUNREACH",
    ("127.0.0.1", 1): "EHOSTUNREACH",
    ("127.0.0.1", 2): "ENOPROTOOPT",
    ("127.0.0.1", 3): "ECONNREFUSED",
    ("127.0.0.1", 13): "EHOSTUNREACH",
    ("::1", 0): "ENETUNREACH",
    ("::1", 1): "EACCES",
    ("::1", 3): "EHOSTUNREACH",
    ("::1", 4): "ECONNREFUSED",
}
"""Error by loopback address and ICMP or ICMPv6 code (linux/icmp.h, icmpv6.h; 13 and 1 mean prohibited)."""


@PROTOCOLS
@pytest.mark.parametrize(("address", "code"), KINDS)
def test_any_icmp_rejection_is_refused_immediately(wire: ConnectedPair, protocol: str, address: str, code: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    number = b"\x06" if protocol == "TCP" else b"\x11"
    with Namespace.create() as node:
        with node.entered(), IPRoute() as ip, NFTables(nfgen_family=family) as nft:
            ip.link("set", index=1, state="up")
            nft.table("add", name="proxy")
            nft.chain("add", table="proxy", name="rejects", hook="output", type="filter", policy=1)
            load = genex("meta", {"key": 16, "dreg": 1})  # NFT_META_L4PROTO
            same = genex("cmp", {"sreg": 1, "op": 0, "data": {"attrs": [("NFTA_DATA_VALUE", number)]}})
            reject = genex("reject", {"type": 0, "icmp_code": code})
            nft.rule("add", table="proxy", chain="rejects", expressions=([load, same, reject],))
        asked = Probe(node, protocol, address, 80, timeout=0.5)
        outcomes = wire.loop.probe([asked] * 3)
        flow = wire.loop.connect(asked)
        answers = [flow.opened, flow.ask()]
        flow.close()
    assert outcomes == [REFUSED] * 3
    assert answers == [REFUSED] * 2
    assert {each.how for each in outcomes if isinstance(each, Refused)} == {KINDS[address, code]}


@PROTOCOLS
@pytest.mark.parametrize(("kind", "how"), [("unreachable", "EHOSTUNREACH"), ("prohibit", "EACCES")])
def test_prohibit_route_is_a_refusal(wire: ConnectedPair, protocol: str, kind: str, how: str) -> None:
    with Namespace.create() as node:
        with node.entered(), IPRoute() as ip:
            ip.link("set", index=1, state="up")
            ip.route("add", dst="192.0.2.1/32", type=kind)
        (outcome,) = wire.loop.probe([Probe(node, protocol, "192.0.2.1", 80)])
    assert isinstance(outcome, Refused)
    assert outcome.how == how


def test_unknown_protocol_is_named_and_refused(wire: ConnectedPair) -> None:
    with pytest.raises(UsageError, match="cannot probe 'SCTP': expected TCP or UDP"):
        wire.loop.probe([wire.ask("SCTP")])


@contextmanager
def impostor(wire: ConnectedPair, behave: Callable[[socket.socket], None], port: int = 99) -> Iterator[None]:
    """Run a TCP server that handles one connection with `behave`."""
    with wire.server.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen()
        listener.settimeout(10)

        def accept() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ConnectionResetError):
                behave(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield
        thread.join()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def in_pieces(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"a1 10.9.0.1\n":
        connection.send(bytes([byte]))
    connection.recv(1)


@pytest.mark.parametrize(
    ("behave", "outcome"),
    [
        (in_pieces, Reached("a1", "10.9.0.1")),
        (reset, REFUSED),
        (
            lambda c: c.send(b"SSH-2.0-OpenSSH_9.2\r\n"),
            Unknown("an unknown server answered: b'SSH-2.0-OpenSSH_9.2\\r'"),
        ),
        (lambda c: c.send(b"z9 10.9.0.1\n"), Unknown("an unknown server answered: 'z9' is not a server of this run")),
        (lambda c: c.send(b"x" * 4000), Unknown(f"an unknown server answered: {b'x' * 60!r}")),
        (lambda c: None, Unknown("the server closed the connection without sending its name, after b''")),
        (lambda c: c.recv(1), TIMED_OUT),
    ],
    ids=["in-pieces", "reset", "banner", "foreign", "endless", "closed", "silent"],
)
def test_replies_of_other_servers_are_classified(
    wire: ConnectedPair, behave: Callable[[socket.socket], None], outcome: Observation
) -> None:
    wire.serve("a1")
    with impostor(wire, behave):
        assert wire.loop.probe([wire.ask(port=99, timeout=0.3)]) == [outcome]


def test_a_late_udp_answer_is_not_taken_for_this_one(wire: ConnectedPair) -> None:
    wire.serve("b1")
    with wire.server.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((SERVER, 99))
        server.settimeout(10)

        def answer_twice() -> None:
            nonce, client = server.recvfrom(100)
            server.sendto(b"1234abcd b1 10.9.0.99", client)  # the late answer to an earlier probe from this port
            server.sendto(nonce + b" b1 10.9.0.1", client)

        thread = threading.Thread(target=answer_twice, daemon=True)
        thread.start()
        assert wire.loop.probe([wire.ask("UDP", port=99)]) == [Reached("b1", "10.9.0.1")]
        thread.join()


def test_no_udp_probe_comes_from_a_port_that_may_still_have_a_conntrack_entry(wire: ConnectedPair) -> None:
    ports: list[int] = []
    with wire.server.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((SERVER, 99))
        server.settimeout(10)

        def answer() -> None:
            for _ in range(1000):
                nonce, client = server.recvfrom(100)
                ports.append(client[1])
                server.sendto(nonce + b" a1 10.9.0.1", client)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert set(wire.loop.probe([wire.ask("UDP", port=99)] * 1000)) == {Reached("a1", CLIENT)}
        thread.join()
    assert len(set(ports)) == 1000


def test_no_tcp_probe_comes_from_a_port_that_may_still_have_a_conntrack_entry(wire: ConnectedPair) -> None:
    ports: list[int] = []
    with few_ports(wire.client), wire.server.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind((SERVER, 99))
        server.listen(64)
        server.settimeout(10)

        def answer() -> None:
            for _ in range(200):
                connection, client = server.accept()
                ports.append(client[1])
                with connection:
                    connection.sendall(b"a1 10.9.0.1\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert set(wire.loop.probe([wire.ask(port=99)] * 200)) == {Reached("a1", CLIENT)}
        thread.join()
    assert len(set(ports)) == 200


@PROTOCOLS
def test_port_in_use_is_skipped(wire: ConnectedPair, protocol: str) -> None:
    wire.serve("a1")
    with contextlib.ExitStack() as held:
        for port in range(10_000, 65_536, 8):  # every eighth port
            held.enter_context(taken(wire.client, port, socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM))
        assert set(wire.loop.probe([wire.ask(protocol)] * 50)) == {Reached("a1", CLIENT)}


def taken(namespace: Namespace, port: int, kind: socket.SocketKind) -> socket.socket:
    sock = namespace.socket(socket.AF_INET, kind)
    sock.bind(("", port))
    return sock


@contextmanager
def few_ports(namespace: Namespace) -> Iterator[None]:
    """Limit the kernel to a hundred ephemeral ports while the block runs."""
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    with namespace.entered():
        before = path.read_text()
        path.write_text("50000 50099")
    yield
    with namespace.entered():
        path.write_text(before)
