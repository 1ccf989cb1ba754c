"""The details of one requirement on the page: its cases, and each case's measuring windows as diagrams."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.judging.case_events import CaseEvents, WindowRecord
from harness.judging.judge import Key
from harness.judging.results import CaseResult, Outcome, Result
from harness.judging.timeline import Change, Timed, lossy_gaps, said
from harness.judging.transitions import concerns
from harness.judging.verdict import GridRow, Verdict, grid, is_wrong
from harness.model.outcomes import Reached, Refused, TimedOut, Unknown
from harness.model.times import milliseconds, since_start, whole
from harness.report import reactions
from harness.report.page.cluster_map import TIMES, ClusterMap, map_of
from harness.variation.axes import when_it_fails

Nodes = Sequence[tuple[str, str]]  # pairs of a node's name and its zone

INTERVALS = 72
_EDGE = 1e-6  # tolerance as a fraction of an interval, for floats on its border
MOST_CHANGES = 40  # maximum number of changes that get a line of text

_NAMES = {TimedOut: "timed out", Refused: "refused", Unknown: "unknown"}


@dataclass(frozen=True, slots=True)
class Interval:
    """The answers in an interval: the worst kind of answer, the pod that answered most often, and a summary."""

    kind: str = ""  # "lost", "wrong", "right", or "" without an answer
    pod: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lane (answering pods) and the gaps of each client. `written` has the numbers of the changes in each interval.

    `took_up` contains the intervals in which all components finished processing the changes. `times` are the start and
    end of the time axis as text, relative to the event `zero`.
    """

    lanes: dict[str, list[Interval]]
    gaps: dict[str, list[str]]
    changes: list[str]
    more_changes: int
    written: list[list[int]]
    took_up: set[int]
    times: tuple[str, str]
    zero: str
    pods: list[str]


@dataclass(frozen=True, slots=True)
class WindowDetails:
    title: str
    met: bool
    judged: bool
    message: str
    columns: Sequence[str]
    rows: Sequence[GridRow]
    map: ClusterMap
    timeline: Timeline | None


@dataclass(frozen=True, slots=True)
class CaseDetails:
    """One case of a requirement. `why` is the explanation without the parts that the page shows separately."""

    result: CaseResult
    outcome: Outcome
    message: str
    why: str
    unmet: Sequence[WindowDetails]
    met: Sequence[WindowDetails]
    numbers: Sequence[tuple[str, Sequence[Sequence[Any]]]]
    when: str
    compared: Sequence[tuple[str, bool]]


def case_of(
    result: Result, case: CaseResult, stories: Mapping[Key, CaseEvents], numbers: reactions.Numbers, nodes: Nodes
) -> CaseDetails:
    key = (case.requirement, case.parameters)
    story = stories.get(key, CaseEvents())
    windows = [_window(story, each, nodes) for each in story.windows if each.plans]
    return CaseDetails(
        case,
        result.outcome_of(case),
        result.message_of(case),
        _why(case, story),
        sorted((each for each in windows if not each.met), key=lambda each: not each.judged),
        [each for each in windows if each.met],
        [(each["traffic"], reactions.rows(each)) for each in numbers.get(key, ())],
        when_it_fails(case.fails_with),
        [(each.what, each.verdict is Verdict.PASSED) for each in story.compared],
    )


def _why(case: CaseResult, story: CaseEvents) -> str:
    """Return the explanation without grids, messages and the command, which the page shows elsewhere."""
    text = without_command(case)
    for each in story.windows:
        if each.judgement and each.judgement.grid:
            grid_of_window = f"\n\n{each.title}:\n\n{each.judgement.grid}"
            text = text.replace(f"{each.judgement.message}{grid_of_window}", "").replace(grid_of_window, "")
    return text.strip().removeprefix(case.message).strip()


def without_command(case: CaseResult) -> str:
    return case.explanation.removesuffix(f"\n\nAgain:\n{case.rerun}")


def _window(story: CaseEvents, window: WindowRecord, nodes: Nodes) -> WindowDetails:
    columns, rows = grid(window.expectation, window.tallies, window.plans)
    others = dict.fromkeys(name for row in rows for name in row.cells if name not in columns)
    shown = [*columns, *(each for each in others if any(row.cells[each].count for row in rows))]
    judgement = window.judgement
    running = list(_running([each for each in story.changes if each.at <= window.at]))
    return WindowDetails(
        window.title,
        judgement is not None and judgement.verdict is Verdict.PASSED,
        judgement is not None,
        judgement.message if judgement else "not judged, because the scenario ended earlier",
        shown,
        rows,
        map_of(nodes, columns, rows, unrelated=running),
        timeline_of(story, window) if window.flows else None,
    )


def _running(changes: Sequence[Change]) -> Iterator[str]:
    running: dict[str, None] = {}
    for each in changes:
        if each.what == "run servers":
            running |= dict.fromkeys(str(each.facts.get("pods", "")).split())
        elif each.what in ("delete pod", "evict pod"):
            running.pop(str(each.facts.get("pod", "")), None)
    yield from running


def timeline_of(story: CaseEvents, window: WindowRecord) -> Timeline:
    times = [at for samples in window.flows.values() for at, _ in samples] or [0.0]
    begin, end = min(times), max(times)
    zero = begin if story.begun is None else story.begun

    def interval(at: float) -> int:
        return min(INTERVALS - 1, int((at - begin) / ((end - begin) or 1.0) * INTERVALS + _EDGE))

    lanes, gaps = {}, {}
    for client, samples in window.flows.items():
        parts: list[list[Timed]] = [[] for _ in range(INTERVALS)]
        for at, each in samples:
            parts[interval(at)].append((at, each))
        lanes[client] = [_interval(part, window, client) for part in parts]
        gaps[client] = [f"{whole(milliseconds(b - a))} ms from {since_start(a - zero)}" for a, b in lossy_gaps(samples)]
    changes = [each for each in story.changes if concerns(each, window.of[0]) and begin <= each.at <= end]
    written: list[list[int]] = [[] for _ in range(INTERVALS)]
    for number, change in enumerate(changes, start=1):
        written[interval(change.at)].append(number)
    seen = {each.pod for samples in window.flows.values() for _, each in samples if isinstance(each, Reached)}
    return Timeline(
        lanes,
        gaps,
        [f"{since_start(each.at - zero)}  {said(each)}" for each in changes[:MOST_CHANGES]],
        max(0, len(changes) - MOST_CHANGES),
        written,
        {interval(at) for at in story.took_up if changes and begin <= at <= end},
        (since_start(begin - zero), since_start(end - zero)),
        "the first request" if story.begun is None else "the start of the scenario",
        sorted(seen),
    )


def _interval(samples: Sequence[Timed], window: WindowRecord, client: str) -> Interval:
    if not samples:
        return Interval()
    answers = Counter(each.pod if isinstance(each, Reached) else _NAMES[type(each)] for _, each in samples)
    pods = Counter(each.pod for _, each in samples if isinstance(each, Reached))
    bad = {isinstance(each, Reached) for _, each in samples if is_wrong(each, window.expectation[client])}
    kind = "lost" if False in bad else "wrong" if bad else "right"
    text = ", ".join(f"{what} {number}{TIMES}" for what, number in sorted(answers.items()))
    return Interval(kind, max(pods, key=lambda pod: (pods[pod], pod), default=""), text)
