"""Tests that the loop sends and serves many probes in parallel, stops immediately, and reports internal errors."""

from __future__ import annotations

import os
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from harness.backends.any_cluster.repeated_syns import repeated_syns
from harness.errors import InconclusiveError, UsageError
from harness.eventually import eventually
from harness.model.outcomes import REFUSED, TIMED_OUT, Reached, Unknown
from harness.netns.namespace import Namespace
from harness.probes.loop import ProbeLoop, ServerPort
from tests.harness.probes.conftest import CLIENT, SECOND, SERVER, ConnectedPair

FROM_A1 = Reached("a1", CLIENT)


def test_outcomes_are_in_the_order_of_the_requests(wire: ConnectedPair) -> None:
    wire.serve("a1", 80)
    wire.serve("b1", 81)
    questions = [
        wire.ask(protocol, port=port) for _ in range(50) for protocol in ("TCP", "UDP") for port in (80, 81, 82)
    ]
    assert wire.loop.probe(questions) == [FROM_A1, Reached("b1", CLIENT), REFUSED] * 100


def test_empty_request_list_has_no_outcomes(wire: ConnectedPair) -> None:
    assert wire.loop.probe([]) == []


def test_in_flight_limit_is_respected(wire: ConnectedPair) -> None:
    begin = time.monotonic()
    assert wire.loop.probe([wire.ask("UDP", "10.9.0.99", timeout=0.05)] * 8, in_flight=2) == [TIMED_OUT] * 8
    assert time.monotonic() - begin >= 0.2
    with pytest.raises(UsageError, match="at least 1"):
        wire.loop.probe([wire.ask()], in_flight=0)


def test_several_callers_are_served_concurrently(wire: ConnectedPair) -> None:
    wire.serve("a1")
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(lambda _: wire.loop.probe([wire.ask()] * 50), range(8)))
    assert batches == [[FROM_A1] * 50] * 8


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_closed_server_refuses_immediately_and_frees_its_port(wire: ConnectedPair, protocol: str) -> None:
    server = wire.serve("a1")
    server.close()
    server.close()
    assert wire.loop.probe([wire.ask(protocol)]) == [REFUSED]
    wire.serve("b1")
    assert wire.loop.probe([wire.ask(protocol)]) == [Reached("b1", CLIENT)]


def test_servers_of_one_netns_may_share_a_port_on_different_addresses(wire: ConnectedPair) -> None:
    wire.loop.serve(wire.server, "a1", [ServerPort("TCP", "IPv4", 80, SERVER)])
    wire.loop.serve(wire.server, "b1", [ServerPort("TCP", "IPv4", 80, SECOND)])
    outcomes = wire.loop.probe([wire.ask(address=SERVER), wire.ask(address=SECOND)])
    assert outcomes == [FROM_A1, Reached("b1", CLIENT)]


def test_port_in_use_is_reported_and_nothing_stays_open(wire: ConnectedPair) -> None:
    wire.loop.serve(wire.server, "a1", [ServerPort("TCP", "IPv4", 80)])
    with pytest.raises(InconclusiveError, match=r"start echo server b1 on TCP \*:81 \(IPv4\), TCP \*:80 .*in use"):
        wire.loop.serve(wire.server, "b1", [ServerPort("TCP", "IPv4", 81), ServerPort("TCP", "IPv4", 80)])
    assert wire.loop.probe([wire.ask(port=81)]) == [REFUSED]
    with pytest.raises(UsageError, match="cannot serve 'SCTP'"):
        wire.loop.serve(wire.server, "b1", [ServerPort("SCTP", "IPv4", 81)])


def test_closed_loop_raises_an_error(pair: tuple[Namespace, Namespace]) -> None:
    loop = ProbeLoop()
    wire = ConnectedPair(*pair, loop)
    with pytest.raises(InconclusiveError, match="not running: it is new"):
        loop.probe([wire.ask()])
    loop.start()
    loop.close()
    loop.close()
    with pytest.raises(InconclusiveError, match="not running"):
        loop.probe([wire.ask()])


def test_closing_the_loop_releases_waiting_callers(pair: tuple[Namespace, Namespace]) -> None:
    with ProbeLoop() as loop, ThreadPoolExecutor(1) as pool:
        wire = ConnectedPair(*pair, loop)
        held = wire.serve("a1")
        recording = loop.every(0.001, [wire.ask("UDP", "10.9.0.99", timeout=60)])
        waiting = pool.submit(loop.probe, [wire.ask("UDP", "10.9.0.99", timeout=60)])
        loop.probe([wire.ask()])  # sent after the other probe, so that the other one is in progress
        loop.close()
        with pytest.raises(InconclusiveError, match="not running"):
            waiting.result(timeout=10)
        with pytest.raises(InconclusiveError, match="not running"):
            recording.stop()
        held.close()


