"""The server answers simple requests itself. For any other request it passes the connection to aiohttp."""

from __future__ import annotations

import pytest

from reference.apiserver.connection import MAX_BODY_BYTES, Connection, encode, parse
from reference.apiserver.handlers import Response
from reference.apiserver.http_request import HttpRequest
from tests.reference.apiserver.fake_transports import NextProtocol, RecordingTransport

GET = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n"


def connected(answered: list[HttpRequest], others: NextProtocol) -> tuple[Connection, RecordingTransport]:
    def answer(asked: HttpRequest) -> Response | None:
        answered.append(asked)
        return None if asked.streams else Response(200, b"{}")

    connection, transport = Connection(answer, others.make, set()), RecordingTransport()
    connection.connection_made(transport)
    return connection, transport


def receive(connection: Connection, data: bytes) -> None:
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


@pytest.mark.parametrize(
    "head",
    [
        b"HEAD /api HTTP/1.1\r\nHost: a",
        b"GET /api HTTP/1.0\r\nHost: a",
        b"GET /api/../x HTTP/1.1\r\nHost: a",
        b"GET /api?a=%20 HTTP/1.1\r\nHost: a",
        b"GET /api HTTP/1.1\r\nHost: a\r\nHost: b",
        b"GET /api HTTP/1.1\r\nHost: a\r\n folded",
        b"GET /api HTTP/1.1\r\nHost : a",
        b"GET /api HTTP/1.1\nHost: a",
        b"GET /api HTTP/1.1\r\nConnection: close",
        b"POST /api HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"POST /api HTTP/1.1\r\nExpect: 100-continue",
        b"POST /api HTTP/1.1\r\nContent-Length: -1",
        b"POST /api HTTP/1.1\r\nContent-Length: %d" % (MAX_BODY_BYTES + 1),
    ],
)
def test_unusual_requests_are_passed_to_aiohttp(head: bytes) -> None:
    assert parse(head) is None


def test_plain_request_uses_the_first_value_of_a_parameter() -> None:
    head = parse(b"PUT /a/b?x=1&x=2&y HTTP/1.1\r\nHost: a\r\nContent-Length:  3 ")
    assert head is not None
    asked = head.with_body(b"abcdef")
    assert (asked.method, asked.path, asked.raw_query, asked.body) == ("PUT", "/a/b", "x=1&x=2&y", b"abc")
    assert asked.query == {"x": "1", "y": ""}


def test_split_and_pipelined_requests_are_answered_in_order() -> None:
    answered: list[HttpRequest] = []
    connection, transport = connected(answered, NextProtocol())
    stream = GET + b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody" + GET
    for at in range(0, len(stream), 7):
        receive(connection, stream[at : at + 7])
    receive(connection, GET + GET)
    assert [each.body for each in answered] == [b"", b"body", b"", b"", b""]
    assert transport.written.count(b"HTTP/1.1 200 OK") == 5


def test_each_read_continues_after_the_previous_one() -> None:
    connection, _ = connected([], NextProtocol())
    buffer = connection.get_buffer(-1)
    buffer[:2][:] = b"ab"  # asyncio passes the records of one read as slices of the buffer
    assert bytes(buffer[:2]) == b"ab"


def test_watch_and_all_later_requests_are_passed_to_aiohttp() -> None:
    answered: list[HttpRequest] = []
    connection, transport = connected(answered, others := NextProtocol())
    watch = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n"
    receive(connection, GET + watch + GET)
    assert others.received == watch + GET
    assert transport.protocol is others.made
    assert transport.written.count(b"HTTP/1.1 200 OK") == 1


def test_no_request_is_processed_while_the_client_does_not_read() -> None:
    answered: list[HttpRequest] = []
    connection, transport = connected(answered, NextProtocol())
    connection.pause_writing()
    receive(connection, GET + GET)
    assert (answered, transport.reading) == ([], False)
    connection.resume_writing()
    assert (len(answered), transport.reading) == (2, True)


def test_an_answer_carries_its_warnings() -> None:
    encoded = encode(Response(201, b"{}", ('say "no"',)))
    head, _, body = encoded.partition(b"\r\n\r\n")
    assert b'Warning: 299 - "say \\"no\\""' in head
    assert (head.splitlines()[0], body) == (b"HTTP/1.1 201 Created", b"{}")


@pytest.mark.parametrize("text", ['unknown field "a\r\nSet-Cookie: b"', "a\x00", "\x7f"])
def test_warning_that_does_not_fit_a_header_is_omitted(text: str) -> None:
    assert encode(Response(201, b"{}", (text, "b"))) == encode(Response(201, b"{}", ("b",)))
