"""The record of one scenario, with all its observations and measurements.

Expectations append to the record. The report uses its numbers, `recheck` its last observations, and `evidence` its
failed windows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.judging.history import Window
from harness.judging.history_format import counts
from harness.judging.results import CONVERGENCE
from harness.judging.verdict import Judgement, Verdict
from harness.scenario.paths import Path


@dataclass(frozen=True, slots=True)
class SeenValue:
    """A value that was right at time `at` (monotonic seconds), after these numbers of writes and changes."""

    at: float
    changes: tuple[int, int]
    value: Any
    look_again: Callable[[], Any]


@dataclass(slots=True)
class Record:
    test: str
    begun: float = field(default_factory=lambda: round(time.monotonic(), 6))
    answered: set[str] = field(default_factory=set)
    """Services that have answered a probe. For any other Service, a missing answer proves nothing."""
    pod_names: dict[str, str] = field(default_factory=dict)
    """The names of all pods that ran, including deleted pods, by address."""
    used: set[str] = field(default_factory=set)
    """The basic questions that the scenario rests on, such as "TCP node-port IPv4"."""
    sightings: dict[str, SeenValue] = field(default_factory=dict)
    """The last right value of each subject that the scenario has checked."""
    windows: list[tuple[str, Window, Sequence[Path]]] = field(default_factory=list)
    """The measuring windows with their titles and paths. The report shows the final counts."""
    measured: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """Numbers for the report."""
    slowest: float = 0.0
    """The longest time that a change took to become visible, in seconds."""

    @property
    def has_observed(self) -> bool:
        """True if the scenario has observed an answer or a right value."""
        return bool(self.answered or self.sightings)

    def failed_windows(self) -> Iterator[tuple[Window, Judgement, Sequence[Path]]]:
        """Yield the failed windows, in order, with their judgements and paths."""
        for _, window, paths in self.windows:
            judgement = window.judgement()
            if judgement.verdict is Verdict.FAILED:
                yield window, judgement, paths

    def as_json(self) -> dict[str, Any]:
        """Return the plan of the probes, the counts of each window, and the numbers. Empty entries are omitted."""
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