def test_error_in_the_loop_reaches_waiting_and_later_callers(wire: ConnectedPair) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wire.loop.probe, [wire.ask("UDP", "10.9.0.99", timeout=60)])
        with pytest.raises(InconclusiveError, match="the probe loop failed: ZeroDivisionError"):
            wire.loop._reactor.call(lambda: 1 / 0)
        with pytest.raises(InconclusiveError, match="ZeroDivisionError"):
            waiting.result(timeout=10)
    with pytest.raises(InconclusiveError, match="ZeroDivisionError"):
        wire.serve()


def test_time_while_the_loop_was_stopped_does_not_count(wire: ConnectedPair) -> None:
    wire.serve("a1")

    def stall() -> None:
        recording.append(wire.loop.probe)
        time.sleep(0.4)  # the fault under test: the loop gets no CPU time

    recording: list[object] = []
    with ThreadPoolExecutor(2) as pool:
        outcomes = pool.submit(wire.loop.probe, [wire.ask(timeout=0.1), wire.ask("UDP", timeout=0.1)] * 200)
        pool.submit(wire.loop._reactor.call, stall).result(timeout=10)
        assert set(outcomes.result(timeout=10)) == {FROM_A1}
    assert recording


class SlowWork:
    """Slow work in each iteration of the loop, in addition to the probes."""

    def __init__(self) -> None:
        self.fd = os.eventfd(1)

    def ready(self) -> None:
        time.sleep(0.12)

    def give_up(self, why: str) -> None:
        pass

    def drop(self) -> None:
        pass


def test_time_while_the_loop_was_busy_does_not_count(wire: ConnectedPair) -> None:
    wire.serve("a1")
    hog, reactor = SlowWork(), wire.loop._reactor
    reactor.call(lambda: reactor.watch(hog.fd, hog))
    try:
        assert set(wire.loop.probe([wire.ask(timeout=0.1), wire.ask("UDP", timeout=0.1)] * 20)) == {FROM_A1}
    finally:
        reactor.call(lambda: reactor.forget(hog.fd))
        os.close(hog.fd)


def test_answer_after_a_retransmitted_syn_is_late(wire: ConnectedPair) -> None:
    wire.serve("a1")
    back = {"type": "blackhole", "dst": f"{CLIENT}/32"}
    with wire.server.entered(), IPRoute() as ip, ThreadPoolExecutor(1) as pool:
        ip.route("add", **back)
        before = repeated(wire.client)
        outcomes = pool.submit(wire.loop.probe, [wire.ask(timeout=10)])
        eventually(lambda: repeated(wire.client) > before, describe="a SYN to be repeated")
        ip.route("del", **back)
        assert outcomes.result(timeout=10) == [TIMED_OUT]
    assert wire.loop.probe([wire.ask()]) == [FROM_A1]


def repeated(namespace: Namespace) -> int:
    """Return the number of repeated SYNs in a netns."""
    with namespace.entered():
        return repeated_syns(Path("/proc/thread-self/net/netstat").read_text(encoding="ascii"))


def test_exhausted_descriptors_are_not_a_fault_of_the_proxy(wire: ConnectedPair) -> None:
    wire.serve("a1")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208  nothing may be open while looking
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        outcomes = wire.loop.probe([wire.ask()] * 300, in_flight=100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    unclear = {outcome.why for outcome in outcomes if isinstance(outcome, Unknown)}
    assert unclear
    named = ("file descriptors of this process are in use", "Too many open files")  # the client's, the server's
    assert all(any(text in why for text in named) for why in unclear), unclear
    assert {outcome for outcome in outcomes if not isinstance(outcome, Unknown)} <= {FROM_A1}
    assert wire.loop.probe([wire.ask()]) == [FROM_A1]


def test_a_closed_loop_leaves_no_thread_and_no_descriptor(pair: tuple[Namespace, Namespace]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with ProbeLoop() as loop:
        wire = ConnectedPair(*pair, loop)
        wire.serve("a1")
        loop.connect(wire.ask())
        loop.every(0.001, [wire.ask("UDP", "10.9.0.99")])
        loop.probe([wire.ask(), wire.ask("UDP")] * 100)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert "probes" not in {thread.name for thread in threading.enumerate()}
