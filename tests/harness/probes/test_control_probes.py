"""Tests control probes, which bypass the Service.

If control probes are lost too, a timeout is not the proxy's fault.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import pytest
from pyroute2.nftables.main import NFTables

from harness.eventually import eventually
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Unknown
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe, ProbeLoop, ServerPort
from harness.probes.probe import SocketSource
from tests.harness.probes.conftest import CLIENT, SERVER, SILENT

PORT = 8080
CLOSED = 81


@dataclass
class ControlTargets:
    """The only target of control probes: a pod at the address of the server in the `wire` fixture."""

    there: Mapping[str, tuple[str, int]] = field(default_factory=lambda: {"b1": (SERVER, PORT)})
    asked: int = 0

    def who(self, client: SocketSource) -> str:
        return "a1"

    def pods(self, family: int) -> Mapping[str, tuple[str, int]]:
        self.asked += 1
        return self.there

    def overflows(self) -> Callable[[], int]:
        return int


@contextmanager
def deaf(namespace: Namespace) -> Iterator[None]:
    """Drop all incoming packets of a netns while the block runs."""
    with namespace.entered(), NFTables(nfgen_family=socket.AF_INET) as nft:
        nft.table("add", name="deaf")
        nft.chain("add", table="deaf", name="drops", hook="input", type="filter", policy=0)
        yield
        nft.table("del", name="deaf")


@dataclass
class AddressProbe:
    """Probes an address of the server. The probe loop uses these control targets."""

    pair: tuple[Namespace, Namespace]
    targets: ControlTargets

    def probe(self, address: str, port: int, *, broken: bool = False, protocol: str = "TCP") -> Observation:
        client, server = self.pair
        with ProbeLoop(self.targets) as loop:
            loop.serve(server, "b1", [ServerPort("TCP", "IPv4", PORT), ServerPort("UDP", "IPv4", PORT)])
            with deaf(server) if broken else nullcontext():
                (outcome,) = loop.probe([Probe(client, protocol, address, port, timeout=0.4)])
        return outcome


@pytest.fixture
def asked(pair: tuple[Namespace, Namespace]) -> AddressProbe:
    return AddressProbe(pair, ControlTargets())


LOST = "control probes directly to pods were lost too: from a1 to pod b1"


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_timeout_of_a_pod_that_receives_nothing_is_unknown(asked: AddressProbe, protocol: str) -> None:
    outcome = asked.probe(SERVER, PORT, broken=True, protocol=protocol)
    assert outcome == Unknown(f"it got no answer, and {LOST}")


def test_timeout_and_refusal_stand_when_control_probes_succeed(asked: AddressProbe) -> None:
    assert asked.probe(SILENT, PORT) == TIMED_OUT
    assert asked.probe(SERVER, CLOSED) == REFUSED
    assert asked.probe(SERVER, PORT) == Reached("b1", CLIENT)


def test_control_probe_of_a_deleted_pod_is_not_lost(asked: AddressProbe) -> None:
    class RemovedPod(ControlTargets):
        def pods(self, family: int) -> Mapping[str, tuple[str, int]]:
            there = super().pods(family)
            return there if self.asked == 1 else {}

    asked.targets = RemovedPod()
    assert asked.probe(SERVER, PORT, broken=True) == TIMED_OUT
    assert asked.targets.asked > 1


def test_timeout_while_conntrack_is_full_is_unknown(asked: AddressProbe) -> None:
    class FullConntrackTable(ControlTargets):
        def overflows(self) -> Callable[[], int]:
            return lambda: 3

    asked.targets = FullConntrackTable()
    why = "conntrack of this machine was full: it had no room for 3 connections"
    assert asked.probe(SILENT, PORT) == Unknown(f"it got no answer, and {why}")


def test_a_recording_and_an_open_connection_have_control_probes_too(pair: tuple[Namespace, Namespace]) -> None:
    client, server = pair
    probe = Probe(client, "UDP", SERVER, PORT, timeout=0.4)
    with ProbeLoop(ControlTargets()) as loop:
        loop.serve(server, "b1", [ServerPort("UDP", "IPv4", PORT)])
        stream = loop.connect(probe)
        assert stream.ask() == Reached("b1", CLIENT)
        with deaf(server):
            recording = loop.every(0.01, [probe])
            answer = stream.ask()
            samples = recording.stop()
    assert answer == Unknown(f"it got no answer, and {LOST}")
    assert {each.observation for each in samples} == {answer}


def test_successful_probes_need_no_control_probes(pair: tuple[Namespace, Namespace]) -> None:
    client, server = pair
    targets = ControlTargets()
    with ProbeLoop(targets) as loop:
        loop.serve(server, "b1", [ServerPort("TCP", "IPv4", PORT), ServerPort("UDP", "IPv4", PORT)])
        loop.probe([Probe(client, "TCP", SERVER, PORT)] * 50)
        loop.connect(Probe(client, "UDP", SERVER, PORT)).ask()
        recording = loop.every(0.01, [Probe(client, "UDP", SERVER, PORT)])
        eventually(lambda: recording.asked > 20, describe="twenty questions")
        recording.stop()
    assert targets.asked == 0
