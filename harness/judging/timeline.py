"""The timeline of a scenario: changes of the cluster, wrong observations, and the requests of steady traffic."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from harness.model.outcomes import Observation, Reached
from harness.model.times import milliseconds, since_start

HEAD = "Timeline, relative to the start of the scenario (each change at the time when it began):"

BEFORE = 10
AFTER = 5
"""The maximum numbers of changes to show before and after the first wrong observation."""

_LONGEST = 140  # maximum number of characters of a change

Timed = tuple[float, Observation]  # the time of a request (monotonic seconds), and its outcome


class Change(NamedTuple):
    """A change to the cluster: its time (monotonic seconds), its kind, and the changed objects."""

    at: float
    what: str
    facts: Mapping[str, Any]


class TimedObservation(NamedTuple):
    """An observation in words, with its time (monotonic seconds)."""

    at: float
    what: str


def as_text(changes: Iterable[Change], seen: Sequence[TimedObservation], *, zero: float) -> str:
    """Return changes since `zero` (monotonic s) and observations as text in order of time, or "" without changes."""
    mine = [each for each in changes if each.at >= zero and each.what != "measured"]
    first = min((each.at for each in seen), default=float("inf"))
    before = [each for each in mine if each.at <= first]
    after = [each for each in mine if each.at > first]
    shown = [*before[-BEFORE:], *after[:AFTER]]
    if not shown:
        return ""
    lines = [(each.at, said(each)) for each in shown] + [(each.at, f"→ {each.what}") for each in seen]
    lines.sort(key=lambda line: line[0])
    return "\n".join([HEAD, *(f"{since_start(at - zero):>12}  {text}" for at, text in lines)])


def said(change: Change) -> str:
    everywhere = change.facts.get("component", "proxy") != "proxy"  # one instance serves all nodes, unlike a proxy
    known = [(name, value) for name, value in change.facts.items() if value is not None]
    facts = ", ".join(_fact(name, value) for name, value in known if not (everywhere and name == "nodes"))
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
    hints = endpoint.get("hints") or {}
    kinds = (("zone", hints.get("forZones")), ("node", hints.get("forNodes")))
    hinted = [f"{kind} {'+'.join(each['name'] for each in names)}" for kind, names in kinds if names]
    conditions = endpoint.get("conditions") or {}
    unusual = ["not ready"] * (conditions.get("ready") is False) + ["terminating"] * bool(conditions.get("terminating"))
    return " ".join([endpoint["addresses"][0], *([f"for {' '.join(hinted)}"] if hinted else []), *unusual])


def longest_gap(samples: Sequence[Timed]) -> float:
    """Return the length in ms of the longest gap between answers that contains a lost request, or 0."""
    return milliseconds(max((after - before for before, after in lossy_gaps(samples)), default=0.0))


def lossy_gaps(samples: Sequence[Timed]) -> list[tuple[float, float]]:
    """Return the gaps between answers that contain a lost request. In other gaps, the client itself paused."""
    lost = [at for at, each in samples if not isinstance(each, Reached)]
    return [(begin, end) for begin, end in gaps(samples) if any(begin <= at <= end for at in lost)]


def gaps(samples: Sequence[Timed]) -> list[tuple[float, float]]:
    """Return each gap between answers (begin and end in monotonic s). The first and last request count as answers."""
    if not samples:
        return []
    answered = [at for at, observation in samples[1:-1] if isinstance(observation, Reached)]
    return list(pairwise([samples[0][0], *answered, samples[-1][0]]))
