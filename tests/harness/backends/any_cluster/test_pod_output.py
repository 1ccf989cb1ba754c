"""Tests how the output of client pods becomes observations. Doubtful output must become `Unknown`."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

from harness.api.client import Api, Response
from harness.backends.any_cluster import dialing
from harness.backends.any_cluster import repeated_syns as repeated_syns_module
from harness.backends.any_cluster.agnhost_output import address_seen, outcomes_of
from harness.backends.any_cluster.dialing import Bypass, Dialer, Neighbours
from harness.backends.any_cluster.pods import ClientPod, identity
from harness.backends.any_cluster.repeated_syns import RepeatedSyns, repeated_syns
from harness.errors import InconclusiveError, UnavailableError
from harness.eventually import eventually
from harness.model.outcomes import REFUSED, TIMED_OUT, Observation, Reached, Unknown
from harness.probes.loop import Probe

CLIENT = ClientPod("td-abcd1234-main-clients", "client-a1", 8080)
ANSWER = Reached("td-x-main-1/a1")
TIMEOUT = (
    'Get "http://10.96.0.1:80/hostname": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
)


def outcomes(tries: int, *responses: str, errors: tuple[str, ...] = (), code: int = 200) -> list[Observation]:
    body = {"responses": list(responses), "errors": list(errors)}
    return outcomes_of(Response(code, body), tries, identity, CLIENT)


def netstat(syns: int) -> str:
    return f"TcpExt: SyncookiesSent TCPSynRetrans TCPOrigDataSent\nTcpExt: 7 {syns} 9\nIpExt: InNoRoutes\nIpExt: 1\n"


def test_answers_name_pod_and_namespace() -> None:
    assert outcomes(2, "a1--td-x-main-1", "b1--td-x-main-1") == [Reached("td-x-main-1/a1"), Reached("td-x-main-1/b1")]
    assert isinstance(identity("nginx"), Unknown)
    assert isinstance(identity("a1--default"), Unknown)


def test_errors_of_go_are_classified() -> None:
    refused = "dial tcp 10.96.0.1:80: connect: connection refused"
    unreachable = "dial tcp 10.96.0.1:80: connect: no route to host"
    assert outcomes(3, errors=(refused, TIMEOUT, unreachable)) == [REFUSED, TIMED_OUT, REFUSED]
    assert isinstance(outcomes(1, errors=("connect: cannot assign requested address",))[0], Unknown)


@pytest.mark.parametrize(
    ("said", "answered_before", "outcome"),
    [
        ("network is unreachable", True, REFUSED),
        ("network is unreachable", False, Unknown),
        ("no route to host", False, REFUSED),
        ("operation not permitted", False, REFUSED),
    ],
)
def test_unreachable_network_is_a_refusal_unless_the_route_is_unknown(
    new_dialer: Callable[..., Dialer], said: str, answered_before: bool, outcome: Observation | type[Unknown]
) -> None:
    answers = [{"responses": ["a1--td-x-main-1"]}] if answered_before else []
    bodies = iter([*answers, {"errors": [f"dial tcp 10.96.0.1:80: connect: {said}"]}])
    dialer = new_dialer(lambda _client, _path, _seconds: Response(200, next(bodies)))
    probe = Probe(CLIENT, "TCP", "10.96.0.1", 80)
    if answered_before:
        dialer.dial(probe, 1)
    (seen,) = dialer.dial(probe, 1).outcomes
    assert outcome in (seen, type(seen))


def test_unresolved_neighbour_counts_as_timeout(
    new_dialer: Callable[..., Dialer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "REPEATED_SYN", 0.0)  # treat every answer as late
    body = {"errors": ["dial tcp 10.96.0.1:80: connect: no route to host"]}
    dialer = new_dialer(lambda _client, _path, _seconds: Response(200, body))
    assert dialer.dial(Probe(CLIENT, "TCP", "10.96.0.1", 80), 1).outcomes == [TIMED_OUT]


def test_answers_that_agnhost_omits_are_unknown() -> None:
    assert outcomes(3, errors=(TIMEOUT,))[0] == TIMED_OUT
    assert [type(each) for each in outcomes(3, errors=(TIMEOUT,))[1:]] == [Unknown, Unknown]


def test_client_that_cannot_send_is_unknown() -> None:
    assert all(isinstance(each, Unknown) for each in outcomes(2, code=503))
    assert all(isinstance(each, Unknown) for each in outcomes(2, "a1--td-x-main-1"))


def test_datagram_stopped_by_its_own_node_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="dropped or rejected"):
        outcomes(1, errors=("udp connection write failed. err:write udp: write: operation not permitted",))


def test_the_address_of_a_client_is_read_in_both_families() -> None:
    assert address_seen("10.244.1.2:4711") == Reached("", "10.244.1.2")
    assert address_seen("[fd00::2]:4711") == Reached("", "fd00::2")
    assert isinstance(address_seen("hello"), Unknown)


def test_repeated_syns_are_lost_packets_unless_unanswered_tries_explain_them(monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([netstat(3), netstat(3), netstat(9), netstat(12)])
    syns = RepeatedSyns(lambda _client: next(said))
    clock = itertools.count(100.0, 6.0)
    monkeypatch.setattr(repeated_syns_module.time, "monotonic", lambda: next(clock))
    assert syns.lost("a1") == 3
    assert syns.lost("a1") == 0
    syns.ended("a1", syns.sent("a1", 1), 1)
    assert syns.lost("a1") == 1  # the attempt that ended after six seconds explains up to five of the six new SYNs
    assert syns.lost("a1") == 3  # the attempt has ended, so it explains no more SYNs


def test_a_try_whose_answer_was_lost_explains_one_syn_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([netstat(0), netstat(5)])
    syns = RepeatedSyns(lambda _client: next(said))
    now = 100.0
    monkeypatch.setattr(repeated_syns_module.time, "monotonic", lambda: now)
    sent = syns.sent("a1", 1)
    now = 103.0
    syns.ended("a1", sent, 1, goes_on=5.0)
    syns.begin("a1")
    now = 103.5
    assert syns.lost("a1") == 4  # the attempt explains at most one repeated SYN in half a second


@pytest.mark.parametrize(("tries", "seconds", "lost"), [(1, 2.5, 0), (1, 0.5, 2), (20, 2.5, 2)])
def test_pending_single_tries_may_have_repeated_syns(
    monkeypatch: pytest.MonkeyPatch, tries: int, seconds: float, lost: int
) -> None:
    """Steady traffic counts repeated SYNs while other attempts of the same client are still waiting for a timeout."""
    said = iter([netstat(2), netstat(2)])
    syns = RepeatedSyns(lambda _client: next(said))
    now = 100.0
    monkeypatch.setattr(repeated_syns_module.time, "monotonic", lambda: now)
    sent = syns.sent("a1", tries)
    now += seconds
    assert syns.lost("a1") == lost
    syns.ended("a1", sent, 0)
    assert syns.lost("a1") == 0


def test_syns_repeated_during_the_count_are_explained_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    said = iter([netstat(0), netstat(2)])

    def read(_client: str) -> str:
        nonlocal now
        now += 2.0
        return next(said)

    syns = RepeatedSyns(read)
    monkeypatch.setattr(repeated_syns_module.time, "monotonic", lambda: now)
    sent = syns.sent("a1", 1)
    assert syns.lost("a1") == 0
    syns.ended("a1", sent, 1)
    assert syns.lost("a1") == 0


def test_tries_of_one_request_repeat_no_more_than_one_syn_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([netstat(0), netstat(50)])
    syns = RepeatedSyns(lambda _client: next(said))
    now = 100.0
    monkeypatch.setattr(repeated_syns_module.time, "monotonic", lambda: now)
    assert syns.lost("a1") == 0
    sent = syns.sent("a1", 10)
    now += 20.0
    syns.ended("a1", sent, 4)
    assert syns.lost("a1") == 50 - 21


def test_tries_that_ended_within_a_second_repeated_no_syn() -> None:
    said = iter([netstat(0), netstat(1)])
    syns = RepeatedSyns(lambda _client: next(said))
    assert syns.lost("a1") == 0
    syns.ended("a1", syns.sent("a1", 1), 1)
    assert syns.lost("a1") == 1


def test_unreadable_counters_prove_nothing() -> None:
    with pytest.raises(InconclusiveError, match="netstat"):
        repeated_syns("")


@pytest.fixture
def new_dialer() -> Iterator[Callable[..., Dialer]]:
    """Return a factory of dialers. The API server of the dialers is unreachable."""
    configuration = {
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(contextlib.closing(Api(configuration)))

        def make(bypass: Bypass | None = None, neighbours: Neighbours = lambda _: ()) -> Dialer:
            dialer = Dialer(api, lambda: lambda: None, bypass=bypass, neighbours=neighbours)
            return stack.enter_context(contextlib.closing(dialer))

        yield make


def test_clients_bypass_an_absent_api_server(new_dialer: Callable[..., Dialer]) -> None:
    probe = Probe(CLIENT, "TCP", "10.96.0.1", 80)
    assert isinstance(new_dialer().dial(probe, 1).outcomes[0], Unknown)
    asked = []

    def ask(client: ClientPod, path: str, _seconds: float) -> Response:
        asked.append((client, path))
        return Response(200, {"responses": ["a1--td-x-main-1"] * 2})

    dialer = new_dialer(ask)
    assert dialer.dial(probe, 2).outcomes == [Reached("td-x-main-1/a1")] * 2
    assert asked == [(CLIENT, "dial?host=10.96.0.1&port=80&protocol=http&request=hostname&tries=2")]


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({}, Reached("")),
        ({"error": "exit status 1", "output": "REFUSED\n"}, REFUSED),
        ({"error": "exit status 1", "output": "TIMEOUT\n"}, TIMED_OUT),
        ({"error": "exit status 1", "output": "OTHER: dial tcp: connect: no route to host"}, REFUSED),
        ({"error": "exit status 127"}, Unknown("200 exit status 127")),
    ],
)
def test_empty_connection_uses_the_shell(
    new_dialer: Callable[..., Dialer], body: dict[str, str], outcome: Observation
) -> None:
    asked = []

    def ask(_client: ClientPod, path: str, _seconds: float) -> Response:
        asked.append(path)
        return Response(200, body)

    assert new_dialer(ask).connect(Probe(CLIENT, "TCP", "fd00::1", 80)) == outcome
    assert asked == ["shell?cmd=%2Fagnhost+connect+%5Bfd00%3A%3A1%5D%3A80+--timeout%3D1s"]


@pytest.mark.parametrize(
    ("repeated", "unsure", "dials"),
    [([5, 5], 0, 2), ([5, 6, 6], 0, 6), ([5, 6, 7], 4, 6)],
    ids=["no repeated SYN", "repeated SYN only at first", "always a repeated SYN"],
)
def test_late_host_network_answers_are_doubted_only_with_repeated_syns(
    new_dialer: Callable[..., Dialer], monkeypatch: pytest.MonkeyPatch, repeated: list[int], unsure: int, dials: int
) -> None:
    monkeypatch.setattr(dialing, "REPEATED_SYN", 0.0)  # treat every answer as late
    counts, asked = iter(repeated), []

    def ask(_client: ClientPod, path: str, _seconds: float) -> Response:
        if path.startswith("shell"):
            return Response(200, {"output": netstat(next(counts))})
        asked.append(path)
        return Response(200, {"responses": ["a1--td-x-main-1"] * int(path.rpartition("=")[2])})

    dialer = new_dialer(ask)
    probe = Probe(ClientPod("td-x-node-clients", "client-a1", 20480, on_host=True), "TCP", "10.96.0.1", 80)
    seen = dialer.probe([probe] * 4)
    assert [isinstance(each, Unknown) for each in seen].count(True) == unsure
    assert len(asked) == dials


def test_request_hides_at_most_one_loss_per_second(new_dialer: Callable[..., Dialer]) -> None:
    dialer = new_dialer(lambda _client, _path, _seconds: Response(200, {"output": netstat(5)}))
    probe = Probe(CLIENT, "TCP", "10.96.0.1", 80)
    seen = dialer._counted(probe, [dialing.DialResult([Reached("td-x-main-1/a1")] * 10, 1.6)], set())
    assert (seen.count(TIMED_OUT), len(seen)) == (1, 10)


LATE = [dialing.DialResult([Reached("td-x-main-1/a1")] * 10, 9.0)]


def test_syns_of_a_pending_reading_are_not_losses(
    new_dialer: Callable[..., Dialer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, an attempt may start seconds late, so that it also ends after its five seconds."""
    now, repeated = 100.0, 0
    monkeypatch.setattr(repeated_syns_module.time, "monotonic", lambda: now)
    monkeypatch.setattr(dialing, "GLANCE", -0.99)
    answers = threading.Event()

    def ask(_client: ClientPod, path: str, _seconds: float) -> Response:
        if path.startswith("shell"):
            return Response(200, {"output": netstat(repeated)})
        assert answers.wait(30)
        return Response(200, {"errors": ["i/o timeout"]})

    dialer = new_dialer(ask)
    probe = Probe(CLIENT, "TCP", "10.96.0.1", 80)
    assert dialer.glance([probe]) == [TIMED_OUT]
    now, repeated = 108.5, 4  # the attempt began at 103.9
    assert TIMED_OUT not in dialer._counted(probe, LATE, set())
    repeated = 5
    now = 109.0
    assert TIMED_OUT not in dialer._counted(probe, LATE, set())
    answers.set()
    eventually(lambda: dialer._syns._clients[CLIENT].sent[0].end < 110, describe="the pod's answer")
    now, repeated = 112.0, 6
    dialer.begin(probe)
    now, repeated = 113.0, 7
    assert dialer._counted(probe, LATE, set()).count(TIMED_OUT) == 1, "no attempt is pending any more"


