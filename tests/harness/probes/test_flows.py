"""Tests open connections and probes at a fixed rate, which show the effect of a change on existing clients."""

from __future__ import annotations

import itertools

import pytest

from harness.errors import UsageError
from harness.eventually import eventually
from harness.model.outcomes import REFUSED, TIMED_OUT, Reached, Unknown
from harness.probes.loop import TimedProbes
from tests.harness.probes.conftest import CLIENT, SERVER6, ConnectedPair

FROM_A1 = Reached("a1", CLIENT)
PROTOCOLS = pytest.mark.parametrize("protocol", ["TCP", "UDP"])


@PROTOCOLS
def test_established_flow_answers_repeatedly(wire: ConnectedPair, protocol: str) -> None:
    wire.serve("a1")
    stream = wire.loop.connect(wire.ask(protocol))
    assert stream.opened == FROM_A1
    assert [stream.ask() for _ in range(5)] == [FROM_A1] * 5
    stream.close()
    stream.close()
    assert stream.opened == FROM_A1
    assert stream.ask() == Unknown("this stream is closed")


@PROTOCOLS
def test_an_established_flow_ends_with_its_server(wire: ConnectedPair, protocol: str) -> None:
    server = wire.serve("a1")
    stream = wire.loop.connect(wire.ask(protocol))
    server.close()
    assert [stream.ask(), stream.ask()] == [REFUSED] * 2


def test_udp_flow_continues_with_a_new_server_and_tcp_flow_does_not(wire: ConnectedPair) -> None:
    server = wire.serve("a1")
    udp, tcp = wire.loop.connect(wire.ask("UDP")), wire.loop.connect(wire.ask("TCP"))
    server.close()
    wire.serve("b1")
    assert [udp.ask(), tcp.ask()] == [Reached("b1", CLIENT), REFUSED]


@PROTOCOLS
def test_failed_flow_has_a_reason(wire: ConnectedPair, protocol: str) -> None:
    refused = wire.loop.connect(wire.ask(protocol))
    assert (refused.opened, refused.ask()) == (REFUSED, REFUSED)
    silent = wire.loop.connect(wire.ask(protocol, "10.9.0.99", timeout=0.05))
    assert (silent.opened, silent.ask()) == (TIMED_OUT, TIMED_OUT)
    nowhere = wire.loop.connect(wire.ask(protocol, "192.0.2.1"))
    assert isinstance(nowhere.opened, Unknown)


def test_recording_sends_at_its_rate_regardless_of_answers(wire: ConnectedPair) -> None:
    wire.serve("a1")
    recording = wire.loop.every(0.005, [wire.ask(), wire.ask("UDP", "10.9.0.99", timeout=0.2)])
    wait_for_samples(recording, 80)
    samples = recording.stop()
    assert {sample.observation for sample in samples if sample.probe == 0} == {FROM_A1}
    assert {sample.observation for sample in samples if sample.probe == 1} == {TIMED_OUT}
    spaces = sorted(b.at - a.at for a, b in itertools.pairwise(sample for sample in samples if sample.probe == 0))
    assert spaces[len(spaces) // 2] < 0.1, "the recording waited for unanswered probes"
    assert all(sample.seconds >= 0.2 for sample in samples if sample.probe == 1)


def test_recording_shows_when_answers_stopped_and_resumed(wire: ConnectedPair) -> None:
    server = wire.serve("a1")
    recording = wire.loop.every(0.002, [wire.ask(address=SERVER6)])
    wait_for_samples(recording, 10)
    server.close()
    wait_for_samples(recording, 20)
    wire.serve("b1")
    wait_for_samples(recording, 30)
    samples = recording.stop()
    names = [getattr(sample.observation, "pod", "refused") for sample in samples]
    assert [name for name, _ in itertools.groupby(names)] == ["a1", "refused", "b1"]
    assert [sample.at for sample in samples] == sorted(sample.at for sample in samples)


def test_stopped_recording_sends_no_more_requests(wire: ConnectedPair) -> None:
    wire.serve("a1")
    recording = wire.loop.every(0.001, [wire.ask()])
    wait_for_samples(recording, 2)
    samples = recording.stop()
    wire.loop.probe([wire.ask()] * 50)
    assert recording.stop() == samples
    assert not any(sample.observation == Unknown("no answer yet") for sample in samples)


@pytest.mark.parametrize("interval", [0, -1])
def test_a_recording_needs_an_interval_and_probes(wire: ConnectedPair, interval: float) -> None:
    with pytest.raises(UsageError):
        wire.loop.every(interval, [wire.ask()])
    with pytest.raises(UsageError):
        wire.loop.every(1, [])


def wait_for_samples(recording: TimedProbes, count: int) -> None:
    eventually(lambda: recording.asked >= count, describe=f"{count} samples")
