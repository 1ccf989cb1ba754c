"""Contains the events of a scenario for reports. The events are read from the history and influence no verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.judging.statistics import SamplePlan
from harness.judging.timeline import Change, Timed
from harness.judging.verdict import Expectation, Judgement, Tally, Verdict

SETTLED = "all components have worked on what was written"
"""The text of a convergence record which states that every component has processed the changes."""


@dataclass(slots=True)
class WindowRecord:
    """A measuring window that began at `at` (monotonic seconds). `of` is the name of the Service that clients use, and
    the kind of address. If the window has steady traffic, `flows` maps each client to its requests.
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
class ComparedValues:
    what: str
    verdict: Verdict
    expected: Any = None
    observed: Any = None


@dataclass(slots=True)
class CaseEvents:
    """The events of one case, in order of time. `took_up` lists the times when all components had processed all
    changes. `begun` is the start of the scenario, or None if unknown.
    """

    changes: list[Change] = field(default_factory=list)
    took_up: list[float] = field(default_factory=list)
    windows: list[WindowRecord] = field(default_factory=list)
    compared: list[ComparedValues] = field(default_factory=list)
    begun: float | None = None

    def give_titles(self, observed: Mapping[str, object]) -> None:
        """Set the titles of windows. A key of `observed` is the number of a window, a period, a space and its title."""
        for title in observed:
            number, dot, text = title.partition(". ")
            if dot and number.isdecimal() and 1 <= int(number) <= len(self.windows):
                self.windows[int(number) - 1].title = text
