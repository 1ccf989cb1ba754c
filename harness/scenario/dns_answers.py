"""Expectations about answers of the cluster's DNS, and about PodLocators: literal tables, compared as a whole.

Queries are sent from the client's own netns. An answer is complete, so no sample sizes are needed. But after the first
right answer a server is asked again, and each of these answers counts.

A record's time to live is the server's leave to act on it for so long, and its own caches have that leave too. So a
change is waited for until an answer from before it must have been forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdata
import dns.rdatatype

from harness.api.client import RefusedError
from harness.backends.protocols import ServesDns, Sockets
from harness.dns.dns import PORT, ZONE
from harness.errors import InconclusiveError
from harness.model.manifests import Object
from harness.model.workloads import Client, Pod
from harness.probes.reactor import starved
from harness.scenario.becoming import expect_becomes
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import come_to
from harness.scenario.service import Service

PATIENCE = 2.0  # seconds for one answer
PAYLOAD = 4096
AGAIN = 3
LONGEST_KEPT = 60  # seconds that an old answer is waited for, at most
EXISTS, ABSENT = "NOERROR", "NXDOMAIN"
_SHOWN = 20  # pods, and services, whose answers stand in the evidence

Asking = Client | Pod


@dataclass(frozen=True, slots=True)
class Answer:
    """The parts of an answer that scenarios use. `data` are its records' data, `further` address records by name.

    `ttl` are the seconds for which it may be kept: records, or their absence.
    """

    rcode: str
    data: tuple[str, ...] = ()
    further: tuple[tuple[str, str], ...] = ()
    soa: bool = False
    cut: bool = False
    edns: bool = False
    ttl: int = 0
    size: int = 0


def dns_name_of(service: Service, *before: str) -> str:
    """Return the name of a Service, or a name below it: `dns_name_of(service, "_http", "_tcp")`."""
    return ".".join([*before, service.name, service.namespace, "svc", ZONE]) + "."


def ask_dns(
    cluster: Cluster,
    client: Asking,
    name: str,
    kind: str = "A",
    *,
    tcp: bool = False,
    payload: int = PAYLOAD,
    family: str = "",
) -> Answer:
    """Send one query from a client's netns; `payload` 0 is one without EDNS. A time-out is returned as an answer.

    `family` is that of the packets, the cluster's first one unless given. Raises `InconclusiveError` where control
    probes beside a query without an answer say that it means nothing.
    """
    server = cluster.backend.part(ServesDns).dns()
    family = family or next(iter(server))
    edns: Any = {"use_edns": 0, "payload": payload} if payload else {}
    query = dns.message.make_query(name, kind, **edns)
    ask = dns.query.tcp if tcp else dns.query.udp
    with cluster.backend.part(ServesDns, client=client).beside_dns(client, family) as control:
        try:
            with cluster.backend.part(Sockets).namespace_of(client).entered():
                answer = ask(query, server[family], timeout=PATIENCE, port=PORT)
        except (OSError, dns.exception.DNSException) as error:
            if isinstance(error, OSError) and starved(error):
                raise InconclusiveError(f"{client} cannot ask the DNS server: {error}") from error
            if why := control.what_was_wrong():
                raise InconclusiveError(f"{client} got no answer from the DNS server, and {why}") from error
            return Answer(f"no answer ({type(error).__name__})")
    return _read(answer, query)


def _read(answer: dns.message.Message, query: dns.message.Message) -> Answer:
    same = answer.question == query.question
    return Answer(
        rcode=dns.rcode.to_text(answer.rcode()) if same else "an answer to something else",
        data=tuple(_data(each) for rrset in answer.answer for each in rrset),
        further=tuple((str(rrset.name), each.to_text()) for rrset in answer.additional for each in rrset),
        soa=any(rrset.rdtype == dns.rdatatype.SOA for rrset in answer.authority),
        cut=bool(answer.flags & dns.flags.TC),
        edns=answer.edns >= 0,
        ttl=_ttl(answer),
        size=len(answer.wire or b""),
    )


def _ttl(answer: dns.message.Message) -> int:
    """Return the longest time to live of its records; without records that of its SOA, as RFC 2308, 5 has it."""
    absence = [
        min(rrset.ttl, each.minimum) for rrset in answer.authority for each in rrset if each.rdtype == dns.rdatatype.SOA
    ]
    return max([rrset.ttl for rrset in answer.answer] or absence, default=0)


def _data(record: dns.rdata.Rdata) -> str:
    """Return a record's data; of an SRV record only port and target, as a server may choose priority and weight."""
    text = record.to_text()
    return " ".join(text.split()[2:]) if record.rdtype == dns.rdatatype.SRV else text


def expect_told(
    cluster: Cluster,
    service: Service,
    expected: Mapping[Pod, AbstractSet[Pod]] | Mapping[Client, AbstractSet[Pod]],
    *,
    kind: str = "A",
) -> None:
    """Expect DNS to tell each client of just these pods at the name of a Service: by A, AAAA or SRV records.

    SRV records are compared by the addresses of their targets. Who is told of none may hear that the name does not
    exist, or that it has no such records. Raises `AssertionError` with both tables.
    """
    pods: list[Pod] = [each for told in expected.values() for each in told]
    names = {address: each.name for each in pods for address in each.addresses.values()}

    def look() -> tuple[dict[str, list[str]], int]:
        answers = {who: ask_dns(cluster, who, dns_name_of(service), kind) for who in expected}
        told = {str(who): _pods_told(cluster, who, answer, names) for who, answer in answers.items()}
        return told, max((each.ttl for each in answers.values()), default=0)

    what = f"{kind} records of service {service.name} by client"
    wanted = {str(who): sorted(each.name for each in told) for who, told in expected.items()}
    _expect_becomes(cluster, what, look, expected=wanted)
    for _ in range(AGAIN):
        cluster.expect_equal(f"{what}, asked again", expected=wanted, observed=look()[0])


