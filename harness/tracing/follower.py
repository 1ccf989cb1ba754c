"""Repeats a probe with the trace of a node on, until the same is seen again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace

from harness.model.outcomes import Observation
from harness.netns.namespace import Namespace
from harness.probes.probe import Probe
from harness.tracing.path import Followed
from harness.tracing.tracer import rules_in, tracing

MOST = 50
"""The most repeats of a probe."""

SECONDS = 0.8
"""For all of them."""

SILENCE = 0.2
"""Seconds without an answer after which a repeat counts as unanswered: what its packet did is known by then."""


def follow(
    probe: Probe, node: Namespace, ask: Callable[[Probe], Observation], is_same: Callable[[Observation], bool]
) -> Followed:
    """Repeat a probe until its outcome is the same again, `MOST` times or `SECONDS` at most; trace the last one.

    `node` is the netns whose rules the probe goes through, `ask` sends it. Raises `UnavailableError` where the kernel
    traces nothing.
    """
    short = replace(probe, timeout=min(probe.timeout, SILENCE))
    seen: list[Observation] = []
    until = time.monotonic() + SECONDS
    with tracing(node, probe.protocol, probe.address, probe.port) as tracer:
        while True:
            tracer.take()
            seen.append(ask(short))
            if is_same(seen[-1]) or len(seen) == MOST or time.monotonic() > until:
                break
        trace = tracer.take()
        with node.entered():
            links = dict(socket.if_nameindex())
        return Followed(seen, trace, rules_in(node), links)
