"""Parses DNS queries and encodes answers, with dnspython."""

import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA
import dns.renderer
import dns.rrset

SMALLEST_UDP = 512  # RFC 1035, 2.3.4: the limit for clients that specify no size
_HEADER = struct.Struct("!HHHHHH")
_QUESTION_END = 4  # type and class


@dataclass(frozen=True, slots=True)
class Query:
    """`head` is the header (without id) and the question, `tail` the EDNS record, `limit` the UDP limit in bytes."""

    name: dns.name.Name
    type: dns.rdatatype.RdataType
    head: bytes
    tail: bytes
    limit: int


@dataclass(frozen=True, slots=True)
class AnswerBody:
    """Encoded records. `size` is the size of each address record, or 0 if there are other answer records."""

    rcode: int = dns.rcode.NOERROR
    answers: bytes = b""
    count: int = 0
    size: int = 0
    authority: bytes = b""
    authorities: int = 0
    additional: bytes = b""
    additionals: int = 0


def read(packet: bytes, *, largest: int) -> Query | bytes | None:
    """Parse a packet. Return an error answer to an invalid or unsupported query, or None if the packet is not a query.

    `largest` is the maximum size in bytes of the UDP datagrams that this server sends and accepts.
    """
    if len(packet) < _HEADER.size or packet[2] & 0x80:  # two servers that answer answers would never stop
        return None
    try:
        query = dns.message.from_wire(packet, ignore_trailing=True)
    except dns.exception.DNSException:
        return _bare(packet, dns.rcode.FORMERR)
    if query.opcode() != dns.opcode.QUERY:
        return _bare(packet, dns.rcode.NOTIMP)
    if len(query.question) != 1:
        return _bare(packet, dns.rcode.FORMERR)
    answer = dns.message.make_response(query, our_payload=largest, pad=0)
    asked = query.question[0]
    if query.edns > 0:
        answer.set_rcode(dns.rcode.BADVERS)
    elif asked.rdclass not in {dns.rdataclass.IN, dns.rdataclass.ANY} or asked.rdtype in _TRANSFERS:
        answer.set_rcode(dns.rcode.REFUSED)
    wire = answer.to_wire()
    if answer.rcode() != dns.rcode.NOERROR:
        return wire
    end = _HEADER.size + len(asked.name.to_digestable()) + _QUESTION_END
    limit = min(max(query.payload, SMALLEST_UDP), largest) if query.edns >= 0 else SMALLEST_UDP
    return Query(asked.name, asked.rdtype, wire[2:end], wire[end:], limit)


_TRANSFERS = frozenset({dns.rdatatype.AXFR, dns.rdatatype.IXFR})


def refuse(query: Query) -> bytes:
    """Return the answer to a query for a name outside the zone (REFUSED), without the message id."""
    return _answer(query, AnswerBody(dns.rcode.REFUSED), authoritative=False)


def reply(query: Query, body: AnswerBody, *, over_tcp: bool) -> bytes:
    """Return the answer without its message id. If an answer record does not fit, omit it and set TC (RFC 2181, 9)."""
    limit = 65535 if over_tcp else query.limit
    needed = 2 + len(query.head) + len(query.tail) + len(body.authority)
    if needed + len(body.answers) + len(body.additional) <= limit:
        return _answer(query, body, additional=True)
    if needed + len(body.answers) <= limit:  # additional records may be left out without TC
        return _answer(query, body)
    return _answer(query, body, shown=(limit - needed) // body.size if body.size else 0)


def _answer(
    query: Query, body: AnswerBody, *, additional: bool = False, authoritative: bool = True, shown: int | None = None
) -> bytes:
    flags, questions, _, _, edns = struct.unpack_from("!HHHHH", query.head)
    flags |= body.rcode | (dns.flags.AA if authoritative else 0) | (0 if shown is None else dns.flags.TC)
    count = body.count if shown is None else shown
    additionals = body.additionals if additional else 0
    answers = body.answers if shown is None else b""
    if body.size and count:  # start at a random address, because clients use the first one
        begin = random.randrange(body.count) * body.size  # noqa: S311  for load balancing, not for security
        answers = (body.answers * 2)[begin : begin + count * body.size]
    head = struct.pack("!HHHHH", flags, questions, count, body.authorities, additionals + edns) + query.head[10:]
    return head + answers + body.authority + (body.additional if additional else b"") + query.tail


def write(
    name: dns.name.Name,
    kind: dns.rdatatype.RdataType,
    answers: Sequence[dns.rrset.RRset],
    *,
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR,
    authority: Iterable[dns.rrset.RRset] = (),
    additional: Iterable[dns.rrset.RRset] = (),
) -> AnswerBody:
    renderer = dns.renderer.Renderer(0)
    renderer.add_question(name, kind)
    ends = [renderer.output.tell()]
    for section, rrsets in ((1, answers), (2, authority), (3, additional)):
        for each in rrsets:
            renderer.add_rrset(section, each, want_shuffle=False)
        ends.append(renderer.output.tell())
    wire, counts = renderer.output.getvalue(), renderer.counts
    parts = [wire[begin:end] for begin, end in pairwise(ends)]
    return AnswerBody(rcode, parts[0], counts[1], 0, parts[1], counts[2], parts[2], counts[3])


def write_addresses(ips: Sequence[str], ttl: int) -> AnswerBody:
    """Encode address records for the queried name. All addresses must have the same IP family."""
    records = [_own_address(each, ttl) for each in ips]
    return AnswerBody(answers=b"".join(records), count=len(records), size=len(records[0]))


@lru_cache(maxsize=65536)
def _own_address(ip: str, ttl: int) -> bytes:
    """Encode an address record whose owner name is a pointer to the question, so that it is valid for any question."""
    name = dns.name.from_text("any")
    return write(name, dns.rdatatype.A, addresses(name, ttl, [ip])).answers


def addresses(name: dns.name.Name, ttl: int, ips: Iterable[str]) -> list[dns.rrset.RRset]:
    found: dict[dns.rdatatype.RdataType, list[dns.rdata.Rdata]] = {}
    for ip in ips:
        record = rdata(dns.rdtypes.IN.AAAA.AAAA if ":" in ip else dns.rdtypes.IN.A.A, ip)
        found.setdefault(record.rdtype, []).append(record)
    return [dns.rrset.from_rdata_list(name, ttl, each) for each in found.values()]


def rdata(kind: type[dns.rdata.Rdata], *fields: object) -> dns.rdata.Rdata:
    return kind(dns.rdataclass.IN, dns.rdatatype.from_text(kind.__name__), *fields)


def _bare(packet: bytes, rcode: int) -> bytes:
    """Return an error answer that consists only of a header, with the id, the opcode and the RD bit of the query."""
    number, flags = struct.unpack_from("!HH", packet)
    return _HEADER.pack(number, dns.flags.QR | (flags & (0x7800 | dns.flags.RD)) | rcode, 0, 0, 0, 0)
