"""Tests DNS queries from a client's netns, and how their answers are parsed and judged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import dns.exception
import dns.message
import dns.rrset
import pytest
from dns.name import BadPointer
from dns.query import BadResponse

from harness.backends.netns import NetnsBackend
from harness.backends.protocols import ServesDns
from harness.control_planes.control_plane import ControlPlane
from harness.dns.reference import ReferenceDns
from harness.errors import InconclusiveError, UnavailableError
from harness.judging.history import History
from harness.model.topology import ONE_ZONE
from harness.model.workloads import Pod, pod_client
from harness.scenario import dns_answers as told
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import (
    DnsAnswer,
    ask_dns,
    dns_name_of,
    expect_dns_answer,
    expect_dns_pods,
    expect_locators,
    locator_of,
    resolv_conf,
)
from harness.scenario.service import Port, endpoint


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, netns_allowed: None) -> Iterator[Cluster]:
    path = tmp_path_factory.mktemp("history") / "run.jsonl"
    with NetnsBackend(ONE_ZONE) as backend, History(path) as history:
        made = Cluster(backend, "told", history=history, test="test")
        yield made
        made.close()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.eventually.FAR", 0.3)
    monkeypatch.setattr(told, "PATIENCE", 0.3)


def test_answer_is_compared_as_a_whole(cluster: Cluster) -> None:
    service = cluster.create_service(clusterIP="None")
    a1, a2 = cluster.run_servers(on=["a1", "a2"])
    cluster.publish(service, [endpoint(a1), endpoint(a2)])
    expect_dns_pods(cluster, service, {a1: {a1, a2}, pod_client("a2"): {a1, a2}})
    with pytest.raises(AssertionError, match=r"A records of service .*: expected .*'a1'\]}, observed .*10\.244\.2\."):
        expect_dns_pods(cluster, service, {a1: {a1}})
    for server in (a1, a2):
        cluster.delete_pod(server)


def test_existing_and_missing_names_are_distinguished(cluster: Cluster) -> None:
    name = dns_name_of(cluster.create_service())
    client = pod_client("a1")
    expect_dns_answer(cluster, client, name, "TXT", rcode="NOERROR", data=[], soa=True)
    with pytest.raises(AssertionError, match=r"expected .*NOERROR.* observed .*NXDOMAIN"):
        expect_dns_answer(cluster, client, f"none.{name}", rcode="NOERROR")


def test_either_of_two_answers_may_be_right(cluster: Cluster) -> None:
    name, either = dns_name_of(cluster.create_service()), frozenset({"NOERROR", "NXDOMAIN"})
    for asked in (name, f"none.{name}"):
        expect_dns_answer(cluster, pod_client("a1"), asked, rcode=either)
    with pytest.raises(AssertionError, match=r"expected .*NXDOMAIN or SERVFAIL.* observed .*NOERROR"):
        expect_dns_answer(cluster, pod_client("a1"), name, rcode=frozenset({"SERVFAIL", "NXDOMAIN"}))


class StaleDnsServer:
    """A server that gives old answers for some time. Its answers have a TTL."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, old: float, ttl: int, family: str = "") -> None:
        """With `family`, only answers over this IP family are old."""
        until = time.monotonic() + old

        def ask(*_: object, **query: object) -> DnsAnswer:
            is_old = time.monotonic() < until and family in ("", query.get("family"))
            return DnsAnswer("NOERROR", ("old" if is_old else "new",), ttl=ttl)

        monkeypatch.setattr(told, "ask_dns", ask)


