"""Write the JUnit XML of a run as a single file, in pytest's latest schema (xunit2).

JUnit has no warnings, so a SHOULD or MAY that is not met is `skipped`. Many viewers hide the message of a skipped test,
so a property and the first line of `system-out` name the outcome too.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from harness.judging.results import CaseResult, Outcome, Result
from harness.model.escaping import for_terminal
from harness.model.times import thousandths
from harness.report import causes
from harness.report.causes import CommonCause
from harness.report.outcomes import SHOWN

# Characters that XML 1.0 does not allow, even if escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_xml(results: Sequence[Result], run: Mapping[str, Any], found: Sequence[CommonCause]) -> bytes:
    """Return the JUnit XML. `run` is the report's `run` block, with the times of the run and `junitWarnings`."""
    headlines = causes.headlines(found)
    cases = [(result, case) for result in results if not result.left_out for case in result.cases]
    outcomes = [result.outcome_of(case) for result, case in cases]
    warning = run.get("junitWarnings", SHOWN[Outcome.WARNING].junit)
    elements = {outcome: warning if outcome is Outcome.WARNING else SHOWN[outcome].junit for outcome in Outcome}
    tags = Counter(elements[outcome] for outcome in outcomes if outcome is not Outcome.MET)
    suites = ElementTree.Element("testsuites", name="trafficdist")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="trafficdist",
        errors=str(tags["error"]),
        failures=str(tags["failure"]),
        skipped=str(tags["skipped"]),
        tests=str(len(cases)),
        time=f"{run['durationSeconds']:.3f}",
        timestamp=run["startTime"],
    )
    for result, case in cases:
        _add(suite, result, case, elements, headlines.get(result.requirement.id, ""))
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add(
    suite: ElementTree.Element, result: Result, case: CaseResult, elements: Mapping[Outcome, str], cause: str
) -> None:
    name = result.requirement.slug + (f"[{case.parameters}]" if case.parameters else "")
    element = ElementTree.SubElement(
        suite,
        "testcase",
        classname=result.requirement.document,
        name=_clean(name),
        time=f"{thousandths(case.duration):.3f}",
    )
    outcome = result.outcome_of(case)
    if outcome is Outcome.MET:
        return
    text = ""
    if outcome is not Outcome.NOT_RUN:
        about = f"{result.requirement.id}: {result.requirement.sentence}" + (f"\n\nCause: {cause}" if cause else "")
        text = _clean(f"{about}\n\n{case.explanation}")
        properties = ElementTree.SubElement(element, "properties")
        for key, value in (("level", result.requirement.level), ("outcome", outcome)):
            ElementTree.SubElement(properties, "property", name=f"trafficdist.{key}", value=str(value))
    message = _clean(result.message_of(case))
    detail = ElementTree.SubElement(element, elements[outcome], message=message)
    detail.text = text or None
    if SHOWN[outcome].junit_type:
        detail.set("type", SHOWN[outcome].junit_type)
    if outcome in (Outcome.WARNING, Outcome.NOTE):
        ElementTree.SubElement(element, "system-out").text = f"{message}\n\n{text}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", for_terminal(text))
