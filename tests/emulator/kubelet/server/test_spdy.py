"""Frames of SPDY/3.1: what one side writes the other reads, however the bytes are cut; what is broken is refused."""

from __future__ import annotations

import zlib

import pytest

from emulator.kubelet.server.spdy import DICTIONARY, Data, Framing, GoAway, Opened, Ping, ProtocolError, Reset

HEADERS = {"streamtype": "data", "port": "8080", "requestid": "0"}


def test_the_dictionary_is_that_of_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_frames_are_read_as_they_were_written() -> None:
    here, there = Framing(), Framing()
    sent = [
        here.open(1, HEADERS),
        here.open(3, {"streamType": "error"}),
        here.data(1, b"GET /"),
        here.data(1, b"", last=True),
        here.reset(3),
        here.ping(7),
        here.go_away(0),
    ]
    assert there.receive(b"".join(sent)) == [
        Opened(1, HEADERS),
        Opened(3, {"streamtype": "error"}),
        Data(1, b"GET /"),
        Data(1, b"", last=True),
        Reset(3),
        Ping(7),
        GoAway(),
    ]


def test_frames_are_read_byte_by_byte() -> None:
    here, there = Framing(), Framing()
    sent = here.open(1, HEADERS) + here.data(1, b"x" * 300, last=True)
    found = [frame for index in range(len(sent)) for frame in there.receive(sent[index : index + 1])]
    assert found == [Opened(1, HEADERS), Data(1, b"x" * 300, last=True)]


def test_a_reply_says_nothing_but_is_decompressed_in_its_turn() -> None:
    here, there = Framing(), Framing()
    assert there.receive(here.reply(1) + here.open(2, HEADERS)) == [Opened(2, HEADERS)]


def test_settings_are_skipped() -> None:
    settings = bytes.fromhex("80030004 0000000c 00000001 00000004 00000064")
    assert Framing().receive(settings + Framing().ping(1)) == [Ping(1)]


@pytest.mark.parametrize(
    "broken",
    [
        "80020006 00000004 00000001",  # SPDY/2
        "80030001 0000000e 00000001 00000000 0000 deadbeef",  # headers that are not compressed
        "80030006 00000000",  # a ping without a number
    ],
)
def test_what_is_no_spdy_is_refused(broken: str) -> None:
    with pytest.raises(ProtocolError):
        Framing().receive(bytes.fromhex(broken))


def test_headers_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(ProtocolError, match="longer than"):
        Framing().receive(Framing().open(1, {"a": "x" * (1 << 21)}))
