"""What was changed when, beside the first things that were seen to be wrong: their order explains much.

All times are of one clock, and from the beginning of the scenario, as those of its requests are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from harness.api.requests import milliseconds

HEAD = "What happened when, from the beginning of the scenario (a change at the moment in which it began):"

BEFORE = 10
AFTER = 5
"""So many changes are shown: the last before the first wrong thing, and the first after it."""

_LONGEST = 140  # letters of one change


class Change(NamedTuple):
    """Something that was done to the cluster: when (monotonic seconds), what, and to what."""

    at: float
    what: str
    facts: Mapping[str, Any]


class Seen(NamedTuple):
    """Something that was seen: when (monotonic seconds), and what it was in words."""

    at: float
    what: str


def as_text(changes: Iterable[Change], seen: Sequence[Seen], *, zero: float) -> str:
    """Changes since `zero` (monotonic seconds) and what was seen, in order; "" where nothing was changed."""
    mine = [each for each in changes if each.at >= zero and each.what != "measured"]
    first = min((each.at for each in seen), default=float("inf"))
    before = [each for each in mine if each.at <= first]
    after = [each for each in mine if each.at > first]
    shown = [*before[-BEFORE:], *after[:AFTER]]
    if not shown:
        return ""
    lines = [(each.at, _said(each)) for each in shown] + [(each.at, f"→ {each.what}") for each in seen]
    lines.sort(key=lambda line: line[0])
    return "\n".join([HEAD, *(f"{milliseconds(at - zero):>12}  {text}" for at, text in lines)])


def _said(change: Change) -> str:
    everywhere = change.facts.get("component", "proxy") != "proxy"  # it is one for all nodes
    told = [(name, value) for name, value in change.facts.items() if value is not None]
    facts = ", ".join(_fact(name, value) for name, value in told if not (everywhere and name == "nodes"))
    text = f"{change.what} {facts}".rstrip()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _fact(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if name == "endpoints":
        return f"{len(value)} endpoint{'s' * (len(value) != 1)}: {', '.join(map(_endpoint, value))}"
    if name == "nodes":
        return f"on {' '.join(map(str, value))}"
    return f"{name} {json.dumps(value, default=str)}"


def _endpoint(endpoint: Mapping[str, Any]) -> str:
    """Its address, what it is hinted for, and the conditions that are not those of a usable endpoint."""
    hints = endpoint.get("hints") or {}
    kinds = (("zone", hints.get("forZones")), ("node", hints.get("forNodes")))
    hinted = [f"{kind} {'+'.join(each['name'] for each in names)}" for kind, names in kinds if names]
    conditions = endpoint.get("conditions") or {}
    unusual = ["not ready"] * (conditions.get("ready") is False) + ["terminating"] * bool(conditions.get("terminating"))
    return " ".join([endpoint["addresses"][0], *([f"for {' '.join(hinted)}"] if hinted else []), *unusual])
