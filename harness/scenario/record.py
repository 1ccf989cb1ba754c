"""The record of one scenario, with all its observations and measurements. Expectations append to the record."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.judging import timeline
from harness.judging.conclusion import raise_for
from harness.judging.history import History, Window
from harness.judging.history_format import counts
from harness.judging.results import CONVERGENCE
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.timeline import TimedObservation
from harness.judging.verdict import Judgement, Verdict
from harness.model.evidence_text import bounded, paragraphs, with_names
from harness.scenario.paths import PacketPath

_LONGEST_VALUE = 300  # characters in a timeline; the message contains the whole value
_LONGEST_EXPLANATION = 20_000


@dataclass(frozen=True, slots=True)
class ObservedValue:
    """A value that was as expected at `at` (monotonic seconds). `changes` counts earlier API writes and changes."""

    at: float
    changes: tuple[int, int]
    value: Any
    look_again: Callable[[], Any]


@dataclass(slots=True)
class ScenarioRecord:
    test: str
    begun: float = field(default_factory=lambda: round(time.monotonic(), 6))
    answered: set[str] = field(default_factory=set)  # Services that have answered; silence of others proves nothing
    pod_names: dict[str, str] = field(default_factory=dict)  # names by address of all pods that ran, even if deleted
    used: set[str] = field(default_factory=set)  # basic checks that the scenario depends on: "TCP node-port IPv4"
    sightings: dict[str, ObservedValue] = field(default_factory=dict)  # last expected value of each checked subject
    windows: list[tuple[str, Window, Sequence[PacketPath]]] = field(default_factory=list)  # with titles and paths
    measured: dict[str, Mapping[str, float]] = field(default_factory=dict)
    slowest: float = 0.0  # longest time that a change took to become visible, in seconds

    @property
    def has_observed(self) -> bool:
        return bool(self.answered or self.sightings)

    def as_json(self) -> dict[str, Any]:
        """Return the plan of the probes, the counts of each window, and measured numbers. Empty entries are omitted."""
        measured: dict[str, Any] = dict(self.measured)
        if self.slowest:
            measured[CONVERGENCE] = {"slowestSeconds": round(self.slowest, 3)}
        if not self.windows:
            return {"observed": measured} if measured else {}
        plans = [each for _, window, _ in self.windows for each in window.plans.values()]
        largest = max(plans, key=lambda each: each.samples)
        weakest = min((each for each in plans if each.kind == largest.kind), key=lambda each: each.samples)
        check = {**largest.check(len(plans)), "smallestFault": weakest.smallest_fault}
        windows = {
            f"{number}. {title}": {client: counts(tally) for client, tally in window.tallies.items()}
            for number, (title, window, _) in enumerate(self.windows, 1)
        }
        return {"check": check, "observed": windows | measured}


class Observations:
    """Records the observations, measurements and comparisons of one scenario in the history, for its verdict."""

    history: History
    record: ScenarioRecord

    def took(self, what: str, seconds: float) -> None:
        """Record how long it took to reach an expected state. The report contains the longest time."""
        self.history.write("convergence", test=self.record.test, what=what, seconds=round(seconds, 3))
        self.record.slowest = max(self.record.slowest, seconds)

    def window(self, title: str, paths: Sequence[PacketPath], rates: Rates = DEFAULT_RATES) -> Window:
        """Open a measuring window for paths to one address of a Service. Every observation from now on counts."""
        expectation = {path.label: path.expected for path in paths}
        window = self.history.window(self.record.test, expectation, rates, of=paths[0].of if paths else ("", ""))
        self.record.windows.append((title, window, paths))
        return window

    def measured(self, title: str, values: Mapping[str, float]) -> None:
        self.history.change("measured", title=title, values=dict(values))
        self.record.measured[f"measured {len(self.record.measured) + 1}. {title}"] = dict(values)

    def expect_equal(
        self, what: str, *, expected: Any, observed: Any, explanation: str = "", unknown: str = ""
    ) -> None:
        """Compare two JSON values. Raises `AssertionError`, or `InconclusiveError` if `unknown` states a reason."""
        judgement = self.history.compare(self.record.test, what, expected=expected, observed=observed, unknown=unknown)
        self._raise_unless_passed(judgement, what, observed, explanation)

    def expect_within(
        self,
        what: str,
        fewest: float,
        most: float | None,
        *,
        observed: float | Mapping[str, float],
        explanation: str = "",
        unknown: str = "",
    ) -> None:
        """Expect a number, or each number of a mapping, to lie between two bounds. `None` means no upper bound.

        Raises `AssertionError`, or `InconclusiveError` if `unknown` is not empty.
        """
        judgement = self.history.compare(
            self.record.test, what, expected=[fewest, most], observed=observed, relation="within", unknown=unknown
        )
        self._raise_unless_passed(judgement, what, observed, explanation)

    def _raise_unless_passed(self, judgement: Judgement, what: str, observed: Any, explanation: str) -> None:
        if judgement.verdict is not Verdict.PASSED:
            seen = [TimedObservation(time.monotonic(), f"{what}: {observed!r}"[:_LONGEST_VALUE])]
            shown = bounded(explanation, _LONGEST_EXPLANATION)
            raise_for(judgement, paragraphs(judgement.message, shown, self.timeline(seen)))

    def judgement(self) -> dict[str, Any]:
        return self.record.as_json()

    def timeline(self, seen: Sequence[TimedObservation]) -> str:
        """Return the changes and these observations with their times, or "" if there are no changes."""
        return with_names(timeline.as_text(self.history.changes, seen, zero=self.record.begun), self.record.pod_names)
