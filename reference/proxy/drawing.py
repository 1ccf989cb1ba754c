"""The chains that draw an endpoint: one for each number of endpoints, and for each time of session affinity with it.

Session affinity costs nothing where it is not asked for. Where it is, the kernel keeps the clients itself: the endpoint
that was drawn is put into map `affinity`, unless the client has one there, which then stays for longer; the connection
goes to whatever the map says after that. So two first packets at the same time agree. If the endpoint that a client has
is not found, because it has left, the client is forgotten and gets another one.
"""

from __future__ import annotations

from reference.proxy import expressions as nft
from reference.proxy.decision import Family
from reference.proxy.expressions import Verdict
from reference.proxy.ruleset import LOCAL_LIST, Bucket
from reference.proxy.skeleton import (
    FAMILY_WORD,
    Chain,
    Rule,
    address_length,
    frontend_registers,
    load_frontend,
    load_source,
    second_field,
)

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def bucket_chain(family: Family, mark: int) -> Chain:
    """The chain that draws one of a number of endpoints; `mark` leads to it."""
    bucket, drop = Bucket.of(mark), Rule("drop", nft.verdict(Verdict.DROP))
    draw, translate = _draw(bucket), _translate(family)
    if not bucket.seconds:
        return Chain(bucket_name(mark), (draw, translate, drop))
    kept = (draw, *_keep(family, bucket), translate)
    return Chain(bucket_name(mark), (*kept, _forget(family), *kept, drop))


def bucket_name(mark: int) -> str:
    """The name of the chain to which a mark leads."""
    count, first, seconds = Bucket.of(mark)
    if not count:
        return "refuse" if first else "discard"
    return (f"affinity-{count}-{seconds}" if seconds else f"lb-{count}") + ("-local" if first else "")


def _draw(bucket: Bucket) -> Rule:
    word = f"numgen random mod {bucket.endpoints}" + (f" offset {bucket.first}" if bucket.first else "")
    register = nft.FIRST_REGISTER
    return Rule(f"meta mark set {word}", nft.draw(bucket.endpoints, bucket.first, register) + nft.set_mark(register))


def _translate(family: Family) -> Rule:
    address = nft.FIRST_REGISTER
    return Rule(
        f"dnat {FAMILY_WORD[family]} to {_indexed(family)} map @endpoints",
        _load_indexed(family)
        + nft.lookup("endpoints", address, into=address)
        + nft.destination_nat(family, address, second_field(family)),
    )


def _keep(family: Family, bucket: Bucket) -> tuple[Rule, ...]:
    """From the index that was drawn to the identity of the endpoint that the client has, and to the list's own bit."""
    first, after = nft.FIRST_REGISTER, _after_client(family)
    word = f"| {LOCAL_LIST:#010x}" if bucket.first else f"& {0xFFFFFFFF & ~LOCAL_LIST:#010x}"
    client = _load_client(family)
    return (
        Rule(
            f"meta mark set {_indexed(family)} map @identities",
            _load_indexed(family) + nft.lookup("identities", first, into=first) + nft.set_mark(first),
        ),
        Rule(
            f"update @affinity {{ {_client(family)} timeout {_time(bucket.seconds)} : meta mark }}",
            client + nft.load_meta(nft.META_MARK, after) + nft.update("affinity", first, after, bucket.seconds),
        ),
        Rule(
            f"meta mark set {_client(family)} map @affinity",
            client + nft.lookup("affinity", first, into=first) + nft.set_mark(first),
        ),
        Rule(
            f"meta mark set meta mark {word}",
            nft.load_meta(nft.META_MARK, first) + nft.mask(first, ~LOCAL_LIST, flip=bucket.first) + nft.set_mark(first),
        ),
    )


def _forget(family: Family) -> Rule:
    first, after = nft.FIRST_REGISTER, _after_client(family)
    return Rule(
        f"delete @affinity {{ {_client(family)} : meta mark }}",
        _load_client(family) + nft.load_meta(nft.META_MARK, after) + nft.remove("affinity", first, after),
    )


def _indexed(family: Family) -> str:
    return f"{FAMILY_WORD[family]} daddr . meta l4proto . th dport . meta mark"


def _load_indexed(family: Family) -> bytes:
    """The key of maps `endpoints` and `identities`."""
    return load_frontend(family) + nft.load_meta(nft.META_MARK, frontend_registers(family)[3])


def _client(family: Family) -> str:
    ip = FAMILY_WORD[family]
    return f"{ip} saddr . {ip} daddr . meta l4proto . th dport"


def _load_client(family: Family) -> bytes:
    """The key of map `affinity`."""
    return load_source(family, nft.FIRST_REGISTER) + load_frontend(family, second_field(family))


def _after_client(family: Family) -> int:
    return frontend_registers(family)[3] + address_length(family) // 4


def _time(seconds: int) -> str:
    """As nft writes it: 1m30s."""
    words = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        words.append(f"{count}{unit}" if count else "")
    return "".join(words)
