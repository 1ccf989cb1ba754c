"""The numbers of a scenario for the report: plans of probes, counts by window, measured values, the slowest change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.judging.history import Window
from harness.judging.history_format import counts
from harness.judging.results import CONVERGENCE
from harness.judging.verdict import Judgement, Verdict

if TYPE_CHECKING:  # which know what a cluster is
    from harness.scenario.paths import Path


class Findings:
    """The numbers of one scenario, in the order in which it found them."""

    def __init__(self) -> None:
        self._windows: list[tuple[str, Window, Sequence[Path]]] = []
        self._measured: dict[str, Mapping[str, float]] = {}
        self._slowest = 0.0

    def opened(self, title: str, window: Window, paths: Sequence[Path] = ()) -> None:
        """Take in a window along these paths, whose counts are those at the end."""
        self._windows.append((title, window, paths))

    def failed(self) -> Iterator[tuple[Window, Judgement, Sequence[Path]]]:
        """Yield the windows in which not all was as expected, in order, with their judgements and paths."""
        for _, window, paths in self._windows:
            judgement = window.judgement()
            if judgement.verdict is Verdict.FAILED:
                yield window, judgement, paths

    def measured(self, title: str, values: Mapping[str, float]) -> None:
        """Take in numbers beside the verdict on them."""
        self._measured[f"measured {len(self._measured) + 1}. {title}"] = dict(values)

    def took(self, seconds: float) -> None:
        """Take in how long something took to be as expected."""
        self._slowest = max(self._slowest, seconds)

    def as_json(self) -> dict[str, Any]:
        """Return the plan of the probes, the counts of each window, and the numbers; without any of them nothing."""
        measured: dict[str, Any] = dict(self._measured)
        if self._slowest:
            measured[CONVERGENCE] = {"slowestSeconds": round(self._slowest, 3)}
        if not self._windows:
            return {"observed": measured} if measured else {}
        plans = [each for _, window, _ in self._windows for each in window.plans.values()]
        largest = max(plans, key=lambda each: each.samples)
        weakest = min((each for each in plans if each.kind == largest.kind), key=lambda each: each.samples)
        check = {**largest.check(len(plans)), "smallestFault": weakest.smallest_fault}
        windows = {
            f"{number}. {title}": {client: counts(tally) for client, tally in window.tallies.items()}
            for number, (title, window, _) in enumerate(self._windows, 1)
        }
        return {"check": check, "observed": windows | measured}
