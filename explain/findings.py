"""What was found of a Service: a cause, the sentence that it is told in, the nodes that it concerns, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.causes import Cause, causes

SHOWN = 6
"""So many names stand in a sentence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause as it was found, in a sentence with names and numbers; without `nodes` it concerns all."""

    cause: Cause
    says: str
    nodes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    remedy: str = ""


def found(
    cause: str, says: str, *, nodes: Sequence[str] = (), evidence: Sequence[str] = (), remedy: str = ""
) -> Finding:
    """Return a finding by the id of its cause."""
    return Finding(causes()[cause], says, tuple(nodes), tuple(evidence), remedy)


def many(number: int, thing: str, verbs: str = "") -> str:
    """Return "1 node", "2 nodes"; with verbs "runs/run" it is "1 node runs", "2 nodes run"."""
    one, _, several = verbs.partition("/")
    return f"{number} {thing}{'' if number == 1 else 's'} {one if number == 1 else several}".rstrip()


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return " ".join(names[:SHOWN]) + more