def test_change_is_awaited_while_old_answers_may_be_cached(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    StaleDnsServer(monkeypatch, old=0.6, ttl=1)
    expect_dns_answer(cluster, pod_client("a1"), "web.", data=["new"])
    StaleDnsServer(monkeypatch, old=60, ttl=0)
    with pytest.raises(AssertionError, match=r"expected .*'new'.* observed .*'old'"):
        expect_dns_answer(cluster, pod_client("a1"), "web.", data=["new"])


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_caches_may_keep_old_answers_longer_over_one_family(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    service, pod = cluster.create_service(), Pod("new", "", "a1", "a", {"IPv4": "new"})
    assert family in cluster.backend.part(ServesDns).dns()
    StaleDnsServer(monkeypatch, old=0.6, ttl=1, family=family)
    expect_dns_pods(cluster, service, {pod_client("a1"): {pod}})
    StaleDnsServer(monkeypatch, old=60, ttl=0, family=family)
    with pytest.raises(AssertionError, match=r"expected .*'new'.* observed .*'old'"):
        expect_dns_pods(cluster, service, {pod_client("a1"): {pod}})


@pytest.mark.parametrize(("family", "other"), [("IPv4", "IPv6"), ("IPv6", "IPv4")])
def test_answer_is_compared_over_each_family(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, family: str, other: str
) -> None:
    StaleDnsServer(monkeypatch, old=60, ttl=0, family=family)
    with pytest.raises(AssertionError, match=r"expected .*'new'.* observed .*'old'"):
        expect_dns_answer(cluster, pod_client("a1"), "web.", data=["new"])
    expect_dns_answer(cluster, pod_client("a1"), "web.", query={"family": other}, data=["new"])


def test_answer_with_a_long_ttl_is_inconclusive(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "LONGEST_KEPT", 0.1)
    StaleDnsServer(monkeypatch, old=60, ttl=86400)
    with pytest.raises(InconclusiveError, match=r"the first answer may be cached for 86400 s"):
        expect_dns_answer(cluster, pod_client("a1"), "web.", data=["new"])


def test_srv_target_is_queried_if_the_answer_lacks_it(cluster: Cluster) -> None:
    service = cluster.create_service(clusterIP="None", ports=[Port(name="http")])
    (a1,) = cluster.run_servers(on=["a1"])
    cluster.publish(service, [endpoint(a1, extra={"hostname": "db-0"})])
    expect_dns_pods(cluster, service, {a1: {a1}}, kind="SRV")
    lacking = replace(ask_dns(cluster, a1, dns_name_of(service), "SRV"), additional=())
    assert told._answered_pods(cluster, a1, lacking, {a1.addresses["IPv4"]: "a1"}) == ["a1"]
    cluster.delete_pod(a1)


def test_missing_reply_is_an_outcome(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.backend.booted.dns()
    monkeypatch.setattr(cluster.backend.booted, "dns", lambda: {"IPv4": "10.246.0.1"})  # an address without a server
    assert ask_dns(cluster, pod_client("a1"), "web.told.svc.cluster.local.").rcode == "no answer (Timeout)"


class CannedDnsAnswers:
    """Replaces the DNS server with these answers, or errors of parsing them, in turn. The last answer stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str | Exception) -> None:
        self._left = list(answers)
        self.queries = 0
        for protocol in ("udp", "tcp"):
            monkeypatch.setattr(f"dns.query.{protocol}", self._answer)

    def _answer(self, query: dns.message.Message, *_: object, **__: object) -> dns.message.Message:
        self.queries += 1
        said = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if isinstance(said, Exception):
            raise said
        answer = dns.message.make_response(query)
        answer.answer.append(dns.rrset.from_text(query.question[0].name, 0, "IN", "A", said))
        return answer


def test_malformed_answer_is_judged_without_a_wait(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    served = CannedDnsAnswers(monkeypatch, BadPointer())
    with pytest.raises(AssertionError, match=r"malformed answer \(BadPointer: "):
        expect_dns_answer(cluster, pod_client("a1"), "web.", data=[])
    assert served.queries == 2


def test_single_answer_to_another_query_proves_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    CannedDnsAnswers(monkeypatch, BadResponse(), "10.0.0.1")
    assert ask_dns(cluster, pod_client("a1"), "web.").data == ("10.0.0.1",)


@pytest.mark.parametrize("error", [EOFError(), dns.exception.Timeout()])
def test_missing_answer_is_not_taken_for_one_without_records(
    error: Exception, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    CannedDnsAnswers(monkeypatch, error)
    with pytest.raises(AssertionError, match=r"expected {'data': \[\]}, observed .*'no answer \("):
        expect_dns_answer(cluster, pod_client("a1"), "web.", data=[])


def test_priority_and_weight_are_up_to_the_server() -> None:
    query = dns.message.make_query("_http._tcp.web.", "SRV")
    answer = dns.message.from_text(
        f"id {query.id}\nopcode QUERY\nrcode NOERROR\nflags QR\n;QUESTION\n_http._tcp.web. IN SRV\n"
        ";ANSWER\n_http._tcp.web. 5 IN SRV 7 33 80 web.\n"
    )
    assert told._read(answer).data == ("80 web.",)


def test_locators_are_compared_by_the_fields_that_are_given(cluster: Cluster) -> None:
    cluster.create_pod("web", "a2")
    expect_locators(cluster, {"web": {"nodeName": "a2"}})
    with pytest.raises(AssertionError, match=r"PodLocators of pods web: expected .*'a1'.* observed .*'a2'"):
        expect_locators(cluster, {"web": {"nodeName": "a1"}})
    assert locator_of(cluster, "none") is None


def test_resolv_conf_is_that_of_a_kubelet(cluster: Cluster) -> None:
    servers = "".join(f"nameserver {each}\n" for each in cluster.backend.part(ServesDns).dns().values())
    search = "search told.svc.cluster.local svc.cluster.local cluster.local"
    assert resolv_conf(cluster) == f"{servers}{search}\noptions ndots:5\n"


def test_control_plane_of_others_has_no_locators() -> None:
    class OtherControlPlane:
        """A control plane other than the embedded one."""

    plane: ControlPlane = OtherControlPlane()  # type: ignore[assignment]
    with pytest.raises(UnavailableError, match="only the embedded control plane serves PodLocators"):
        ReferenceDns(plane)
