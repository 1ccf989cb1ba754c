"""The story of a scenario from its history: changes, waits for components, windows, and steady traffic.

Reports show it. Verdicts follow from the judgements only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.judging.flow import Timed
from harness.judging.statistics import SamplePlan
from harness.judging.timeline import Change
from harness.judging.verdict import Expectation, Judgement, Tally, Verdict

SETTLED = "all components have worked on what was written"
"""What a history says when every component has taken up the changes."""


@dataclass(slots=True)
class WindowStory:
    """A measuring window that was opened at `at` (monotonic seconds); `of` as `Path.of` says.

    `flows` has the questions of steady traffic by client; a window of anything else has none.
    """

    at: float
    expectation: Expectation
    plans: Mapping[str, SamplePlan] = field(default_factory=dict)
    of: tuple[str, str] = ("", "")
    tallies: dict[str, Tally] = field(default_factory=dict)
    flows: dict[str, list[Timed]] = field(default_factory=dict)
    judgement: Judgement | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """An expected value and the one that was read, with the verdict."""

    what: str
    verdict: Verdict


@dataclass(slots=True)
class Story:
    """What happened in one case, by time (monotonic seconds); `took_up` are the ends of waits for components."""

    changes: list[Change] = field(default_factory=list)
    took_up: list[float] = field(default_factory=list)
    windows: list[WindowStory] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)

    def give_titles(self, observed: Mapping[str, object]) -> None:
        """Give the windows the titles that the numbers of the case have: "2. TCP to …" is that of the second one."""
        for title in observed:
            number, dot, text = title.partition(". ")
            if dot and number.isdecimal() and 1 <= int(number) <= len(self.windows):
                self.windows[int(number) - 1].title = text
