"""Writes the JUnit XML of a run, in the newest schema that pytest knows (xunit2), one file for the whole run.

The class name is the document and the name the slug, so that both together are the requirement's id. As in the report,
requirements that options of the run left out are not in it: CI shows the selection.
"""

from __future__ import annotations

import datetime
import re
import socket
from collections.abc import Sequence
from xml.etree import ElementTree

from harness.judging.results import CaseResult, Result
from harness.judging.verdict import Verdict

# Characters that XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_xml(results: Sequence[Result], *, start: datetime.datetime, duration: float) -> bytes:
    """Return the whole file. `duration` is in seconds."""
    cases = [(result, case) for result in results if not result.left_out for case in result.cases]
    numbers = {verdict: sum(case.verdict == verdict for _, case in cases) for verdict in Verdict}
    suites = ElementTree.Element("testsuites", name="trafficdist")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="trafficdist",
        errors=str(numbers[Verdict.INCONCLUSIVE]),
        failures=str(numbers[Verdict.FAILED]),
        skipped=str(numbers[Verdict.SKIPPED]),
        tests=str(len(cases)),
        time=f"{duration:.3f}",
        timestamp=start.isoformat(),
        hostname=socket.gethostname(),
    )
    for result, case in cases:
        _add(suite, result, case)
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add(suite: ElementTree.Element, result: Result, case: CaseResult) -> None:
    name = result.requirement.slug + (f"[{case.parameters}]" if case.parameters else "")
    element = ElementTree.SubElement(
        suite, "testcase", classname=result.requirement.document, name=_clean(name), time=f"{case.duration:.3f}"
    )
    if case.verdict == Verdict.SKIPPED:
        ElementTree.SubElement(element, "skipped", type="pytest.skip", message=_clean(f"{case.reason}: {case.message}"))
    elif case.verdict != Verdict.PASSED:
        tag = "failure" if case.verdict == Verdict.FAILED else "error"
        detail = ElementTree.SubElement(element, tag, message=_clean(case.message))
        detail.text = _clean(f"{result.requirement.id}: {result.requirement.sentence}\n\n{case.explanation}")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
