"""Measures the effects of changes on steady traffic, for each client. The first window after a change, for the same
Service and kind of address, defines the expected state. Reaction times count from the start of the change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.judging.case_events import CaseEvents, WindowRecord
from harness.judging.timeline import Change, Timed, longest_gap
from harness.judging.verdict import Tally, pods_of
from harness.model.outcomes import Reached
from harness.model.times import milliseconds


@dataclass(frozen=True, slots=True)
class ExpectedChange:
    """A change, and the pods that may answer before and after it. `before` is None if unknown. After the change, no
    client may reach the pods in `former`. Times are monotonic seconds.
    """

    kind: str
    at: float
    until: float
    before: frozenset[str] | None
    after: frozenset[str]
    former: frozenset[str]


def transitions(story: CaseEvents) -> list[dict[str, Any]]:
    """Return the measurements for each window with steady traffic in a scenario, in the form of the report."""
    return [
        {"traffic": window.title, "clients": [_client(story, window, client) for client in window.flows]}
        for window in story.windows
        if window.flows
    ]


def _client(story: CaseEvents, window: WindowRecord, client: str) -> dict[str, Any]:
    samples = window.flows[client]
    tally = window.tallies[client]
    found = phases(story, window, client)
    lost = {"timedOut": tally.timed_out, "refused": tally.refused, "unknown": tally.unknown.total()}
    return {
        "client": client,
        "asked": len(samples),
        "longestGapMs": longest_gap(samples),
        "longestPauseMs": milliseconds(max((after[0] - before[0] for before, after in pairwise(samples)), default=0.0)),
        "lost": {name: number for name, number in lost.items() if number},
        "wrongSet": _unexpected_answers(samples, found, tally, pods_of(window.expectation[client])),
        "removedEndpoints": sum(each.pod in phase.former for phase in found for _, each in _answers(samples, phase)),
        "reactions": [reaction for phase in found if (reaction := _reaction(samples, phase))],
    }


def phases(story: CaseEvents, flow: WindowRecord, client: str) -> list[ExpectedChange]:
    """Return the changes during steady traffic that are followed by a window with an expectation for this client."""
    times = [at for at, _ in flow.flows[client]]
    if not times:
        return []
    stated = [each for each in story.windows if each.of == flow.of and client in each.expectation and not each.flows]
    changes = [each for each in story.changes if concerns(each, flow.of[0])]
    found: list[ExpectedChange] = []
    before: WindowRecord | None = None
    for window in stated:
        since = before.at if before else 0.0
        mine = [each for each in changes if max(since, times[0]) < each.at <= min(window.at, times[-1])]
        if mine:
            last = mine[-1]
            first = next(each for each in mine if kind_of(each) == kind_of(last))
            after = (each.at for each in changes if each.at > window.at)
            former = before.expectation.get(client) if before else None
            removed = _all_pods(before) - _all_pods(window) if before else frozenset[str]()
            known = None if former is None else pods_of(former)
            allowed = pods_of(window.expectation[client])
            found.append(ExpectedChange(kind_of(first), first.at, next(after, times[-1]), known, allowed, removed))
        before = window
    return found


def _all_pods(window: WindowRecord) -> frozenset[str]:
    return frozenset[str]().union(*map(pods_of, window.expectation.values()))


def concerns(change: Change, service: str) -> bool:
    """Return whether a change may affect a Service: it does not name another Service, and it is not a measurement."""
    # The name of a slice that a scenario writes consists of the Service, the content and the IP family.
    named = change.facts.get("service") or str(change.facts.get("slice") or "").rsplit("-", 2)[0]
    return bool(service == named) if named else change.what != "measured"


def kind_of(change: Change) -> str:
    """Return the kind of a change with its component, if any, as in "write slice" or "restart proxy"."""
    return f"{change.what} {change.facts.get('component') or ''}".rstrip()


def _reaction(samples: Sequence[Timed], phase: ExpectedChange) -> dict[str, Any]:
    """Return the reaction times, or {} if the change does not affect the client and all answers were correct."""
    mine = [each for each in samples if phase.at <= each[0] < phase.until]
    right = [isinstance(each, Reached) and each.pod in phase.after for _, each in mine]
    wrong = [number for number, each in enumerate(right) if not each]
    if not mine or (phase.before == phase.after and not wrong):
        return {}
    new = phase.after - (phase.before or frozenset())
    first = next((at for at, each in _answers(samples, phase) if each.pod in (new or phase.after)), None)
    found: dict[str, Any] = {"change": phase.kind}
    if first is not None:
        found["firstRightMs"] = milliseconds(first - phase.at)
    if not wrong:
        found["allRightMs"] = 0.0
    elif wrong[-1] + 1 < len(mine):
        found["allRightMs"] = milliseconds(mine[wrong[-1] + 1][0] - phase.at)
    return found


def reaction_ms(reaction: dict[str, Any]) -> float | None:
    """Return the time in ms until an expected pod answers and all answers are correct, or None if they never are."""
    if "firstRightMs" not in reaction or "allRightMs" not in reaction:
        return None
    return float(max(reaction["firstRightMs"], reaction["allRightMs"]))


def _answers(samples: Sequence[Timed], phase: ExpectedChange) -> Iterator[tuple[float, Reached]]:
    return ((at, each) for at, each in samples if phase.at <= at < phase.until and isinstance(each, Reached))


def _unexpected_answers(
    samples: Sequence[Timed], found: Sequence[ExpectedChange], tally: Tally, allowed: frozenset[str]
) -> int:
    """Count the answers from pods that may never answer, or that may answer neither before nor after a change."""
    never = sum(count for pod, count in tally.pods.items() if pod not in allowed)
    between = sum(
        each.pod in allowed and each.pod not in phase.before | phase.after
        for phase in found
        if phase.before is not None
        for _, each in _answers(samples, phase)
    )
    return never + between
