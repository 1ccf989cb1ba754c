"""The timeline of steady traffic: each client has a lane with the answering pods, losses and gaps over time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.judging.story import Story, WindowStory
from harness.judging.timeline import Timed, lossy_gaps, said
from harness.judging.transitions import concerns
from harness.judging.verdict import is_wrong
from harness.model.outcomes import Reached, Refused, TimedOut, Unknown
from harness.model.times import milliseconds, since_start, whole

INTERVALS = 72
_EDGE = 1e-6  # tolerance as a fraction of an interval, for floats on its border
MOST_CHANGES = 40  # maximum number of changes that get a line of text

_NAMES = {TimedOut: "timed out", Refused: "refused", Unknown: "unknown"}


@dataclass(frozen=True, slots=True)
class Interval:
    """The answers in an interval: the worst kind of answer, the pod that answered most, and a text with all answers."""

    kind: str = ""  # "lost", "wrong", "right", or "" without an answer
    pod: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lane and the gaps of each client. `written` holds the numbers of the changes written in each interval.

    `took_up` holds the intervals in which all components finished processing the changes. `times` are the axis's ends,
    and `zero` is the event from which times count.
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


def timeline_of(story: Story, window: WindowStory) -> Timeline:
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


def _interval(samples: Sequence[Timed], window: WindowStory, client: str) -> Interval:
    if not samples:
        return Interval()
    answers = Counter(each.pod if isinstance(each, Reached) else _NAMES[type(each)] for _, each in samples)
    pods = Counter(each.pod for _, each in samples if isinstance(each, Reached))
    bad = {isinstance(each, Reached) for _, each in samples if is_wrong(each, window.expectation[client])}
    kind = "lost" if False in bad else "wrong" if bad else "right"
    text = ", ".join(f"{what} {number}\N{MULTIPLICATION SIGN}" for what, number in sorted(answers.items()))
    return Interval(kind, max(pods, key=lambda pod: (pods[pod], pod), default=""), text)
