"""The labels of each outcome of a requirement, on the terminal and in all reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.judging.results import Outcome

Style = Literal["", "bold", "green", "red", "yellow", "faint"]


@dataclass(frozen=True, slots=True)
class OutcomeLabels:
    mark: str
    plain_mark: str  # used if the encoding lacks the mark
    style: Style
    column: str  # header of the outcome's column of numbers
    meaning: str  # label in the key of the marks
    statistic: str  # key of the number in the conformance report
    allure: str  # one of Allure's five statuses
    junit: str = "skipped"  # name of JUnit's element
    heading: str = ""  # label in lists of unmet requirements
    ids: str = ""  # key of the list of requirement ids in the conformance report
    always: bool = False  # whether the conformance report shows the number 0
    category: str = ""  # in Allure
    junit_type: str = ""  # type attribute of JUnit's element
    pytest: str = ""  # the category that pytest -v shows instead of pytest's own category


SHOWN: Mapping[Outcome, OutcomeLabels] = {
    Outcome.FAILURE: OutcomeLabels(
        "✗", "x", "red", "failed", "a MUST is not met", "Failed", "failed",
        ids="failedTests", always=True, heading="Not met", category="Requirement not met", junit="failure",
    ),
    Outcome.INCONCLUSIVE: OutcomeLabels(
        "?", "?", "yellow", "inconclusive", "inconclusive", "Inconclusive", "broken",
        ids="inconclusiveTests", heading="Inconclusive", category="Inconclusive", junit="error",
    ),
    Outcome.WARNING: OutcomeLabels(
        "!", "!", "yellow", "warnings", "a SHOULD is not met", "Warnings", "unknown",
        ids="warningTests", heading="Warnings: a SHOULD is not met or inconclusive", category="Warning: SHOULD not met",
        junit_type="trafficdist.warning", pytest="warned",
    ),
    Outcome.NOTE: OutcomeLabels(
        "i", "i", "", "notes", "a MAY is not met", "Notes", "unknown",
        ids="noteTests", heading="Notes: a MAY is not met or inconclusive", category="Note: MAY not met",
        junit_type="trafficdist.note", pytest="noted",
    ),
    Outcome.MET: OutcomeLabels("✓", "+", "green", "passed", "met", "Passed", "passed", always=True),
    Outcome.NOT_RUN: OutcomeLabels(
        "–", "-", "faint", "not run", "did not run", "Skipped", "skipped",  # noqa: RUF001
        ids="skippedTests", always=True, junit_type="pytest.skip",
    ),
}  # fmt: skip
"""The labels of each outcome, with the worst outcome first. Allure has no status for warnings, and shows "unknown"."""

UNMET = tuple(each for each in SHOWN if each not in (Outcome.MET, Outcome.NOT_RUN))

COLUMNS = (Outcome.MET, *UNMET, Outcome.NOT_RUN)  # outcomes in the order of the columns of counts

MARKS = {outcome: shown.mark for outcome, shown in SHOWN.items()}
PLAIN_MARKS = {outcome: shown.plain_mark for outcome, shown in SHOWN.items()}
