"""Expectations about answers of the cluster's DNS server, and about PodLocator objects.

One answer contains all records, so a check needs no calculated sample size. It repeats the query several times after
the first correct answer. Caches may return an old record until its time to live has expired, so a check waits as long.
"""

import io
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.resolver

from harness.api.client import RefusedError
from harness.backends.protocols import ClientNetns, ServesDns
from harness.dns.dns import PORT, ZONE
from harness.errors import InconclusiveError, StarvedError
from harness.eventually import MOST, could_not_run
from harness.model.manifests import Object
from harness.model.workloads import Client, Pod
from harness.netns.process import run
from harness.probes.reactor import starved
from harness.run_delay import RUN_DELAY
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import wait_for_value
from harness.scenario.eventual_state import expect_eventually
from harness.scenario.service import Service
from harness.variation import axes

PATIENCE = 2.0  # time limit for one answer in seconds
EXCUSED = 0.1  # if the programs could not run for this share of the limit, a missing answer proves nothing
PAYLOAD = 4096
AGAIN = 3
LONGEST_KEPT = 60  # seconds; no check waits longer for an old answer to expire
EXISTS, ABSENT = "NOERROR", "NXDOMAIN"
_SHOWN = 20  # maximum number of pods and Services whose answers are in the evidence
_SILENT, _MALFORMED = "no answer", "malformed answer"

_NSSWITCH = "/etc/nsswitch.conf"
_GETADDRINFO = "import socket, sys; [print(each[4][0]) for each in socket.getaddrinfo(sys.argv[1], 80)]"

DnsClient = Client | Pod


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """The parts of a DNS answer that scenarios use.

    `additional` has (name, address) of each record in the additional section. `ttl` is the time to live in seconds.
    """

    rcode: str
    data: tuple[str, ...] = ()
    additional: tuple[tuple[str, str], ...] = ()
    soa: bool = False
    cut: bool = False
    edns: bool = False
    ttl: int = 0
    size: int = 0

    @property
    def malformed(self) -> bool:
        """True if clients cannot read the answer or do not accept it."""
        return self.rcode.startswith(_MALFORMED)


def dns_name_of(service: Service, *before: str) -> str:
    """Return the DNS name of a Service, or a subdomain as in `dns_name_of(service, "_http", "_tcp")`."""
    return ".".join([*before, service.name, service.namespace, "svc", ZONE]) + "."


def ask_dns(
    cluster: Cluster,
    client: DnsClient,
    name: str,
    kind: str = "A",
    *,
    tcp: bool | None = None,
    payload: int = PAYLOAD,
    family: str = "",
) -> DnsAnswer:
    """Send a query from a client's netns, without EDNS if `payload` is 0. A timeout is returned as a `DnsAnswer`.

    After a malformed answer, the query is repeated once. If `tcp` is None, the protocol is random, or UDP if `payload`
    is given. `family` is the IP family of the packets, by default the cluster's primary family.
    Raises `InconclusiveError` if the query and control probes get no answer, or if programs could not run meanwhile.
    """
    server = cluster.backend.part(ServesDns).dns()
    cluster.record.used.add("DNS")
    family = family or next(iter(server))
    edns: Any = {"use_edns": 0, "payload": payload} if payload else {}
    query = dns.message.make_query(name, kind, **edns)
    over_tcp = cluster.draw[axes.QUERIES] == "tcp" and payload == PAYLOAD if tcp is None else tcp
    ask = dns.query.tcp if over_tcp else dns.query.udp
    with cluster.backend.part(ServesDns, client=client).beside_dns(client, family) as control:
        try:
            with cluster.backend.part(ClientNetns).namespace_of(client).entered():
                answer = _asked_in_time(lambda: ask(query, server[family], timeout=PATIENCE, port=PORT))
        except (OSError, EOFError, dns.exception.DNSException) as error:
            if isinstance(error, OSError) and starved(error):
                raise InconclusiveError(f"{client} cannot query the DNS server: {error}") from error
            if _is_malformed(error):
                mismatch = "its ID, question or opcode is not the query's, or it is not a response"
                why = mismatch if isinstance(error, dns.query.BadResponse) else str(error)
                return DnsAnswer(f"{_MALFORMED} ({type(error).__name__}: {why})")
            if why := control.fault():
                raise InconclusiveError(f"{client} got no answer from the DNS server, and {why}") from error
            return DnsAnswer(f"{_SILENT} ({type(error).__name__})")
    if not over_tcp and len(answer.wire or b"") > PAYLOAD:
        return DnsAnswer(f"{_MALFORMED} ({len(answer.wire or b''):,} bytes over UDP, which accepts {PAYLOAD:,})")
    return _read(answer)


