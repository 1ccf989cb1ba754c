"""Create the HTML page of a run. Collapsed parts are compressed, and the browser decompresses them."""

import base64
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from harness.judging.exit_codes import ExitCode, exit_code
from harness.judging.judge import JudgedRun
from harness.judging.results import DECISIVE, Outcome, Result, count, situation
from harness.judging.verdict import Verdict
from harness.model.times import brief, whole
from harness.model.verdict_basis import mark
from harness.report import reactions
from harness.report.allure import link
from harness.report.causes import CommonCause
from harness.report.comparison import judged_by
from harness.report.outcomes import COLUMNS, MARKS, SHOWN, UNMET
from harness.report.page import details
from harness.report.summary import conclusion
from harness.report.template import environment, file, style

_PACKAGE = "harness.report.page"

MOST_OPEN = 40
"""The maximum number of initially expanded failures. Other failures are collapsed, like passed requirements."""

MOST_EVIDENCE = 60_000
MOST_EVIDENCE_OF_ALL = 6_000_000
"""The limits of one evidence file and of all evidence in the page, in characters. The run's folder has all evidence."""

MOST_NAMED = 12
"""The maximum number of requirements that the page names for each cause, or lists as inconclusive."""


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A requirement in the list on the page, with its details, which are compressed if collapsed."""

    result: Result
    mark: str
    url: str
    open: bool
    body: Markup
    packed: str


@dataclass(frozen=True, slots=True)
class CaseMatrix:
    """A table of requirements that have the same cases. Rows are requirements, and columns are parameters."""

    document: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Result, tuple[str, ...]], ...]


def as_html(
    report: Mapping[str, Any],
    results: Sequence[Result],
    judged: JudgedRun,
    numbers: reactions.Numbers,
    *,
    found: Sequence[CommonCause],
    read: Callable[[str], str | None],
) -> str:
    """Return the page as HTML. `read` returns the text of an evidence file by its path in the run's folder, or None."""
    chosen = [each for each in results if not each.left_out]
    chosen.sort(key=lambda each: (list(SHOWN).index(each.outcome), each.requirement.id))
    nodes = [(each["name"], each["zone"]) for each in report["environment"]["nodes"]]
    engine = environment(_PACKAGE)
    engine.filters["packed"] = _packed
    engine.filters |= {"brief": brief, "whole": lambda cell: whole(cell) if isinstance(cell, float) else cell}
    engine.tests |= {"of_a_packet": _is_path}
    script = file(_PACKAGE, "page.js")
    left = MOST_EVIDENCE_OF_ALL
    bodies = engine.get_template("details.html.j2")
    entries = []
    for number, result in enumerate(chosen):
        decides = result.outcome in UNMET and number < MOST_OPEN
        cases = [details.case_of(result, each, judged.stories, numbers, nodes) for each in result.cases]
        evidence = _evidence(result, read, left)
        left -= sum(len(text) for _, text in evidence)
        body = bodies.render(result=result, cases=cases, evidence=evidence, columns=reactions.COLUMNS)
        entries.append(
            ListEntry(
                result,
                MARKS[result.outcome],
                link(result.requirement),
                decides and result.outcome in DECISIVE,
                Markup(body) if decides else Markup(""),  # noqa: S704  the template has escaped the content
                "" if decides else _packed(body),
            )
        )
    code = code_of(results, report)
    said = conclusion(results, code, "", report["run"].get("certifiableReasons", ()), found)
    return engine.get_template("page.html.j2").render(
        report=report,
        judges=judged_by(report),
        by=mark(judged_by(report)),
        entries=entries,
        profiles=_counted(
            chosen, lambda each: f"{each.requirement.profile} {'core' if each.requirement.core else 'extended'}"
        ),
        documents=_counted(chosen, lambda each: each.requirement.document),
        columns={outcome: SHOWN[outcome].column for outcome in COLUMNS},
        marks=MARKS,
        counts=count(chosen),
        conclusion=[each.text for each in said],
        causes=found,
        passed=code == ExitCode.PASSED,
        unmet=[each for each in chosen if each.outcome in UNMET and each.verdict is not Verdict.FAILED],
        most_named=MOST_NAMED,
        matrices=matrices(chosen),
        style=style(),
        script=Markup(script),  # noqa: S704  a file of this package
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def code_of(results: Sequence[Result], report: Mapping[str, Any]) -> ExitCode:
    strict = bool({"--warnings-as-errors", "--td-warnings-as-errors"} & set(report["run"].get("arguments", ())))
    distrusted = any("does not trust itself" in each for each in report["run"].get("certifiableReasons", ()))
    return exit_code(replace(situation(results, strict=strict), distrust=distrusted))


def _counted(results: Iterable[Result], key: Callable[[Result], str]) -> list[tuple[str, dict[Outcome, int]]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for each in results:
        groups[key(each)].append(each)
    return [(name, count(groups[name])) for name in sorted(groups)]


def matrices(results: Iterable[Result]) -> list[CaseMatrix]:
    """Return the matrices of version skew. Each matrix has several requirements of one document with the same cases."""
    groups: dict[tuple[str, tuple[str, ...]], list[Result]] = defaultdict(list)
    for each in results:
        if any("Skew" in feature.name for feature in each.requirement.features) and each.parametrized:
            groups[each.requirement.document, tuple(case.parameters for case in each.cases)].append(each)
    return [
        CaseMatrix(
            document,
            columns,
            tuple(
                (each, tuple(each.outcome_of(case) for case in each.cases))
                for each in sorted(some, key=lambda each: each.requirement.id)
            ),
        )
        for (document, columns), some in sorted(groups.items())
        if len(some) > 1
    ]


def _evidence(result: Result, read: Callable[[str], str | None], left: int) -> list[tuple[str, str]]:
    every = {path for case in result.cases for path in case.evidence}
    found = []
    for path in sorted(every, key=lambda path: ("/path-" not in path, not _is_path(path), path)):
        text = ((read(path) if left > 0 else None) or "")[:MOST_EVIDENCE]
        left -= len(text)
        found.append((path, text))
    return found


def _is_path(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("path-") and name.endswith(".txt")


def _packed(body: str) -> str:
    return base64.b64encode(zlib.compress(body.encode())).decode()
