"""A SPDY connection reads split frames, answers pings, and refuses malformed frames."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Sequence

import pytest

from emulator.kubelet.server.spdy import DICTIONARY, SpdyConnection, SpdyStream

HEADERS = {"streamtype": "data", "port": "8080", "requestid": "0"}


class Wire:
    """Records the bytes in both directions."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.left = list(chunks)
        self.got = b""

    async def read(self) -> bytes:
        return self.left.pop(0) if self.left else b""

    async def write(self, data: bytes) -> None:
        self.got += data


class Client:
    """Builds the frames of a client; the headers of all frames share one compression context."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)

    def opening(self, stream: int, headers: dict[str, str], kind: int = 1) -> bytes:
        texts = [text.encode() for pair in headers.items() for text in pair]
        block = struct.pack("!I", len(headers)) + b"".join(struct.pack("!I", len(each)) + each for each in texts)
        packed = self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        head = struct.pack("!IIBB", stream, 0, 0, 0) if kind == 1 else struct.pack("!I", stream)
        return control(kind, head + packed)


def control(kind: int, payload: bytes) -> bytes:
    return struct.pack("!HHI", 0x8003, kind, len(payload)) + payload


def data(stream: int, text: bytes, *, last: bool = False) -> bytes:
    return struct.pack("!II", stream, last << 24 | len(text)) + text


def served(chunks: Sequence[bytes]) -> tuple[Wire, list[SpdyStream], list[bytes]]:
    """Serve these bytes. Return the wire, the opened streams, and the bytes of each stream."""

    async def serve() -> tuple[Wire, list[SpdyStream], list[bytes]]:
        connection = SpdyConnection(wire := Wire(chunks))
        await connection.serve()
        opened = []
        while (stream := await connection.accept()) is not None:
            opened.append(stream)
        texts = []
        for each in opened:
            parts = []
            while part := await each.read():
                parts.append(part)
            texts.append(b"".join(parts))
        return wire, opened, texts

    return asyncio.run(serve())


def test_compression_dictionary_is_that_of_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_frames_are_read_however_they_are_cut(size: int) -> None:
    client = Client()
    sent = b"".join(
        [
            client.opening(1, HEADERS),
            client.opening(3, {"streamType": "error"}),
            data(1, b"GET /"),
            data(1, b"x" * 300, last=True),
            control(3, struct.pack("!II", 3, 5)),
            control(6, struct.pack("!I", 7)),
            control(7, bytes(8)),
        ]
    )
    wire, opened, texts = served([sent[at : at + size] for at in range(0, len(sent), size)])
    assert [(each.number, each.headers) for each in opened] == [(1, HEADERS), (3, {"streamtype": "error"})]
    assert texts == [b"GET /" + b"x" * 300, b""]
    assert opened[1].ended
    assert wire.got.endswith(control(6, struct.pack("!I", 7))), "the server returns the client's ping"


def test_reply_headers_are_decompressed_in_order_and_ignored() -> None:
    client = Client()
    _, opened, _ = served([client.opening(1, {"a": "b"}, kind=2) + client.opening(2, HEADERS)])
    assert [(each.number, each.headers) for each in opened] == [(2, HEADERS)]


def test_settings_are_skipped() -> None:
    settings = bytes.fromhex("80030004 0000000c 00000001 00000004 00000064")
    assert served([settings + control(6, struct.pack("!I", 1))])[0].got == control(6, struct.pack("!I", 1))


@pytest.mark.parametrize(
    "broken",
    [
        "80020006 00000004 00000001",  # SPDY/2
        "80030001 0000000e 00000001 00000000 0000 deadbeef",  # uncompressed headers
        "80030006 00000003 000000",  # a ping with a truncated number
    ],
)
def test_invalid_spdy_ends_the_connection(broken: str) -> None:
    wire, opened, _ = served([bytes.fromhex(broken) + control(6, struct.pack("!I", 1))])
    assert (opened, wire.got) == ([], b"")


def test_oversized_headers_end_the_connection() -> None:
    assert served([Client().opening(1, {"a": "x" * (1 << 21)}) + control(6, struct.pack("!I", 1))])[0].got == b""
