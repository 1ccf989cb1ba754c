"""Write the summary of a run as Markdown for a pull request, failures first. The summary fits into a GitHub comment."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.judging.case_events import CaseEvents
from harness.judging.judge import Key
from harness.judging.results import DECISIVE, Result
from harness.model.escaping import for_code, for_markdown, for_terminal
from harness.report import causes
from harness.report.causes import CommonCause
from harness.report.comparison import judged_by, key_of_decisions, title_of
from harness.report.outcomes import SHOWN, UNMET
from harness.report.page import details
from harness.report.page.cluster_map import as_mermaid
from harness.report.page.page import code_of
from harness.report.summary import conclusion

MOST_WHOLE = 35_000
"""The maximum total length of the failures that are shown in full, with a map. Other failures get one line."""

MOST_LINES = 20
"""The maximum number of lines in a list. The report has the complete list."""

_MOST_EXPLANATION = 3000  # characters
_MOST_PICTURE = 3000
_LONGEST = 200  # characters of a message


def as_markdown(report: Mapping[str, Any], results: Sequence[Result], stories: Mapping[Key, CaseEvents]) -> str:
    chosen = [each for each in results if not each.left_out]
    nodes = [(each["name"], each["zone"]) for each in report["environment"]["nodes"]]
    found = causes.of(chosen)
    said = conclusion(results, code_of(results, report), "", report["run"].get("certifiableReasons", ()), found)
    lines = [f"## {title_of(report) or 'trafficdist'}", "", *key_of_decisions([judged_by(report)])]
    for line in said:
        lines += [for_markdown(line.text), ""]
    lines += _causes(found)
    left = MOST_WHOLE
    for outcome in UNMET:
        mine = [each for each in chosen if each.outcome is outcome]
        if mine:
            lines += [f"### {SHOWN[outcome].mark} {SHOWN[outcome].heading} ({len(mine)})", ""]
        for number, each in enumerate(mine):
            whole = "\n".join(_failure(each, stories, nodes)) if outcome in DECISIVE else ""
            left -= len(whole)
            if left < 0 or not whole:
                lines += [*_listed(mine[number:]), ""]
                break
            lines.append(whole)
    more = "report.html, in the folder of the run, has every map, timeline and file of evidence."
    return "\n".join([*lines, more]) + "\n"


def _causes(found: Sequence[CommonCause]) -> Iterator[str]:
    if found:
        yield from ("### Causes", "")
    for number, each in enumerate(found[:MOST_LINES], 1):
        ids = ", ".join(f"`{for_code(name)}`" for name in each.requirements[:MOST_LINES])
        more = len(each.requirements) - MOST_LINES
        yield f"{number}. **{for_markdown(each.headline)}**: {each.numbers}: {ids}{f' and {more} more' * (more > 0)}"
        if each.hint:
            yield f"   {for_markdown(each.hint)}"
        if each.rerun:
            yield from ("", *(f"   {line}" for line in _fenced(each.rerun)))
        yield ""


def _failure(result: Result, stories: Mapping[Key, CaseEvents], nodes: details.Nodes) -> Iterator[str]:
    requirement, worst = result.requirement, result.worst
    parameters = f" [{for_markdown(worst.parameters)}]" if worst.parameters else ""
    yield f"**`{for_code(requirement.id)}`**{parameters} ({requirement.level}): {for_markdown(requirement.sentence)}"
    yield ""
    yield f"> {_shortened(worst.message)}"
    yield ""
    case = details.case_of(result, worst, stories, {}, nodes)
    picture = as_mermaid(case.unmet[0].map) if case.unmet else ""
    if picture and len(picture) <= _MOST_PICTURE:
        yield from ("```mermaid", picture, "```", "")
    if worst.explanation:
        text = details.without_command(worst)
        text = text[:_MOST_EXPLANATION] + ("\n…" if len(text) > _MOST_EXPLANATION else "")
        yield from ("<details><summary>Explanation, and how to run it again</summary>", "", *_fenced(text))
        yield from ("", *_fenced(worst.rerun), "", "</details>", "")


def _fenced(text: str) -> list[str]:
    shown = for_terminal(text)
    fence = "`" * max([3, *(len(each) + 1 for each in re.findall("`+", shown))])
    return [f"{fence}text", shown, fence] if shown else []


def _listed(results: Sequence[Result]) -> Iterator[str]:
    for each in results[:MOST_LINES]:
        yield f"- `{for_code(each.requirement.id)}` ({each.requirement.level}): {_shortened(each.worst.message)}"
    if len(results) > MOST_LINES:
        yield f"- and {len(results) - MOST_LINES} more, in report.yaml and report.html"


def _shortened(message: str) -> str:
    return for_markdown(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…")
