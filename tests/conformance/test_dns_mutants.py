"""Each mutant of a DNS server answers only the queries incorrectly that its description names.

Mutants and the reference receive the same queries. Each query has tags, and `DNS_SAID` names the tags of the queries
that a mutant answers incorrectly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from functools import cache
from itertools import product
from typing import Any

import dns.edns
import dns.message
import pytest

from mutants import MUTANTS, Mutant
from reference.client import Event, Object
from reference.features import Features
from tests.conformance.api_and_dns_requests import KEYS, REFERENCE, Answers, Where, has, judge, wrong_at
from tests.reference.dns.dns_cluster import HOST, ZONE, at, full

CLIENTS = {"10.1.0.1": "near", "10.1.0.2": "far", "10.1.0.9": "unknown client"}


def _found(name: str, **spec: Any) -> Event:
    full_spec = {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}], "clusterIP": "None", **spec}
    metadata = {"namespace": "default", "name": name, "uid": name}
    return Event("ADDED", "services", {"metadata": metadata, "spec": full_spec})


def _endpoints(service: str, *endpoints: Object, family: str = "IPv4") -> Event:
    metadata = {
        "namespace": "default",
        "name": f"{service}-{family.lower()}",
        "labels": {"kubernetes.io/service-name": service},
    }
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    return Event(
        "ADDED",
        "endpointslices",
        {"metadata": metadata, "addressType": family, "endpoints": list(endpoints), "ports": ports},
    )


def _located(pod: str, node: str, *ips: str) -> Event:
    said = {"ips": [{"ip": each} for each in ips], "nodeName": node, "nodeLabels": {HOST: node, ZONE: node[0]}}
    return Event("ADDED", "podlocators", {"metadata": {"namespace": "default", "name": pod}, **said})


AT_FIRST: Sequence[Event] = (
    _located("client-a", "a1", "10.1.0.1"),
    _located("client-b", "b1", "10.1.0.2"),
    _located("p1", "a1", "10.2.0.1", "fd00::1"),
    _located("p2", "b1", "10.2.0.2", "fd00::2"),
    *(
        each
        for name, keys in {
            "plain": [],
            "soft": [ZONE, "*"],
            "hard": [HOST],
            "two": [ZONE, HOST],
            "gone": [HOST],
            "far": [HOST, "*"],
        }.items()
        for each in (
            _found(name, **({"topologyKeys": keys} if keys else {}), ipFamilies=["IPv4", "IPv6"]),
            _endpoints(
                name,
                *([at("10.2.0.1", pod="p1", hostname="one")] if name not in {"gone", "far"} else []),
                at("10.2.0.2", pod="p2"),
                *([at("10.2.0.3", ready=False)] if name == "plain" else []),
            ),
            _endpoints(
                name,
                *([at("fd00::1", pod="p1")] if name not in {"gone", "far"} else []),
                at("fd00::2", pod="p2"),
                family="IPv6",
            ),
        )
    ),
    _found("empty"),
    _found("large"),
    _endpoints("large", *(at(f"10.3.{n >> 8}.{n & 255}") for n in range(1, 150))),
    _found("alias", type="ExternalName", clusterIP="", externalName="www.example.org"),
    _found("unnamed", clusterIP="10.96.0.2", clusterIPs=["10.96.0.2"], ports=[{"port": 80, "protocol": "TCP"}]),
    _found("cluster-ip", clusterIP="10.96.0.1", clusterIPs=["10.96.0.1"], topologyKeys=[HOST]),
)
CHANGES: Mapping[str, tuple[str, Sequence[Event]]] = {
    "keys of gone change": ("keys changed", (_found("gone", topologyKeys=["*"], ipFamilies=["IPv4", "IPv6"]),)),
    "endpoints of plain change": ("endpoints changed", (_endpoints("plain", at("10.2.0.2", pod="p2")),)),
    "the client moves": ("moved", (_located("client-a", "b1", "10.1.0.1"),)),
}
TAGS: Mapping[str, str] = {
    "plain": "unready, hostname",
    "soft": "keys, several keys, *, hostname",
    "far": "keys, several keys, *",
    "hard": "keys, hostname",
    "two": "keys, several keys, hostname",
    "gone": "keys, *, none near",
    "empty": "no endpoint",
    "large": "large",
    "cluster-ip": "",
    "absent": "no such name",
    "alias": "alias",
    "_80._tcp.unnamed": "unnamed",
    "one.plain": "hostname, of a hostname",
    "_http._tcp.plain": "unready, hostname",
    "_http._tcp.hard": "keys, hostname",
}

DNS_SAID: Mapping[str, Where] = {
    "dns-knows-places-of-ipv4": has("AAAA", "keys"),
    "dns-has-ports-of-everywhere": has("SRV", "keys"),
    "dns-keys-are-soft": has("keys"),
    "dns-looks-at-the-last-key": has("several keys"),
    "dns-unites-keys": has("several keys"),
    "dns-star-is-a-label": has("*"),
    "dns-prefers-zones-unasked": lambda tags: "keys" not in tags,
    "dns-hides-from-unknown-clients": has("unknown client"),
    "dns-keys-are-soft-for-ipv6": has("AAAA", "keys"),
    "dns-star-is-a-label-for-ipv6": has("AAAA", "*"),
    "dns-hides-ipv6-from-unknown-clients": has("AAAA", "unknown client"),
    "dns-has-one-family": has("AAAA"),
    "dns-knows-services-without-endpoints": has("no endpoint"),
    "dns-has-no-ports": has("SRV"),
    "dns-reads-keys-once": has("keys changed", "keys"),
    "dns-knows-places-once": has("moved", "keys"),
    "dns-knows-endpoints-once": has("endpoints changed"),
    "dns-tells-of-unready-endpoints": has("unready"),
    "dns-forgets-hostnames": has("hostname"),
    "dns-knows-every-name": has("NXDOMAIN"),
    "dns-denies-names-without-records": has("no records"),
    "dns-never-cuts": has("large", "over UDP"),
    "dns-cuts-over-tcp": has("large", "over TCP"),
    "dns-mistakes-the-case-of-names": has("capitals"),
    "dns-fails-at-cookies": has("cookie"),
    "dns-ignores-topology-keys": has("keys"),
    "dns-is-kept-for-a-day": has(),
    "dns-resolves-no-aliases": has("alias"),
    "dns-names-ports-by-their-numbers": has("unnamed", "SRV"),
}

DNS_OTHERWISE: Mapping[str, str] = {
    "dns-has-the-first-port-only": "these Services have one port",
    "dns-never-cuts-over-ipv6": "all of these clients have IPv4 addresses",
    "dns-needs-a-ready-condition": "all of these endpoints have a ready condition",
    "dns-ignores-topology-keys-over-tcp": "no query over TCP is about a Service with topology keys",
    "dns-knows-slices-since-its-start": "its thread reads the events, which these cases do not run",
    "dns-knows-clients-by-one-address": "each client of these queries has one address",
    "dns-keeps-the-first-addresses": "no PodLocator gets another address",
    "dns-misses-a-second-address": "no PodLocator gets another address",
    "dns-stops-at-a-missing-label": "the nodes of these clients have the labels of all keys",
    "dns-tells-clients-without-labels-of-all": "the nodes of these clients have labels",
    "dns-tells-no-version": "no query asks for the version",
    "dns-crashes-on-slices-of-names": "it exits in its thread, which these cases do not run",
    "dns-hangs-on-slices-of-names": "it hangs in its thread, which these cases do not run",
}
"""Mutants that answer all of these queries correctly, with reasons."""


def _dns_answers(mutant: Mutant) -> Answers:
    """Return the responses of one server at first, and after each change. Each change is undone before the next."""
    found: dict[tuple[str, frozenset[str]], object] = {}
    with closing(_MutantDns(mutant)) as server:
        for each in AT_FIRST:
            server.authority.apply(each)
        found |= _queries(server, "", set())  # now the server has answers that it may cache
        for change, (tag, events) in CHANGES.items():
            _modify(server, events)
            found |= _queries(server, change, {tag})
            changed = [_key(each) for each in events]
            _modify(server, [each for each in AT_FIRST if _key(each) in changed])
    return found


def _modify(server: _MutantDns, events: Sequence[Event]) -> None:
    for each in events:
        server.authority.apply(Event("MODIFIED", each.resource, each.object))


def _key(event: Event) -> tuple[str, str]:
    return event.resource, event.object["metadata"]["name"]


class _MutantDns:
    def __init__(self, mutant: Mutant) -> None:
        self._server = mutant.dns(None, features=Features(gates=KEYS)) if mutant is REFERENCE else mutant.dns(None)
        self.authority = self._server._authority

    def close(self) -> None:
        self._server.stop()


@cache
def _questions() -> list[tuple[str, str, str, str, bytes]]:
    """Return the name, the type, the client, the way and the bytes of each query. All mutants get the same queries."""
    found = []
    for name, kind, client in product(TAGS, ("A", "AAAA", "SRV"), CLIENTS):
        if name == "large" and (kind, client) != ("A", "10.1.0.1"):
            continue
        odd = name == "plain" and client == "10.1.0.1"
        for how in ("", "capitals", "cookie", "over TCP") if odd or name == "large" else ("",):
            query = dns.message.make_query(full(name.upper() if how == "capitals" else name), kind, id=7)
            if how == "cookie":
                cookie = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678")
                query.use_edns(0, payload=1232, options=[cookie])
            found.append((name, kind, client, how, query.to_wire()))
    return found


@cache
def _parsed(wire: bytes) -> tuple[int, list[str], int, list[str]]:
    """Return the code, the records, the flags and the additional records of a response."""
    answer = dns.message.from_wire(wire)
    records = sorted(f"{each.ttl} {one.to_text()}" for each in answer.answer for one in each)
    return answer.rcode(), records, int(answer.flags), sorted(str(each) for each in answer.additional)


def _queries(server: _MutantDns, change: str, more: AbstractSet[str]) -> dict[tuple[str, frozenset[str]], object]:
    found: dict[tuple[str, frozenset[str]], object] = {}
    for name, kind, client, how, query in _questions():
        wire = server.authority.answer(query, client, over_tcp=how == "over TCP")
        assert wire is not None
        code, records, flags, additional = _parsed(wire)
        tags = {*TAGS[name].split(", "), kind, CLIENTS[client], how, *more}
        tags |= set() if how == "over TCP" else {"over UDP"}
        tags |= {"NXDOMAIN"} if code == 3 else {"no records"} if not records else set()
        told = code, records if name != "large" else len(wire) > 512, flags, additional
        found[f"{change}: {kind} {name} from {client} {how}", frozenset(tags)] = told
    return found


@cache
def _right_of_dns() -> Answers:
    return _dns_answers(REFERENCE)


def _aligned(right: Answers, answers: Answers) -> Answers:
    """Return the same answers with the tags of the correct answers."""
    by_name = {name: answer for (name, _), answer in answers.items()}
    return {(name, tags): by_name[name] for name, tags in right}


@pytest.mark.parametrize("name", DNS_SAID)
def test_dns_mutant_is_wrong_where_its_case_says(name: str) -> None:
    right = _right_of_dns()
    judge(DNS_SAID[name], right, _aligned(right, _dns_answers(MUTANTS[name])))


@pytest.mark.parametrize("name", DNS_OTHERWISE)
def test_dns_server_is_right_in_all_queries(name: str) -> None:
    assert wrong_at(_right_of_dns(), _dns_answers(MUTANTS[name])) == []
