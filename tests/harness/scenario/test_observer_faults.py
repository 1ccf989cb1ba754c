"""Tests that faults of the observer cause no failure. No verdict is `failed` while such a fault lasts.

Each kind of probe is tested with each fault in both families. Other tests check that drops by the proxy do fail, even
short ones.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.backends.netns import NetnsBackend
from harness.errors import InconclusiveError
from harness.judging.history import History
from harness.judging.verdict import Verdict
from harness.model.manifests import TCP, UDP, Endpoint, Port
from harness.model.topology import THREE_ZONES
from harness.model.workloads import Pod, pod_client
from harness.netns.fabric import NetworkPeer
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import dns_name_of, expect_dns_answer
from harness.scenario.measuring import measure, wait_until_as_expected
from harness.scenario.service import Service
from harness.scenario.service_address import service_address
from harness.scenario.traffic import expect_traffic
from harness.scenario.transitions import expect_flow_survives, expect_no_loss
from tests.harness.scenario.observer_faults import FAULTS, PREROUTING, FaultLocation, dropping, lasting, to_address

LASTS = 0.8
LONG = 8_000  # probes
FAMILIES = ("IPv4", "IPv6")
CLIENT, SERVER = "b1", "c1"


@dataclass
class ServiceUnderTest:
    """A Service with one server. A client on another node must reach it."""

    backend: NetnsBackend
    cluster: Cluster
    service: Service
    pod: Pod
    port: Port
    family: str
    long: bool = False  # whether probes continue for longer than a fault lasts

    @property
    def address(self) -> Mapping[str, object]:
        """Return the arguments for an expectation about this Service."""
        return {"family": self.family, "port": self.port}

    @property
    def place(self) -> FaultLocation:
        """Return the location of the faults."""
        return FaultLocation(
            self.backend, self.backend.host_of(pod_client(CLIENT)), self.backend.host_of(self.pod), self.family
        )


Strike = Callable[[], None]
Kind = Callable[[ServiceUnderTest, Strike], None]


def window(asked: ServiceUnderTest, strike: Strike) -> None:
    target = service_address(asked.cluster, asked.service, family=asked.family, port=asked.port)
    paths = target.paths({CLIENT: {asked.pod}})
    wait_until_as_expected(asked.cluster, paths, "answers")
    strike()
    measure(asked.cluster, "window", paths, at_least=LONG if asked.long else 0)


def held(asked: ServiceUnderTest, strike: Strike) -> None:
    with expect_flow_survives(asked.cluster, asked.service, CLIENT, asked.pod, **asked.address):
        strike()


def steady(asked: ServiceUnderTest, strike: Strike) -> None:
    with expect_no_loss(
        asked.cluster, asked.service, from_=[CLIENT], allowed={asked.pod}, family=asked.family, port=asked.port
    ) as flow:
        strike()
        if asked.long:
            flow.wait_for_samples(LONG // 4)


def scenario(asked: ServiceUnderTest, strike: Strike) -> None:
    strike()
    expect_traffic(asked.cluster, asked.service, {CLIENT: {asked.pod}}, family=asked.family, port=asked.port)


def query(asked: ServiceUnderTest, strike: Strike) -> None:
    asked.cluster.settle()
    strike()
    wanted = {"rcode": "NOERROR", "data": [asked.service.cluster_ip(asked.family)]}
    kind = "AAAA" if asked.family == "IPv6" else "A"
    over = {"family": asked.family, "tcp": asked.port is TCP}
    expect_dns_answer(asked.cluster, asked.pod, dns_name_of(asked.service), kind, query=over, **wanted)


KINDS: Mapping[str, tuple[Kind, Port]] = {
    f"{kind.__name__} {port.protocol}": (kind, port)
    for kind in (window, held, steady, scenario, query)
    for port in (TCP, UDP)
}


@pytest.fixture(scope="module")
def backend(netns_allowed: None) -> Iterator[NetnsBackend]:
    with NetnsBackend(THREE_ZONES) as booted:
        booted.dns()
        yield booted


_numbers = itertools.count(1)


@contextmanager
def asking(backend: NetnsBackend, tmp_path: Path, kind: str, family: str) -> Iterator[ServiceUnderTest]:
    """Start a scenario with a Service that has one server."""
    port = KINDS[kind][1]
    name = f"observer-{next(_numbers)}"
    with (
        History(tmp_path / "history.jsonl") as history,
        closing(Cluster(backend, name, history=history, test=name)) as to,
    ):
        service = to.create_service(ports=(port,), dual_stack=True)
        (pod,) = to.run_servers(on=[SERVER])
        to.publish(service, [Endpoint(pod.addresses, node=pod.node, zone=pod.zone)])
        yield ServiceUnderTest(backend, to, service, pod, port, family)


def place_of(asked: ServiceUnderTest, kind: str) -> FaultLocation:
    """Return the location of a fault. A DNS query goes from the pod to the DNS server."""
    place = asked.place
    if kind.startswith("query"):
        assert asked.backend._dns is not None
        return FaultLocation(asked.backend, place.server, asked.backend._dns[1], asked.family)
    return place


def verdict_beside(
    asked: ServiceUnderTest, kind: str, fault: AbstractContextManager[None], seconds: float, delay: float = 0.0
) -> tuple[Verdict, str]:
    """Return verdict and message of a check during a fault that begins this long after the first probe."""
    with ExitStack() as over:

        def begin() -> None:
            over.enter_context(lasting(fault, seconds))

        def strike() -> None:
            if not delay:
                begin()
                return
            timer = threading.Timer(delay, begin)
            timer.start()
            waits.append(timer)

        waits: list[threading.Timer] = []
        try:
            KINDS[kind][0](asked, strike)
        except InconclusiveError as error:
            return Verdict.INCONCLUSIVE, str(error)
        except AssertionError as error:
            return Verdict.FAILED, str(error)
        finally:
            for timer in waits:
                timer.join()
        return Verdict.PASSED, ""


AROUND = f"to pod {SERVER}"
MEETS = {
    **dict.fromkeys(("deaf pod", "mute pod", "pod without route", "deaf client", "mute client"), AROUND),
    "fabric that loses": AROUND,
    "full connection tracking": "conntrack of this machine was full: it had no room for",
}
"""Faults that every window notices, and the message. The others may find nothing to disturb."""


@pytest.mark.slow
@pytest.mark.timeout(600)  # filling the table holds a lock that all users of conntrack on this machine need
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_observer_fault_causes_no_failure(
    backend: NetnsBackend, tmp_path: Path, fault: str, kind: str, family: str
) -> None:
    with asking(backend, tmp_path, kind, family) as asked:
        verdict, message = verdict_beside(asked, kind, FAULTS[fault](place_of(asked, kind)), LASTS)
    assert verdict is not Verdict.FAILED, message
    if fault in MEETS and kind.startswith(("window", "steady")):
        assert verdict is Verdict.INCONCLUSIVE
        assert MEETS[fault] in message.partition("\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("kind", ["window TCP", "window UDP", "steady TCP"])
def test_observer_fault_that_starts_during_requests_causes_no_failure(
    backend: NetnsBackend, tmp_path: Path, kind: str, delay: float
) -> None:
    with asking(backend, tmp_path, kind, "IPv4") as asked:
        asked.long = True
        verdict, message = verdict_beside(asked, kind, FAULTS["deaf pod"](asked.place), LASTS, delay)
    assert verdict is Verdict.INCONCLUSIVE, f"{verdict}: {message}"


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.8])
@pytest.mark.parametrize("kind", ["window TCP", "window UDP", "steady TCP", "steady UDP"])
def test_packets_dropped_by_a_proxy_fail(
    backend: NetnsBackend, tmp_path: Path, kind: str, seconds: float, family: str
) -> None:
    with asking(backend, tmp_path, kind, family) as asked:
        node: NetworkPeer = backend.network.nodes[CLIENT]
        to_service = to_address(asked.service.cluster_ip(family))
        fault = dropping(node.namespace, asked.place.number, PREROUTING, *to_service)
        verdict, message = verdict_beside(asked, kind, fault, seconds)
    assert verdict is Verdict.FAILED, f"{verdict}: {message}"
    assert "got no answer" in message


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", [TCP, UDP], ids=lambda port: port.protocol)
def test_blackholed_endpoint_fails(backend: NetnsBackend, tmp_path: Path, family: str, protocol: Port) -> None:
    nowhere = {"IPv4": "10.244.5.99", "IPv6": "fd00:10:244:5::99"}
    with asking(backend, tmp_path, f"window {protocol.protocol}", family) as asked:
        right = Endpoint(asked.pod.addresses, node=asked.pod.node, zone=asked.pod.zone)
        asked.cluster.publish(asked.service, [right, Endpoint(nowhere, node=asked.pod.node, zone=asked.pod.zone)])
        asked.cluster.settle()
        target = service_address(asked.cluster, asked.service, family=family, port=protocol)
        with pytest.raises(AssertionError, match="got no answer"):
            measure(asked.cluster, "window", target.paths({CLIENT: {asked.pod}}))
