"""Repeats a probe with the trace of a node and a capture on, until the same is seen again."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from harness.errors import UnavailableError
from harness.eventually import time_scale
from harness.model.outcomes import Observation
from harness.netns import conntrack
from harness.netns.namespace import Namespace
from harness.probes.probe import Probe
from harness.tracing.capture import capturing
from harness.tracing.counters import counted, risen
from harness.tracing.path import Followed
from harness.tracing.tracer import Tracer, rules_in, tracing

MOST = 50
"""The most repeats of a probe."""

SECONDS = 0.8
"""For all of them."""

SILENCE = 0.2
"""Seconds, before the time scale, without an answer after which a repeat counts as unanswered.

What its packet did is known by then.
"""


def follow(
    probe: Probe,
    node: Namespace,
    places: Mapping[str, Namespace],
    *,
    ask: Callable[[Probe], Observation],
    is_same: Callable[[Observation], bool],
) -> Followed:
    """Repeat a probe until its outcome is the same again, `MOST` times or `SECONDS` at most; follow the last one.

    `node` is the netns whose rules the probe goes through, `places` those in which its packets are captured, by name;
    `ask` sends it. Where the kernel traces nothing, the capture is all.
    """
    short = replace(probe, timeout=min(probe.timeout, SILENCE * time_scale()))
    six = ":" in probe.address
    seen: list[Observation] = []
    until = time.monotonic() + SECONDS
    with contextlib.ExitStack() as watched:
        capture = watched.enter_context(capturing(places))
        tracer, missing = _tracer(watched, node, probe)
        while True:
            before = counted(node, six=six)
            capture.take()
            tracer.take()
            seen.append(ask(short))
            if is_same(seen[-1]) or len(seen) == MOST or time.monotonic() > until:
                break
        took = risen(before, counted(node, six=six)) if before else ()
        to = probe.address, probe.port
        found = Followed(
            seen, tracer.take(), rules_in(node), _links(node), capture.take(), took, missing=missing, to=to
        )
    return replace(found, connection=_connection(node, found))


def _tracer(watched: contextlib.ExitStack, node: Namespace, probe: Probe) -> tuple[Tracer, tuple[str, ...]]:
    """Return the trace of a node, or one without messages and what is missing."""
    try:
        return watched.enter_context(tracing(node, probe.protocol, probe.address, probe.port)), ()
    except UnavailableError as error:
        return Tracer(None), (str(error),)


def _links(node: Namespace) -> dict[int, str]:
    with node.entered():
        return dict(socket.if_nameindex())


def _connection(node: Namespace, found: Followed) -> str:
    """Return the node's entry of the connection, as `conntrack -L` prints it."""
    first = found.first
    if first is None:
        return ""
    source, destination = (first.source, first.source_port), (first.destination, first.destination_port)
    return conntrack.entry_of(node, first.protocol, source, destination)
