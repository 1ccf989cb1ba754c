"""Parses the kernel's trace messages, one for each rule that a packet matches and for each end of a chain."""

import struct
from dataclasses import dataclass

from harness.netns.netlink import attributes
from harness.tracing.packet import Packet, packet_of

TRACE = 10 << 8 | 17  # NFT_MSG_TRACE of NFNL_SUBSYS_NFTABLES, the type of a trace message
NEW_RULE = 10 << 8 | 6  # NFT_MSG_NEWRULE of NFNL_SUBSYS_NFTABLES, the type of each reply to a request for rules
TRACE_TABLE = "trafficdist-trace"  # table of family inet that enables tracing

_TABLE, _CHAIN, _HANDLE, _TYPE, _VERDICT, _NETWORK, _TRANSPORT = 1, 2, 3, 4, 5, 8, 9
_IN, _OUT, _MARK, _POLICY = 10, 12, 14, 16
_ENDS = {1: "policy", 2: "return"}  # NFT_TRACETYPE_…
_FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}  # NFPROTO_…
_VERDICTS = {0: "drop", 1: "accept", 2: "stolen", 3: "queue", -1: "continue", -3: "jump", -4: "goto", -5: "return"}
_BITS = 0xFF  # NF_VERDICT_MASK; the other bits are a queue number or an error
_FAMILY_BYTES = 4  # struct nfgenmsg


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """The effect of one rule on the packet. At the end of a chain, `ends` is "return" or "policy", and `handle` is 0.

    `table` is family and name ("ip nat"). `verdict` is in nft syntax ("goto lb-2"). `into` and `out` are link indexes.
    """

    table: str
    chain: str
    verdict: str
    handle: int = 0
    ends: str = ""
    mark: int = 0
    packet: Packet | None = None
    into: int = 0
    out: int = 0


def traced(body: bytes) -> TraceEvent:
    found = dict(attributes(body[_FAMILY_BYTES:]))
    ends = _ENDS.get(_number(found, _TYPE), "")
    verdict = _VERDICTS.get(_number(found, _POLICY), "?") if ends == "policy" else _verdict(found.get(_VERDICT, b""))
    return TraceEvent(
        _table(body, found),
        _text(found, _CHAIN),
        verdict,
        _number(found, _HANDLE),
        ends,
        _number(found, _MARK),
        packet_of(found.get(_NETWORK, b""), found.get(_TRANSPORT, b"")),
        _number(found, _IN),
        _number(found, _OUT),
    )


def rule(body: bytes) -> tuple[str, str, int]:
    found = dict(attributes(body[_FAMILY_BYTES:]))
    return _table(body, found), _text(found, _CHAIN), _number(found, _HANDLE)


def _verdict(data: bytes) -> str:
    found = dict(attributes(data))
    code = struct.unpack(">i", found.get(1, bytes(4)))[0]
    word = _VERDICTS.get(code if code < 0 else code & _BITS, str(code))
    return f"{word} {_text(found, 2)}".rstrip()


def _table(body: bytes, found: dict[int, bytes]) -> str:
    return f"{_FAMILIES.get(body[0], str(body[0]))} {_text(found, _TABLE)}"


def _text(found: dict[int, bytes], kind: int) -> str:
    return found.get(kind, b"").rstrip(b"\0").decode("utf-8", "replace")


def _number(found: dict[int, bytes], kind: int) -> int:
    return int.from_bytes(found.get(kind, b""), "big")
