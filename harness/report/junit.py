"""Write the JUnit XML of a run as a single file, in pytest's newest schema (xunit2).

The class name is the document and the name is the slug. Together they form the requirement's id. Requirements that
options excluded are omitted, as in the report.

JUnit has no warnings. A SHOULD or MAY that is not met is `skipped`, like an expected failure in pytest, so CI systems
show the test neither as passed nor as failed. The type of the element names the outcome.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from harness.judging.outcome import Outcome
from harness.judging.results import CaseResult, Result
from harness.model.escaping import for_terminal
from harness.report import causes
from harness.report.outcomes import SHOWN

# Characters that XML 1.0 does not allow, even if escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_xml(results: Sequence[Result], *, start: datetime.datetime, duration: float) -> bytes:
    headlines = causes.headlines(results)
    cases = [(result, case) for result in results if not result.left_out for case in result.cases]
    outcomes = [result.outcome_of(case) for result, case in cases]
    tags = Counter(SHOWN[outcome].junit for outcome in outcomes if outcome is not Outcome.MET)
    suites = ElementTree.Element("testsuites", name="trafficdist")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="trafficdist",
        errors=str(tags["error"]),
        failures=str(tags["failure"]),
        skipped=str(tags["skipped"]),
        tests=str(len(cases)),
        time=f"{duration:.3f}",
        timestamp=start.isoformat(),
    )
    for result, case in cases:
        _add(suite, result, case, headlines.get(result.requirement.id, ""))
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add(suite: ElementTree.Element, result: Result, case: CaseResult, cause: str) -> None:
    name = result.requirement.slug + (f"[{case.parameters}]" if case.parameters else "")
    element = ElementTree.SubElement(
        suite, "testcase", classname=result.requirement.document, name=_clean(name), time=f"{case.duration:.3f}"
    )
    outcome = result.outcome_of(case)
    if outcome is Outcome.MET:
        return
    detail = ElementTree.SubElement(element, SHOWN[outcome].junit)
    if SHOWN[outcome].junit_type:
        detail.set("type", SHOWN[outcome].junit_type)
    detail.set("message", _clean(result.message_of(case)))
    if outcome is not Outcome.NOT_RUN:
        about = f"{result.requirement.id}: {result.requirement.sentence}" + (f"\n\nCause: {cause}" if cause else "")
        detail.text = _clean(f"{about}\n\n{case.explanation}")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", for_terminal(text))
