"""What a scenario observes, measures and compares.

The history keeps it for the verdict, and the record for the report and for evidence.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from harness.judging import timeline
from harness.judging.conclusion import raise_for
from harness.judging.history import History, Window
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.timeline import Seen
from harness.judging.verdict import Judgement, Verdict
from harness.model.texts import bounded, paragraphs, with_names
from harness.scenario.paths import Path
from harness.scenario.record import Record

_LONGEST_VALUE = 300  # characters in a timeline; the message contains the whole value

_LONGEST_EXPLANATION = 20_000


class Observations:
    """The observations and judgements of one scenario."""

    history: History
    record: Record

    def took(self, what: str, seconds: float) -> None:
        """Record how long it took to reach an expected state. The report contains the longest time."""
        self.history.write("convergence", test=self.record.test, what=what, seconds=round(seconds, 3))
        self.record.slowest = max(self.record.slowest, seconds)

    def window(self, title: str, paths: Sequence[Path], rates: Rates = DEFAULT_RATES) -> Window:
        """Open a measuring window for these paths, which all lead to one address of a Service.

        From now on, every observation counts and is written to the history.
        """
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
        """Compare two JSON values, and record both. `unknown` is the reason if nothing could be observed.

        Raises `AssertionError`, or `InconclusiveError` if `unknown` is not empty.
        """
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
            seen = [Seen(time.monotonic(), f"{what}: {observed!r}"[:_LONGEST_VALUE])]
            shown = bounded(explanation, _LONGEST_EXPLANATION)
            raise_for(judgement, paragraphs(judgement.message, shown, self.timeline(seen)))

    def judgement(self) -> dict[str, Any]:
        """Return the plan of the probes, the counts of each measuring window, and the measured numbers."""
        return self.record.as_json()

    def timeline(self, seen: Sequence[Seen]) -> str:
        """Return the changes and these observations with their times, or "" if there are no changes."""
        return with_names(timeline.as_text(self.history.changes, seen, zero=self.record.begun), self.record.pod_names)
