"""Lay out the timeline of steady traffic. The lane of each client shows gaps, losses, and the answering pods over time.

The functions are pure and convert requests and changes to coordinates. The x axis is time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.api.requests import milliseconds
from harness.judging.flow import Timed
from harness.judging.story import Story, WindowStory
from harness.judging.timeline import said
from harness.judging.transitions import concerns, lossy_gaps
from harness.judging.verdict import is_wrong
from harness.model.outcomes import Reached

LEFT = 96.0
WIDTH = 860.0
"""The width of the time axis. The names of clients are on the left of the axis."""
TOP = 42.0
LANE = 46.0
BAND, HEIGHT = 12.0, 20.0
"""The y coordinate and the height of the answers in a lane."""
BINS = 86
_EDGE = 1e-6  # tolerance as a fraction of a bin, for floats on the border of the bin
MOST_CHANGES = 40
"""The maximum number of changes with a number and a line of text."""


@dataclass(frozen=True, slots=True)
class Share:
    """A pod's share of the answers in a short time. `number` is the pod's number. `top` and `height` are fractions."""

    number: int
    x: float
    top: float
    height: float


@dataclass(frozen=True, slots=True)
class Gap:
    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane of a client: answers over time, gaps, and the x coordinates of lost or wrong requests."""

    client: str
    y: float
    shares: tuple[Share, ...]
    gaps: tuple[Gap, ...]
    lost: tuple[float, ...]
    wrong: tuple[float, ...]


def ribbon(lane: Lane, number: int) -> str:
    """Return the SVG path of all answers from one pod in a lane."""
    y, width = lane.y + BAND, WIDTH / BINS
    mine = (each for each in lane.shares if each.number == number)
    return "".join(
        f"M{each.x:g} {y + HEIGHT * each.top:.1f}h{width:g}v{HEIGHT * each.height:.1f}h-{width:g}z" for each in mine
    )


def losses(lane: Lane) -> str:
    """Return the SVG path of all lost requests, with a vertical line for each."""
    return "".join(f"M{x:g} {lane.y + BAND + 2:.0f}v{HEIGHT - 4:.0f}" for x in lane.lost)


@dataclass(frozen=True, slots=True)
class Mark:
    """A change, positioned at the start of its write. `number` is 0 for a change without a line of text."""

    number: int
    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture. `took_up` holds the x coordinates at which all components had processed the changes."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    changes: tuple[Mark, ...]
    took_up: tuple[float, ...]
    ticks: tuple[tuple[float, str], ...]
    pods: tuple[str, ...]


def lay_out(story: Story, window: WindowStory) -> Timeline:
    times = [at for samples in window.flows.values() for at, _ in samples]
    begin, end = (min(times), max(times)) if times else (0.0, 0.0)
    scale = WIDTH / ((end - begin) or 1.0)

    def x(at: float) -> float:
        return round(LEFT + (at - begin) * scale, 1)

    seen = {each.pod for samples in window.flows.values() for _, each in samples if isinstance(each, Reached)}
    pods = tuple(sorted(seen))
    mine = [each for each in story.changes if concerns(each, window.of[0]) and begin <= each.at <= end]
    changes = [
        Mark(number if number <= MOST_CHANGES else 0, x(each.at), f"{milliseconds(each.at - begin)}  {said(each)}")
        for number, each in enumerate(mine, start=1)
    ]
    lanes = []
    for number, (client, samples) in enumerate(window.flows.items()):
        bad = [(at, each) for at, each in samples if is_wrong(each, window.expectation[client])]
        lanes.append(
            Lane(
                client,
                TOP + number * LANE,
                tuple(_shares(samples, pods, begin, end)),
                tuple(_gap(x(a), x(b), (b - a) * 1000) for a, b in lossy_gaps(samples)),
                tuple(x(at) for at, each in bad if not isinstance(each, Reached)),
                tuple(x(at) for at, each in bad if isinstance(each, Reached)),
            )
        )
    ticks = [(x(begin + part * (end - begin) / 4), milliseconds(part * (end - begin) / 4)) for part in range(5)]
    took_up = tuple(x(at) for at in story.took_up if begin <= at <= end) if changes else ()
    height = TOP + len(lanes) * LANE + 26
    return Timeline(LEFT + WIDTH + 44, height, tuple(lanes), tuple(changes), took_up, tuple(ticks), pods)


def _gap(left: float, right: float, ms: float) -> Gap:
    return Gap(left, max(1.0, round(right - left, 1)), f"{ms:,.0f} ms")


def _shares(samples: Sequence[Timed], pods: Sequence[str], begin: float, end: float) -> list[Share]:
    """Return each pod's share of the answers in each of `BINS` intervals."""
    whole = (end - begin) or 1.0
    answers: dict[int, list[str]] = {}
    for at, each in samples:
        if isinstance(each, Reached):
            number = min(BINS - 1, int((at - begin) / whole * BINS + _EDGE))
            answers.setdefault(number, []).append(each.pod)
    found = []
    for number, mine in sorted(answers.items()):
        top = 0.0
        for index, pod in enumerate(pods):
            if height := mine.count(pod) / len(mine):
                found.append(Share(index, round(LEFT + number * WIDTH / BINS, 1), round(top, 3), round(height, 3)))
                top += height
    return found
