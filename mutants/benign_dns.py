"""Benign DNS servers: unusual, but correct."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from mutants.dns_servers import Find
from mutants.mutant import Mutant
from reference.dns import DnsServer
from reference.dns.authority import ZoneAuthority
from reference.dns.records import Records, Service, find
from reference.objects.topology_keys import ANY, Labels

KEPT = 2  # seconds

BENIGN: list[Mutant] = []


def _dns(name: str, sentence: str, family: str, **options: Any) -> None:
    BENIGN.append(Mutant(name, sentence, family, dns=partial(DnsServer, **options)))


def _finds(name: str, sentence: str, family: str) -> Callable[[Find], Find]:
    """Create a variant that returns different records for the names of Services."""

    def register(odd: Find) -> Find:
        _dns(name, sentence, family, authority=partial(ZoneAuthority, find=odd))
        return odd

    return register


@_finds("dns-denies-where-none-is-near", "A client gets NXDOMAIN if the topology keys select no endpoint for it.",
        "servers that answer as for a Service without endpoints (NXDOMAIN in the DNS specification)")  # fmt: skip
def _dns_denies_where_none_is_near(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    found = find(about, kind, service, client)
    addresses = [find(about, each, service, client) for each in ("A", "AAAA", "SRV")]
    return found if any(each and each.records for each in addresses) else None


@_finds("dns-hides-hard-keys-from-strangers", "The only key that clients without a PodLocator match is *.",
        "servers that treat a client with an unknown node like one on a node without labels")  # fmt: skip
def _dns_hides_hard_keys_from_strangers(
    about: Any, kind: str, service: Service, client: Labels | None
) -> Records | None:
    strangers: Labels | None = frozenset() if service.keys and service.keys[-1] != ANY else None
    return find(about, kind, service, strangers if client is None else client)


@_finds("dns-in-another-order", "Records come in reverse order.", "CoreDNS with loadbalance, which shuffles them")
def _dns_in_another_order(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    found = find(about, kind, service, client)
    return found and Records(found.records[::-1], found.additional[::-1])


@_finds("dns-says-no-more-than-asked", "SRV answers come without the addresses of their targets.",
        "servers with minimal answers; the specification allows an empty additional section")  # fmt: skip
def _dns_says_no_more_than_asked(about: Any, kind: str, service: Service, client: Labels | None) -> Records | None:
    found = find(about, kind, service, client)
    return found and Records(found.records)


class _CachingAuthority(ZoneAuthority):
    """Repeats an answer for the same client until its TTL expires."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._given: dict[tuple[bytes, str, bool], tuple[float, bytes]] = {}

    def answer(self, packet: bytes, client: str, *, over_tcp: bool = False) -> bytes | None:
        asked = packet[2:], client, over_tcp
        since, given = self._given.get(asked, (0.0, b""))
        if given and time.monotonic() - since < KEPT:
            return packet[:2] + given
        answer = super().answer(packet, client, over_tcp=over_tcp)
        if answer is not None:
            self._given[asked] = time.monotonic(), answer[2:]
        return answer


_dns("dns-keeps-answers", "The server caches answers for their TTL.", "CoreDNS with cache; node-local caches",
     ttl=KEPT, authority=_CachingAuthority)  # fmt: skip
_dns("dns-lives-for-half-a-minute", "Records have a TTL of 30 seconds.", "CoreDNS configured by kubeadm", ttl=30)
_dns("dns-is-never-kept", "Records have a TTL of 0.", "CoreDNS with ttl 0", ttl=0)
_dns("dns-cuts-early", "UDP answers are truncated to 512 bytes.", "CoreDNS with bufsize 512",
     authority=partial(ZoneAuthority, largest=512))  # fmt: skip
