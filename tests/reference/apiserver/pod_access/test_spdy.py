"""Frames of SPDY, written here as a client writes them."""

from __future__ import annotations

import struct
import zlib
from importlib.resources import files

import pytest

from reference.apiserver.pod_access.spdy import Away, Connection, Data, Opened, Ping, Reset

DICTIONARY = files("reference.apiserver.pod_access").joinpath("spdy.dictionary").read_bytes()


class Client:
    """The other side: its headers are one zlib stream."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, **headers: str) -> bytes:
        texts = [each.encode() for pair in headers.items() for each in pair]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(each)) + each for each in texts)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIH", stream, 0, 0) + packed)


def control(kind: int, payload: bytes, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, kind, len(payload)) + payload


def test_streams_are_opened_with_headers_compressed_together() -> None:
    client, server = Client(), Connection()
    sent = client.open(1, streamType="error", port="80") + client.open(3, streamType="data", port="80")
    assert list(server.receive(sent)) == [
        Opened(1, {"streamtype": "error", "port": "80"}, ended=False),
        Opened(3, {"streamtype": "data", "port": "80"}, ended=False),
    ]


def test_frames_come_in_whatever_pieces() -> None:
    server = Connection()
    sent = Connection.data(3, b"hello") + Connection.data(3, b"", end=True)
    found = [frame for index in range(len(sent)) for frame in server.receive(sent[index : index + 1])]
    assert found == [Data(3, b"hello", ended=False), Data(3, b"", ended=True)]


def test_other_frames_are_told_apart_and_settings_passed_over() -> None:
    ping = control(6, struct.pack(">I", 7))
    sent = control(3, struct.pack(">II", 3, 5)) + ping + control(4, bytes(4)) + control(7, bytes(8))
    assert list(Connection().receive(sent)) == [Reset(3), Ping(ping), Away()]


def test_stream_is_accepted_without_headers() -> None:
    frame = Connection().accept(5)
    assert struct.unpack(">HHI", frame[:8]) == (0x8003, 2, len(frame) - 8)
    assert struct.unpack(">I", frame[8:12]) == (5,)
    assert zlib.decompressobj(zdict=DICTIONARY).decompress(frame[12:]) == struct.pack(">I", 0)


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="not version 3"):
        list(Connection().receive(control(1, b"", version=2)))