def _expect_becomes(cluster: Cluster, what: str, look: Callable[[], tuple[Any, int]], *, expected: Any) -> None:
    """Wait until `look` returns `expected`, and longer than that for the seconds that it returned first beside it.

    Raises `AssertionError` with its last value, and `InconclusiveError` where that may be an old answer which may be
    kept for longer than is waited for.
    """
    cluster.settle()
    _, kept = look()
    bearable = min(kept, LONGEST_KEPT)
    seen = come_to(cluster, what, lambda: look()[0], lambda seen: bool(seen == expected), every=0.02, kept=bearable)
    old = seen != expected and kept > bearable
    unknown = f"by its time to live the first answer may be kept for {kept} s" if old else ""
    cluster.expect_equal(what, expected=expected, observed=seen, unknown=unknown)


def answers_now(cluster: Cluster) -> str:
    """Return the DNS server's present answers to the scenario's running pods about its Services, for people."""
    server = " ".join(cluster.backend.part(ServesDns).dns().values())
    lines = [f"The DNS server at {server} tells, at the end of the scenario:"]
    services = cluster.api.list("services", cluster.namespace)[:_SHOWN]
    for name in [f"{each['metadata']['name']}.{cluster.namespace}.svc.{ZONE}." for each in services]:
        for pod in cluster.running[:_SHOWN]:
            for kind in ("A", "AAAA"):
                said = ask_dns(cluster, pod, name, kind)
                lines.append(
                    f"  pod {pod.name} on {pod.node}: {name} {kind}: {said.rcode} {' '.join(said.data)}".rstrip()
                )
    return "\n".join([*lines, ""])


def _pods_told(cluster: Cluster, who: Asking, answer: Answer, names: Mapping[str, str]) -> list[str]:
    if answer.rcode not in (EXISTS, ABSENT):
        return [answer.rcode]
    addresses = [_address_at(cluster, who, answer, each.split()[-1]) for each in answer.data]
    return sorted({names.get(each, each) for each in addresses})


def _address_at(cluster: Cluster, who: Asking, answer: Answer, data: str) -> str:
    """Return an address record's address, or the first one of an SRV record's target, which the answer may lack."""
    if not data.endswith("."):
        return data
    asked = (each for kind in ("A", "AAAA") for each in ask_dns(cluster, who, data, kind).data)
    return dict(answer.further).get(data) or next(asked, data)


def expect_dns_answer(
    cluster: Cluster,
    client: Asking,
    name: str,
    kind: str = "A",
    *,
    query: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Expect a client to get an answer with these fields of `Answer`; `query` are further arguments of `ask_dns`.

    `data` are compared without order; a set is one of values, each of which is right. Raises `AssertionError`.
    """
    either = {field: value for field, value in fields.items() if isinstance(value, AbstractSet)}

    def plain(field: str, value: Any) -> Any:
        if value == either.get(field) or value in either.get(field, ()):
            return " or ".join(sorted(either[field]))
        return sorted(value) if field == "data" else value

    def look() -> tuple[Object, int]:
        answer = ask_dns(cluster, client, name, kind, **(query or {}))
        return {field: plain(field, getattr(answer, field)) for field in fields}, answer.ttl

    what = f"answer to {kind} {name} with {dict(query)}" if query else f"answer to {kind} {name}"
    expected = {field: plain(field, value) for field, value in fields.items()}
    _expect_becomes(cluster, what, look, expected=expected)


def resolv_conf(cluster: Cluster) -> str:
    """Return the /etc/resolv.conf of a pod in the scenario's namespace, as kubelets write it (ClusterFirst)."""
    search = " ".join([f"{cluster.namespace}.svc.{ZONE}", f"svc.{ZONE}", ZONE])
    servers = "".join(f"nameserver {each}\n" for each in cluster.backend.part(ServesDns).dns().values())
    return f"{servers}search {search}\noptions ndots:5\n"


def locator_of(cluster: Cluster, pod: str) -> Object | None:
    """Return the PodLocator of a pod of the scenario; None if there is none."""
    try:
        return cluster.api.get("podlocators", cluster.namespace, pod)
    except RefusedError as error:
        if error.response.code == 404:
            return None
        raise


def expect_locators(cluster: Cluster, expected: Mapping[str, Object]) -> None:
    """Expect the scenario's PodLocators to become just these, by name, with these values of fields.

    `ips` are compared as plain addresses, sorted. Raises `AssertionError`.
    """
    cluster.backend.part(ServesDns).dns()
    fields = sorted({field for each in expected.values() for field in each})

    def look() -> dict[str, Object]:
        found = cluster.api.list("podlocators", cluster.namespace)
        return {each["metadata"]["name"]: _fields(each, fields) for each in found}

    wanted = {name: {field: each.get(field) for field in fields} for name, each in expected.items()}
    expect_becomes(cluster, f"PodLocators of pods {', '.join(expected) or '(none)'}", look, expected=wanted, stays=True)


def _fields(locator: Object, fields: Iterable[str]) -> Object:
    values = {
        "ips": sorted(each.get("ip", "") for each in locator.get("ips") or ()),
        "nodeName": locator.get("nodeName") or "",
        "nodeLabels": locator.get("nodeLabels") or {},
    }
    return {field: values[field] for field in fields}


def addresses_of(pods: Sequence[Pod]) -> list[str]:
    """Return all addresses of pods, sorted."""
    return sorted(address for pod in pods for address in pod.addresses.values())
