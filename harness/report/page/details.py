"""The details of one requirement on the page: its cases, and each case's observation windows as diagrams."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.judging.judge import Key
from harness.judging.results import CaseResult, Outcome, Result
from harness.judging.story import Story, WindowStory
from harness.judging.timeline import Change
from harness.judging.verdict import Row, Verdict, grid
from harness.report import reactions
from harness.report.page.cluster_map import ClusterMap, map_of
from harness.report.page.lanes import Timeline, timeline_of
from harness.variation.axes import when_it_fails

Nodes = Sequence[tuple[str, str]]  # zone of each node, by name


@dataclass(frozen=True, slots=True)
class Window:
    title: str
    met: bool
    judged: bool
    message: str
    columns: Sequence[str]
    rows: Sequence[Row]
    map: ClusterMap
    timeline: Timeline | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a requirement. `why` is the explanation without the parts that the page shows separately."""

    result: CaseResult
    outcome: Outcome
    message: str
    why: str
    unmet: Sequence[Window]
    met: Sequence[Window]
    numbers: Sequence[tuple[str, Sequence[Sequence[Any]]]]
    when: str
    compared: Sequence[tuple[str, bool]] = field(default_factory=tuple)


def cases(result: Result, stories: Mapping[Key, Story], numbers: reactions.Numbers, nodes: Nodes) -> list[Case]:
    return [case_of(result, each, stories, numbers, nodes) for each in result.cases]


def case_of(
    result: Result, case: CaseResult, stories: Mapping[Key, Story], numbers: reactions.Numbers, nodes: Nodes
) -> Case:
    key = (case.requirement, case.parameters)
    story = stories.get(key, Story())
    windows = [_window(story, each, nodes) for each in story.windows if each.plans]
    return Case(
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


def _why(case: CaseResult, story: Story) -> str:
    """Return the explanation without grids, messages and the command, which the page shows elsewhere."""
    text = without_command(case)
    for each in story.windows:
        if each.judgement and each.judgement.grid:
            grid_of_window = f"\n\n{each.title}:\n\n{each.judgement.grid}"
            text = text.replace(f"{each.judgement.message}{grid_of_window}", "").replace(grid_of_window, "")
    return text.strip().removeprefix(case.message).strip()


def without_command(case: CaseResult) -> str:
    return case.explanation.removesuffix(f"\n\nAgain:\n{case.rerun}")


def _window(story: Story, window: WindowStory, nodes: Nodes) -> Window:
    columns, rows = grid(window.expectation, window.tallies, window.plans)
    others = dict.fromkeys(name for row in rows for name in row.cells if name not in columns)
    shown = [*columns, *(each for each in others if any(row.cells[each].count for row in rows))]
    judgement = window.judgement
    running = list(_running([each for each in story.changes if each.at <= window.at]))
    return Window(
        window.title,
        judgement is not None and judgement.verdict is Verdict.PASSED,
        judgement is not None,
        judgement.message if judgement else "not judged, because the scenario ended earlier",
        shown,
        rows,
        map_of(nodes, columns, rows, beside=running),
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