def _is_malformed(error: Exception) -> bool:
    return isinstance(error, dns.exception.DNSException) and not isinstance(error, dns.exception.Timeout)


def _asked_in_time(ask: Callable[[], dns.message.Message]) -> dns.message.Message:
    """Repeat the query after one malformed answer, or if programs could not run. Raises `DNSException`."""
    begin = time.monotonic()
    again = False
    with RUN_DELAY.watched():
        while True:
            asked = time.monotonic()
            try:
                return ask()
            except dns.exception.DNSException as error:
                if _is_malformed(error):
                    if again:
                        raise
                    again = True  # the first answer may belong to an earlier query from the same port
                    continue
                if RUN_DELAY.lost(asked) < EXCUSED * PATIENCE:
                    raise
                if time.monotonic() - begin >= MOST * PATIENCE:
                    lost = could_not_run(RUN_DELAY.lost(begin), begin)
                    raise StarvedError(f"the DNS server did not answer in {PATIENCE:g} s. {lost}") from error


def _read(answer: dns.message.Message) -> DnsAnswer:
    return DnsAnswer(
        rcode=dns.rcode.to_text(answer.rcode()),
        data=tuple(_data(each) for rrset in answer.answer for each in rrset),
        additional=tuple((str(rrset.name), each.to_text()) for rrset in answer.additional for each in rrset),
        soa=any(rrset.rdtype == dns.rdatatype.SOA for rrset in answer.authority),
        cut=bool(answer.flags & dns.flags.TC),
        edns=answer.edns >= 0,
        ttl=_ttl(answer),
        size=len(answer.wire or b""),
    )


def _ttl(answer: dns.message.Message) -> int:
    """Return the longest time to live of the records, or of the SOA if there are none (RFC 2308, section 5)."""
    absence = [
        min(rrset.ttl, each.minimum) for rrset in answer.authority for each in rrset if each.rdtype == dns.rdatatype.SOA
    ]
    return max([rrset.ttl for rrset in answer.answer] or absence, default=0)


def _data(record: dns.rdata.Rdata) -> str:
    """Return a record's data. Priority and weight of SRV records are omitted, because the server may choose them."""
    text = record.to_text()
    return " ".join(text.split()[2:]) if record.rdtype == dns.rdatatype.SRV else text


def expect_dns_pods(
    cluster: Cluster,
    service: Service,
    expected: Mapping[Pod, AbstractSet[Pod]] | Mapping[Client, AbstractSet[Pod]],
    *,
    kind: str = "A",
) -> None:
    """Expect DNS to return exactly these pods to each client for a Service's name, as A, AAAA or SRV records.

    Queries are sent over each IP family of the DNS server. For SRV records, the targets' addresses are compared. If no
    pods are expected, both NXDOMAIN and an empty answer are correct. Raises `AssertionError`.
    """
    pods: list[Pod] = [each for some in expected.values() for each in some]
    names = {address: each.name for each in pods for address in each.addresses.values()}

    def look(family: str) -> tuple[dict[str, list[str]], list[DnsAnswer]]:
        answers = {who: ask_dns(cluster, who, dns_name_of(service), kind, family=family) for who in expected}
        seen = {str(who): _answered_pods(cluster, who, answer, names) for who, answer in answers.items()}
        return seen, list(answers.values())

    what = f"{kind} records of service {service.name} by client"
    wanted = {str(who): sorted(each.name for each in some) for who, some in expected.items()}
    families = list(cluster.backend.part(ServesDns).dns())
    _expect_eventually(cluster, what, look, expected=wanted, families=families)
    for family in islice(cycle(reversed(families)), AGAIN):
        cluster.expect_equal(f"{what}, queried again", expected=wanted, observed=look(family)[0])


