"""Asks a scenario's fixtures what they know, while they are still up.

Any fixture value may have these methods; none of them has to be there, and none may break the run:

    evidence() -> mapping of file name to text         after a failure: rules, slices, nodes, requests, logs
    judgement() -> {"check": …, "observed": …}         after every test: how it was judged, who reached whom
    environment() -> mapping                           once: versions, nodes, feature gates
    needs() -> mapping                                 after every test: what it needed of the cluster
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Gathered:
    """What the fixtures of one test said."""

    texts: dict[str, str] = field(default_factory=dict)
    check: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    needs: dict[str, Any] = field(default_factory=dict)


def gather(fixtures: Mapping[str, Any], *, evidence: bool, environment: bool = False) -> Gathered:
    """Ask every fixture value: evidence and environment only if they are wanted."""
    gathered = Gathered()
    for name, value in sorted(fixtures.items()):
        if isinstance(value, type) or name == "request":
            continue
        if evidence:
            gathered.texts |= {key: str(text) for key, text in _ask(value, "evidence", name, gathered).items()}
        judgement = _ask(value, "judgement", name, gathered)
        gathered.check |= judgement.get("check", {})
        gathered.observed |= judgement.get("observed", {})
        gathered.needs |= _ask(value, "needs", name, gathered)
        if environment:
            gathered.environment |= _ask(value, "environment", name, gathered)
    return gathered


def _ask(value: Any, method: str, fixture: str, gathered: Gathered) -> dict[str, Any]:
    asked = getattr(value, method, None)
    if not callable(asked):
        return {}
    try:
        return dict(asked())
    except Exception as error:  # noqa: BLE001  evidence must never replace the verdict
        gathered.texts[f"no-{method}-{fixture}.txt"] = f"could not be gathered: {type(error).__name__}: {error}"
        return {}
