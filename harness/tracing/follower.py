"""Repeat a probe with tracing and packet capture until it has the same outcome again."""

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
from harness.tracing.path import Followed
from harness.tracing.tracer import Take, rules_in, tracing

MOST = 50
"""The maximum number of repetitions of a probe."""

SECONDS = 0.8
"""The time limit for all repetitions."""

SILENCE = 0.2
"""The time limit of one repetition, before the time scale. By then, the packet has passed the rules."""


def follow(
    probe: Probe,
    node: Namespace,
    places: Mapping[str, Namespace],
    *,
    ask: Callable[[Probe], Observation],
    is_same: Callable[[Observation], bool],
) -> Followed:
    """Repeat a probe up to `MOST` times or for `SECONDS`, until its outcome is the same. Trace the last repetition.

    `node` is the netns of the traced rules. `places` maps names to the netns in which packets are captured. `ask` sends
    the probe. If the kernel cannot trace, the result has only the captured packets.
    """
    short = replace(probe, timeout=min(probe.timeout, SILENCE * time_scale()))
    seen: list[Observation] = []
    until = time.monotonic() + SECONDS
    with contextlib.ExitStack() as watched:
        captured = watched.enter_context(capturing(places))
        traced, missing = _tracer(watched, node, probe)
        while True:
            captured()
            traced()
            seen.append(ask(short))
            if is_same(seen[-1]) or len(seen) == MOST or time.monotonic() > until:
                break
        to = probe.address, probe.port
        with node.entered():
            links = dict(socket.if_nameindex())
        found = Followed(seen, traced(), rules_in(node), links, captured(), missing=missing, to=to)
    if (first := found.first) is None:
        return found
    source, destination = (first.source, first.source_port), (first.destination, first.destination_port)
    return replace(found, connection=conntrack.entry_of(node, first.protocol, source, destination))


def _tracer(watched: contextlib.ExitStack, node: Namespace, probe: Probe) -> tuple[Take, tuple[str, ...]]:
    """Return the tracer of a node. If the kernel cannot trace, return one without messages, and the reason."""
    try:
        return watched.enter_context(tracing(node, probe.protocol, probe.address, probe.port)), ()
    except UnavailableError as error:
        return list, (str(error),)