def _expect_eventually(
    cluster: Cluster,
    what: str,
    look: Callable[[str], tuple[Any, Sequence[DnsAnswer]]],
    *,
    expected: Any,
    families: Sequence[str],
) -> None:
    """Wait for `expected`. The time to live of the first answers extends the wait. A malformed first answer ends it."""

    def look_at_all() -> tuple[Any, Sequence[DnsAnswer]]:
        for family in families:
            found = look(family)
            if found[0] != expected:
                break
        return found

    cluster.settle()
    seen, first = look_at_all()
    ttl = max((each.ttl for each in first), default=0)
    kept = min(ttl, LONGEST_KEPT)
    if not any(each.malformed for each in first):
        seen = wait_for_value(
            cluster, what, lambda: look_at_all()[0], lambda now: bool(now == expected), every=0.02, kept=kept
        )
    old = seen != expected and ttl > kept
    unknown = f"by its time to live, the first answer may be cached for {ttl} s" if old else ""
    cluster.expect_equal(what, expected=expected, observed=seen, unknown=unknown)


def answers_now(cluster: Cluster) -> str:
    """Query the DNS server from running pods for each Service of the scenario. Return the answers as text."""
    server = " ".join(cluster.backend.part(ServesDns).dns().values())
    lines = [f"Answers of the DNS server at {server} at the end of the scenario:"]
    services = cluster.api.list("services", cluster.namespace)[:_SHOWN]
    for name in [f"{each['metadata']['name']}.{cluster.namespace}.svc.{ZONE}." for each in services]:
        for pod in cluster.running[:_SHOWN]:
            for kind in ("A", "AAAA"):
                answer = ask_dns(cluster, pod, name, kind)
                said = f"{name} {kind}: {answer.rcode} {' '.join(answer.data)}".rstrip()
                lines.append(f"  pod {pod.name} on {pod.node}: {said}")
                if answer.rcode.startswith(_SILENT):
                    return "\n".join([*lines, "The other pods send no query, because this takes too long.", ""])
    return "\n".join([*lines, ""])


def _answered_pods(cluster: Cluster, who: DnsClient, answer: DnsAnswer, names: Mapping[str, str]) -> list[str]:
    if answer.rcode not in (EXISTS, ABSENT):
        return [answer.rcode]
    addresses = [_address_at(cluster, who, answer, each.split()[-1]) for each in answer.data]
    return sorted({names.get(each, each) for each in addresses})


def _address_at(cluster: Cluster, who: DnsClient, answer: DnsAnswer, data: str) -> str:
    """Return the address in an address record, or the first address of an SRV target, which may require a query."""
    if not data.endswith("."):
        return data
    asked = (each for kind in ("A", "AAAA") for each in ask_dns(cluster, who, data, kind).data)
    return dict(answer.additional).get(data) or next(asked, data)


