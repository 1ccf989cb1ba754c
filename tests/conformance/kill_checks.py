"""Check that a failure reports a fault of the implementation. Only such a failure kills a mutant."""

from __future__ import annotations

import re

SHORT = 0.15
"""The time scale for mutants. Their faults are visible immediately, and probes may take 0.135 s."""
DECLARED = 2.0
"""The convergence time in seconds that mutants declare."""
FAR = 6.0
"""Seconds to wait for work of a mutant."""

_SUBJECT = r"\b[abc][12]\b|\b(service|slices?|endpoints?|pods?|answer to|serving of|terminating of|metric|condition) \S"
_COMPONENT = r"^the (service-proxy|endpointslice-controller|pod-locator-controller|dns-server):"
_PREPARATION = re.compile(
    r"^wrong (first )?answer\b|^connection of |^server of the new connection of |^first server of the flow of |"
    r" became as expected within "
)
"""First lines of failures that no mutant causes: failures in the preparation or the timing of a scenario."""


def is_about(text: str, symptom: str = "") -> bool:
    """Return whether the first line of a failure matches `symptom` and names a client, an object or a component."""
    first = text.partition("\n")[0]
    if _PREPARATION.search(first):
        return False
    return all(re.search(pattern, first) for pattern in (symptom, f"{_SUBJECT}|{_COMPONENT}"))
