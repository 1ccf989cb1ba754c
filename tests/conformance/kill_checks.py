"""Check that a failure is a judgement about a fault: only then has a requirement killed a mutant."""

from __future__ import annotations

import re

SHORT = 0.3
"""The time scale for mutants: their faults show at once, and probes may take 0.27 s."""
DECLARED = 2.0
"""The seconds in which a mutant declares to take up changes."""
FAR = 6.0
"""Seconds to wait for a mutant's work."""

_SUBJECT = r"\b[abc][12]\b|\b(service|slices?|endpoints?|pods?|answer to|serving of|terminating of|metric|condition) \S"
_COMPONENT = r"^the (service-proxy|endpointslice-controller|pod-locator-controller|dns-server):"
_PREPARATION = re.compile(
    r"^wrong (first )?answer\b|^connection of |^server of the new connection of |^first server of the flow of |"
    r" became as expected within "
)
"""First lines of judgements about the preparation of a scenario, and about timing: no fault concerns either."""


def is_about(text: str, symptom: str = "") -> bool:
    """Whether the first line of a failure matches this pattern, and names the client or object."""
    first = text.partition("\n")[0]
    if _PREPARATION.search(first):
        return False
    return all(re.search(pattern, first) for pattern in (symptom, f"{_SUBJECT}|{_COMPONENT}"))