def expect_dns_answer(
    cluster: Cluster,
    client: DnsClient,
    name: str,
    kind: str = "A",
    *,
    query: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Expect a client to get an answer with these fields of `DnsAnswer`. `query` contains arguments for `ask_dns`.

    Queries are sent over each IP family of the DNS server, or only over the family in `query`. The order of `data` does
    not matter. If an expected field is a set, any member is correct. Raises `AssertionError`.
    """
    query = query or {}
    either = {field: value for field, value in fields.items() if isinstance(value, AbstractSet)}

    def plain(field: str, value: Any) -> Any:
        if value == either.get(field) or value in either.get(field, ()):
            return " or ".join(sorted(either[field]))
        return sorted(value) if field == "data" else value

    def look(family: str) -> tuple[Object, list[DnsAnswer]]:
        answer = ask_dns(cluster, client, name, kind, **{**query, "family": family})
        lacks = {"rcode": answer.rcode} if answer.rcode.startswith((_SILENT, _MALFORMED)) else {}
        return {field: plain(field, getattr(answer, field)) for field in fields} | lacks, [answer]

    what = f"answer to {kind} {name} with {dict(query)}" if query else f"answer to {kind} {name}"
    families = [query["family"]] if "family" in query else list(cluster.backend.part(ServesDns).dns())
    _expect_eventually(cluster, what, look, expected=plain_fields(fields), families=families)


def plain_fields(fields: Mapping[str, Any]) -> Object:
    """Convert expected fields of an answer to the form in which the history records them."""
    either = {field: " or ".join(sorted(value)) for field, value in fields.items() if isinstance(value, AbstractSet)}
    return {field: sorted(value) if field == "data" else value for field, value in fields.items()} | either


def resolv_conf(cluster: Cluster) -> str:
    """Return the /etc/resolv.conf that a kubelet writes for a pod with the DNS policy ClusterFirst."""
    search = " ".join([f"{cluster.namespace}.svc.{ZONE}", f"svc.{ZONE}", ZONE])
    servers = "".join(f"nameserver {each}\n" for each in cluster.backend.part(ServesDns).dns().values())
    return f"{servers}search {search}\noptions ndots:5\n"


def locator_of(cluster: Cluster, pod: str) -> Object | None:
    """Return the PodLocator of a pod of the scenario, or None if there is none."""
    try:
        return cluster.api.get("podlocators", cluster.namespace, pod)
    except RefusedError as error:
        if error.response.code == 404:
            return None
        raise


def expect_locators(cluster: Cluster, expected: Mapping[str, Object]) -> None:
    """Expect exactly the PodLocators with these names and fields (`ips` as a sorted list). Raises `AssertionError`."""
    cluster.backend.part(ServesDns).dns()
    fields = sorted({field for each in expected.values() for field in each})

    def look() -> dict[str, Object]:
        found: dict[str, Object] = {}
        for each in cluster.api.list("podlocators", cluster.namespace):
            values = {
                "ips": sorted(ip.get("ip", "") for ip in each.get("ips") or ()),
                "nodeName": each.get("nodeName") or "",
                "nodeLabels": each.get("nodeLabels") or {},
            }
            found[each["metadata"]["name"]] = {field: values[field] for field in fields}
        return found

    wanted = {name: {field: each.get(field) for field in fields} for name, each in expected.items()}
    what = f"PodLocators of pods {', '.join(expected) or '(none)'}"
    expect_eventually(cluster, what, look, expected=wanted, stays=True)


def addresses_of(pods: Sequence[Pod]) -> list[str]:
    return sorted(address for pod in pods for address in pod.addresses.values())


@dataclass(frozen=True, slots=True)
class Resolver:
    """A DNS resolver. `resolve` resolves a name in a client's netns, and returns the sorted addresses."""

    name: str
    resolve: Callable[[Cluster, DnsClient, str], list[str]]


def resolvers() -> list[Resolver]:
    """Return the resolver implementations that this machine has. Each parses the pod's resolv.conf with its own code.

    The C library sends A and AAAA queries in parallel, from one socket and without EDNS. dnspython sends the queries
    one after the other, with EDNS and a cookie. dig does the same, and is used if it is installed.
    """
    c_library = partial(_program, lambda name: [sys.executable, "-I", "-S", "-c", _GETADDRINFO, name])
    dig = partial(_program, lambda name: ["dig", "+short", "+search", name, "A", name, "AAAA"])
    everywhere = [Resolver("the C library", c_library), Resolver("dnspython", _dnspython)]
    return everywhere + ([Resolver("dig", dig)] if shutil.which("dig") else [])


def _program(command: Callable[[str], list[str]], cluster: Cluster, client: DnsClient, name: str) -> list[str]:
    files = {"/etc/resolv.conf": resolv_conf(cluster)}
    if Path(_NSSWITCH).exists():  # without it, the C library uses DNS
        files[_NSSWITCH] = "hosts: dns\n"
    try:
        output = run(cluster.backend.part(ClientNetns).namespace_of(client), command(name), files=files).stdout
    except subprocess.TimeoutExpired:  # the C library repeats unanswered queries
        return []
    return sorted(set(output.split()))


def _dnspython(cluster: Cluster, client: DnsClient, name: str) -> list[str]:
    resolver = dns.resolver.Resolver(io.StringIO(resolv_conf(cluster)))
    resolver.use_edns(0, payload=PAYLOAD, options=[dns.edns.CookieOption(secrets.token_bytes(8), b"")])
    resolver.flags = dns.flags.RD | dns.flags.AD
    found: set[str] = set()
    with cluster.backend.part(ClientNetns).namespace_of(client).entered():
        for kind in ("A", "AAAA"):
            try:
                answer = resolver.resolve(name, kind, search=True, raise_on_no_answer=False, lifetime=PATIENCE)
            except (OSError, dns.exception.DNSException):
                continue
            found.update(record.to_text() for record in answer)
    return sorted(found)
