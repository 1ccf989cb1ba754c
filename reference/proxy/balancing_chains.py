"""The chains that select an endpoint. There is one chain for each number of endpoints and each affinity timeout.

With session affinity, the kernel remembers clients in the map `affinity`. A rule adds the client and the selected
endpoint to the map, or renews the timeout of an existing element. The connection then goes to the endpoint in the map,
so that two concurrent first packets of a client go to the same endpoint. If this endpoint has left the Service, the
client is deleted from the map and gets a new endpoint.
"""

import ipaddress
from zlib import crc32

from reference.proxy import expressions as nft
from reference.proxy import uapi
from reference.proxy.base_rules import (
    FAMILY_WORD,
    Chain,
    Rule,
    address_length,
    after_service,
    load_service_address,
    load_source,
    second_field,
)
from reference.proxy.decision import Family
from reference.proxy.expressions import Verdict
from reference.proxy.ruleset import LOCAL_LIST, DecodedMark, SourceRanges

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def action_chain(family: Family, mark: int) -> Chain:
    """Return the chain that forwards packets with `mark`: it selects an endpoint and rewrites the destination."""
    parts, drop = DecodedMark.of(mark), Rule("drop", nft.verdict(Verdict.DROP))
    select, translate = _select(parts), _translate(family)
    if not parts.seconds:
        return Chain(chain_name(mark), (select, translate, drop))
    kept = (select, *_keep(family, parts), translate)
    return Chain(chain_name(mark), (*kept, _forget(family), *kept, drop))


def chain_name(mark: int) -> str:
    """Return the name of the chain that executes the action of a mark."""
    count, first, seconds = DecodedMark.of(mark)
    if not count:
        return "reject-chain" if first else "drop-chain"
    return (f"affinity-{count}-{seconds}" if seconds else f"lb-{count}") + ("-local" if first else "")


def ranges_chain(family: Family, ranges: SourceRanges) -> Chain:
    """Return the chain that drops packets from clients outside the CIDRs `ranges`."""
    rules = (_accept_from(family, each) for each in ranges)
    return Chain(ranges_name(ranges), (*rules, Rule("drop", nft.verdict(Verdict.DROP))))


def ranges_name(ranges: SourceRanges) -> str:
    """Return the name of the chain for the CIDRs `ranges`. All names have the same length."""
    return f"ranges-{crc32(' '.join(ranges).encode()):08x}"


def _accept_from(family: Family, cidr: str) -> Rule:
    network, register = ipaddress.ip_network(cidr), nft.FIRST_REGISTER
    accept = nft.verdict(Verdict.ACCEPT)
    if not network.prefixlen:
        return Rule("accept", accept)
    whole = network.prefixlen == network.max_prefixlen
    netmask = network.netmask.packed
    masked = b"" if whole else nft.mask_bytes(register, netmask, bytes(len(netmask)))
    matched = load_source(family, register) + masked + nft.compare(register, network.network_address.packed)
    what = str(network.network_address) if whole else cidr
    return Rule(f"{FAMILY_WORD[family]} saddr {what} accept", matched + accept)


def _select(mark: DecodedMark) -> Rule:
    offset, register = f" offset {mark.first}" if mark.first else "", nft.FIRST_REGISTER
    number = nft.random_number(mark.endpoints, mark.first, register)
    return Rule(f"meta mark set numgen random mod {mark.endpoints}{offset}", number + nft.set_mark(register))


def _translate(family: Family) -> Rule:
    address = nft.FIRST_REGISTER
    return Rule(
        f"dnat {FAMILY_WORD[family]} to {_indexed(family)} map @endpoints",
        _load_indexed(family)
        + nft.lookup("endpoints", address, into=address)
        + nft.destination_nat(family, address, second_field(family)),
    )


def _keep(family: Family, mark: DecodedMark) -> tuple[Rule, ...]:
    """Return rules that put the identity of the client's endpoint into the mark, with or without the bit LOCAL_LIST."""
    first, after = nft.FIRST_REGISTER, _after_client(family)
    word = f"| {LOCAL_LIST:#010x}" if mark.first else f"& {0xFFFFFFFF & ~LOCAL_LIST:#010x}"
    client = _load_client(family)
    return (
        Rule(
            f"meta mark set {_indexed(family)} map @identities",
            _load_indexed(family) + nft.lookup("identities", first, into=first) + nft.set_mark(first),
        ),
        Rule(
            f"update @affinity {{ {_client(family)} timeout {_time(mark.seconds)} : meta mark }}",
            client + nft.load_meta(uapi.NFT_META_MARK, after) + nft.update("affinity", first, after, mark.seconds),
        ),
        Rule(
            f"meta mark set {_client(family)} map @affinity",
            client + nft.lookup("affinity", first, into=first) + nft.set_mark(first),
        ),
        Rule(
            f"meta mark set meta mark {word}",
            nft.load_meta(uapi.NFT_META_MARK, first)
            + nft.mask(first, ~LOCAL_LIST, flip=mark.first)
            + nft.set_mark(first),
        ),
    )


def _forget(family: Family) -> Rule:
    first, after = nft.FIRST_REGISTER, _after_client(family)
    return Rule(
        f"delete @affinity {{ {_client(family)} : meta mark }}",
        _load_client(family) + nft.load_meta(uapi.NFT_META_MARK, after) + nft.remove("affinity", first, after),
    )


def _indexed(family: Family) -> str:
    return f"{FAMILY_WORD[family]} daddr . meta l4proto . th dport . meta mark"


def _load_indexed(family: Family) -> bytes:
    """Load the key of the maps `endpoints` and `identities`."""
    return load_service_address(family) + nft.load_meta(uapi.NFT_META_MARK, after_service(family))


def _client(family: Family) -> str:
    ip = FAMILY_WORD[family]
    return f"{ip} saddr . {ip} daddr . meta l4proto . th dport"


def _load_client(family: Family) -> bytes:
    """Load the key of the map `affinity`."""
    return load_source(family, nft.FIRST_REGISTER) + load_service_address(family, second_field(family))


def _after_client(family: Family) -> int:
    return after_service(family) + address_length(family) // 4


def _time(seconds: int) -> str:
    """Format a duration as nft does: 1m30s."""
    words = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        words.append(f"{count}{unit}" if count else "")
    return "".join(words)
