"""Whether a failure is a judgement on a fault: only then has a requirement found a mutant out."""

from __future__ import annotations

import re

SHORT = 0.3
"""The time scale for mutants: what they do wrong they do at once, and probes may take 0.27 s."""
DECLARED = 2.0
"""The seconds in which a mutant declares to take up changes."""
FAR = 6.0
"""The seconds for which what a mutant has to do is waited for."""

_SUBJECT = r"\b[abc][12]\b|\b(service|slices?|endpoints?|pods?|answer to|serving of|terminating of|metric|condition) \S"
_COMPONENT = r"^the (service-proxy|endpointslice-controller|pod-locator-controller|dns-server):"
_PREPARATION = re.compile(
    r"^wrong (first )?answer\b|^connection of |^server of the new connection of |^first server of the flow of |"
    r" became as expected within "
)
"""First lines of judgements on what a scenario begins with, and on how soon: no fault is about either."""


def is_about(text: str, symptom: str = "") -> bool:
    """Whether the first line of a failure says what is wrong, by this pattern, and with which client or object."""
    first = text.partition("\n")[0]
    if _PREPARATION.search(first):
        return False
    return all(re.search(pattern, first) for pattern in (symptom, f"{_SUBJECT}|{_COMPONENT}"))