def test_late_glances_do_not_pile_up(new_dialer: Callable[..., Dialer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "GLANCE", -0.99)
    monkeypatch.setattr(dialing, "PENDING", 4)
    lock, pending, most = threading.Lock(), 0, 0

    def ask(_client: ClientPod, _path: str, _seconds: float) -> Response:
        nonlocal pending, most
        with lock:
            pending += 1
            most = max(most, pending)
        threading.Event().wait(0.2)  # the API server is slow
        with lock:
            pending -= 1
        return Response(200, {"errors": ["i/o timeout"]})

    dialer = new_dialer(ask)
    for _ in range(20):
        assert dialer.glance([Probe(CLIENT, "UDP", "10.96.0.1", 80)] * 2) == [TIMED_OUT] * 2
    assert most <= 4 + 2


def answering(
    monkeypatch: pytest.MonkeyPatch, seconds: float, answer: Callable[[str], Response]
) -> Callable[[ClientPod, str, float], Response]:
    """Return client pods that answer a path after this many seconds. The time is that of the clock that counts SYNs."""
    now = 100.0
    monkeypatch.setattr(repeated_syns_module.time, "monotonic", lambda: now)

    def ask(_client: ClientPod, path: str, _seconds: float) -> Response:
        nonlocal now
        now += seconds
        return answer(path)

    return ask


@pytest.mark.parametrize("how", ["answered late", "in vain"])
def test_syns_of_an_earlier_reading_or_connection_are_not_losses(
    new_dialer: Callable[..., Dialer], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def answer(path: str) -> Response:
        if "netstat" in path:
            return Response(200, {"output": netstat(2)})
        if path.startswith("shell"):
            return Response(200, {"error": "exit status 1", "output": "TIMEOUT\n"} if how == "in vain" else {})
        return Response(200, {"errors": ["i/o timeout"]} if how == "in vain" else {"responses": ["a1--td-x-main-1"]})

    dialer = new_dialer(answering(monkeypatch, 1.5, answer))
    probe = Probe(CLIENT, "TCP", "10.96.0.1", 80)
    dialer.glance([probe])
    dialer.connect(probe)
    assert TIMED_OUT not in dialer._counted(probe, LATE, set())


@pytest.mark.parametrize(("protocol", "lost"), [("TCP", 0), ("UDP", 1)])
def test_datagrams_without_answer_repeat_no_syns(
    new_dialer: Callable[..., Dialer], monkeypatch: pytest.MonkeyPatch, protocol: str, lost: int
) -> None:
    def answer(path: str) -> Response:
        return Response(200, {"output": netstat(1)} if path.startswith("shell") else {"errors": ["i/o timeout"]})

    dialer = new_dialer(answering(monkeypatch, 5.0, answer))
    dialer._dial(Probe(CLIENT, protocol, "10.96.0.1", 81), 1, identity)
    seen = dialer._counted(Probe(CLIENT, "TCP", "10.96.0.1", 80), LATE, set())
    assert seen.count(TIMED_OUT) == lost


TWIN = ClientPod("td-abcd1234-main-clients", "twin-0-a1", 8080)


def of_an_old_client(
    new_dialer: Callable[..., Dialer], answers: Iterator[int], *, of_twin: int, neighbours: tuple[ClientPod, ...]
) -> Dialer:
    """Return a dialer with a client whose first attempts were not answered.

    `answers` is the number of answered attempts of each later request. `of_twin` is this number for the client's twin.
    """
    told = Probe(CLIENT, "TCP", "10.96.0.1", 80)
    is_silent = True

    def ask(client: ClientPod, path: str, _seconds: float) -> Response:
        if path.startswith("shell"):
            return Response(200, {"output": netstat(0)})
        tries = int(path.rpartition("=")[2])
        answered = 0 if is_silent else next(answers) if client == CLIENT else min(tries, of_twin)
        errors = [TIMEOUT] * (tries - answered)
        return Response(200, {"responses": ["a1--td-x-main-1"] * answered, "errors": errors})

    dialer = new_dialer(ask, lambda _client: neighbours)
    dialer.probe([told] * 4)
    is_silent = False
    return dialer


@pytest.mark.parametrize(
    ("answers", "of_twin", "neighbours", "seen"),
    [
        ((1, 2, 1), 4, (TWIN,), [ANSWER] * 4),
        ((1, 2, 0, 1), 4, (TWIN,), [ANSWER] * 4),
        ((1, 2, 0, 0, 0, 0), 4, (TWIN,), [ANSWER] * 3 + [Unknown]),
        ((1, 2), 0, (TWIN,), [ANSWER] * 3 + [TIMED_OUT]),
        ((1, 2), 4, (), [ANSWER] * 3 + [Unknown]),
        ((0, 0, 0, 0), 4, (TWIN,), [TIMED_OUT] * 4),
    ],
    ids=["answered now", "answered later", "never answered", "twin not answered either", "no twin", "none answered"],
)
def test_doubtful_try_is_repeated_when_a_twin_has_all_answers(
    new_dialer: Callable[..., Dialer],
    answers: tuple[int, ...],
    of_twin: int,
    neighbours: tuple[ClientPod, ...],
    seen: list[Observation | type[Unknown]],
) -> None:
    dialer = of_an_old_client(new_dialer, iter(answers), of_twin=of_twin, neighbours=neighbours)
    now = dialer.probe([Probe(CLIENT, "TCP", "10.96.0.1", 80)] * 4)
    assert sorted(str(Unknown if isinstance(each, Unknown) else each) for each in now) == sorted(map(str, seen))


def test_doubtful_try_of_steady_traffic_is_unknown(
    new_dialer: Callable[..., Dialer],
) -> None:
    probe = Probe(CLIENT, "TCP", "10.96.0.1", 80)
    dialer = of_an_old_client(new_dialer, iter([8, 0]), of_twin=4, neighbours=())
    assert [type(each) for each in dialer.dial(probe, 10).outcomes] == [Reached] * 8 + [Unknown] * 2
    assert dialer.dial(probe, 1).outcomes == [TIMED_OUT], "no attempt was answered"
