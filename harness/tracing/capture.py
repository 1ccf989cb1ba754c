"""Captures packets in several network namespaces (netns), and writes pcap files."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.netns.namespace import Namespace
from harness.tracing.packet import Frame, about, packet_of

_EVERYTHING = socket.htons(3)  # ETH_P_ALL
_TIMES, _LONGEST = 35, 1 << 16  # SO_TIMESTAMPNS
_OUTGOING = 4  # PACKET_OUTGOING
_TIMESPEC = struct.Struct("=qq")

_NANOSECONDS, _RAW_IP = 0xA1B23C4D, 101  # the magic number, and LINKTYPE_RAW, of pcap-savefile(5)


@contextlib.contextmanager
def capturing(places: Mapping[str, Namespace]) -> Iterator[Callable[[], list[Frame]]]:
    """Capture packets on all links of these netns until the block ends. Raises `OSError`.

    Yields a function that returns the IP packets captured since its last call, ordered by time.
    """
    with contextlib.ExitStack() as opened:
        sockets = {}
        for where, namespace in places.items():
            sock = opened.enter_context(
                namespace.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _EVERYTHING)
            )
            sock.setsockopt(socket.SOL_SOCKET, _TIMES, 1)
            sock.setblocking(False)
            sockets[where] = sock

        def take() -> list[Frame]:
            found = [frame for where, sock in sockets.items() for frame in _frames(where, sock)]
            return sorted(found, key=lambda each: each.at)

        yield take


def as_pcap(frames: Sequence[Frame]) -> bytes:
    """Return the frames as a pcap file of raw IP packets."""
    parts = [struct.pack("<IHHiIII", _NANOSECONDS, 2, 4, 0, 0, _LONGEST, _RAW_IP)]
    for each in frames:
        seconds, rest = divmod(each.at, 10**9)
        parts += (struct.pack("<IIII", seconds, rest, len(each.data), len(each.data)), each.data)
    return b"".join(parts)


def _frames(where: str, sock: socket.socket) -> Iterator[Frame]:
    with contextlib.suppress(BlockingIOError):
        while True:
            data, ancillary, _, (link, _, kind, *_) = sock.recvmsg(_LONGEST, 64)
            packet = packet_of(data)
            if packet is not None and ancillary:
                seconds, rest = _TIMESPEC.unpack_from(ancillary[0][2])
                at = seconds * 10**9 + rest
                yield Frame(at, where, link, kind == _OUTGOING, data, about(packet, data) or packet, packet)
