"""Repeat a probe, with tracing and packet capture, until it has the same outcome again. Write pcap files."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.errors import UnavailableError
from harness.eventually import time_scale
from harness.model.outcomes import Observation
from harness.netns import conntrack
from harness.netns.namespace import Namespace
from harness.probes.probe import Probe
from harness.tracing.packet import Frame, about, packet_of
from harness.tracing.path import TracedProbe
from harness.tracing.tracer import Take, rules_in, tracing

MOST = 50  # maximum number of repetitions of a probe
SECONDS = 0.8  # time limit for all repetitions, in seconds

SILENCE = 0.2
"""The time limit of one repetition in seconds (times the time scale). By then, the packet has passed the rules."""

_EVERYTHING = socket.htons(3)  # ETH_P_ALL
_TIMES, _LONGEST = 35, 1 << 16  # SO_TIMESTAMPNS
_OUTGOING = 4  # PACKET_OUTGOING
_TIMESPEC = struct.Struct("=qq")

_NANOSECONDS, _RAW_IP = 0xA1B23C4D, 101  # the magic number, and LINKTYPE_RAW, of pcap-savefile(5)


def follow(
    probe: Probe,
    node: Namespace,
    places: Mapping[str, Namespace],
    *,
    ask: Callable[[Probe], Observation],
    is_same: Callable[[Observation], bool],
) -> TracedProbe:
    """Repeat a probe with `ask` until `is_same` accepts its outcome, and trace that repetition in the netns `node`.

    `places` maps names to the netns in which packets are captured, even if the kernel cannot trace.
    """
    short = replace(probe, timeout=min(probe.timeout, SILENCE * time_scale()))
    seen: list[Observation] = []
    until = time.monotonic() + SECONDS
    missing: tuple[str, ...] = ()
    traced: Take = list
    with contextlib.ExitStack() as watched:
        captured = watched.enter_context(capturing(places))
        try:
            traced = watched.enter_context(tracing(node, probe.protocol, probe.address, probe.port))
        except UnavailableError as error:
            missing = (str(error),)
        while True:
            captured()
            traced()
            seen.append(ask(short))
            if is_same(seen[-1]) or len(seen) == MOST or time.monotonic() > until:
                break
        to = probe.address, probe.port
        with node.entered():
            links = dict(socket.if_nameindex())
        found = TracedProbe(seen, traced(), rules_in(node), links, captured(), missing=missing, to=to)
    if (first := found.first) is None:
        return found
    source, destination = (first.source, first.source_port), (first.destination, first.destination_port)
    return replace(found, connection=conntrack.entry_of(node, first.protocol, source, destination))


@contextlib.contextmanager
def capturing(places: Mapping[str, Namespace]) -> Iterator[Callable[[], list[Frame]]]:
    """Yield a function that returns the IP packets captured since its last call, sorted by time. Raises `OSError`."""
    with contextlib.ExitStack() as opened:
        sockets, kind = {}, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
        for where, namespace in places.items():
            sock = opened.enter_context(namespace.socket(socket.AF_PACKET, kind, _EVERYTHING))
            sock.setsockopt(socket.SOL_SOCKET, _TIMES, 1)
            sock.setblocking(False)
            sockets[where] = sock

        def take() -> list[Frame]:
            found = [frame for where, sock in sockets.items() for frame in _frames(where, sock)]
            return sorted(found, key=lambda each: each.at)

        yield take


def as_pcap(frames: Sequence[Frame]) -> bytes:
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
