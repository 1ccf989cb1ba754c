"""Write README.md of each report, the shelf's section in README.md, and index.html, a page without scripts."""

import datetime
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from harness.errors import UsageError
from harness.model import verdict_basis
from harness.model.escaping import for_code, for_line, for_markdown
from harness.report.comparison import KEY, MARKS, NOT_RUN, key_of_decisions
from harness.report.template import environment, file, style
from harness.report.verification import is_released
from tools.shelf import matrix
from tools.shelf.deviations import Deviation, deviation_of
from tools.shelf.entry import UNRELEASED, ShelfEntry, states

BEGIN, END = "<!-- the shelf: made by `trafficdist shelf index` -->", "<!-- end of the shelf -->"
_PACKAGE = "tools.shelf"


def readme(entry: ShelfEntry, report: Mapping[str, Any]) -> str:
    by = " ".join(filter(None, (f"mode {entry.mode}" if entry.mode else "", verdict_basis.mark(entry.judges))))
    environ = report["environment"]
    facts = {
        "Kubernetes": entry.kubernetes,
        "implementation": ", ".join(filter(None, (entry.organization, f"{entry.project} {entry.version}", by))),
        "web page": entry.url or NOT_RUN,
        "cluster": f"{environ['backend']}, {len(environ['nodes'])} nodes",
        "date": f"{entry.day}; valid until {entry.holds_until}",
        "suite": f"{entry.suite}, {_origin(report)}",
        "requirements met": entry.met,
    }
    return _markdown(
        "readme.md.j2",
        entry=entry,
        report=report,
        facts=facts,
        key=KEY,
        decisions="".join(key_of_decisions([entry.judges])),
        command=shlex.join(report["run"]["arguments"]),
    )


def _origin(report: Mapping[str, Any]) -> str:
    revision = report["suite"].get("revision", "")
    if is_released(report):
        return revision or "as released"
    return f"{revision or 'unknown revision'}; not verified: {UNRELEASED}"


def section(entries: Sequence[ShelfEntry], today: datetime.date, deviations: Sequence[Deviation] = ()) -> str:
    return f"{BEGIN}\n\n{_markdown('section.md.j2', **_index(entries, today, deviations)).strip()}\n\n{END}"


def as_html(entries: Sequence[ShelfEntry], today: datetime.date, deviations: Sequence[Deviation] = ()) -> str:
    """Return index.html. Reports that have expired by `today` are marked."""
    known = {
        (each.place, one.id): said
        for each in entries
        for one in each.unmet
        if (said := deviation_of(each.project, one.id, deviations))
    }
    classes = {**{mark: outcome.replace(" ", "-") for outcome, mark in MARKS.items()}, matrix.UNCLAIMED: ""}
    template = environment(_PACKAGE).get_template("index.html.j2")
    return template.render(
        **_index(entries, today, deviations), stated=known, classes=classes, style=style(file(_PACKAGE, "index.css"))
    )


def _index(entries: Sequence[ShelfEntry], today: datetime.date, deviations: Sequence[Deviation]) -> dict[str, Any]:
    return {
        "entries": entries,
        "states": states(entries, today),
        "today": today,
        "summary": _summary(entries),
        "matrices": [matrix.of_profile(name, entries, deviations) for name in matrix.profiles(entries)],
        "key": f"{KEY} {matrix.KEY}",
        "decisions": "".join(key_of_decisions(each.judges for each in entries)),
        "about_since": matrix.SINCE,
        "deviations": deviations,
    }


def _summary(entries: Sequence[ShelfEntry]) -> str:
    verified, unreleased = (sum(each.refused == why for each in entries) for why in ("", UNRELEASED))
    more = f", {unreleased} made by an unreleased version of the suite" if unreleased else ""
    return f"{len(entries)} reports, {verified} of them verified{more}."


def _markdown(template: str, **values: Any) -> str:
    """Return a page in Markdown. Strings are escaped, except those with one of the filters `safe`, `code`, `line`."""
    engine = environment(_PACKAGE).overlay(
        finalize=lambda value: _safe(for_markdown(value)) if type(value) is str else value
    )
    engine.filters |= {"code": lambda text: _safe(for_code(text)), "line": lambda text: _safe(for_line(text))}
    return engine.get_template(template).render(**values) + "\n"


def _safe(markdown: str) -> Markup:
    return Markup(markdown)  # noqa: S704  escaped for Markdown, which is not HTML


def replaced(page: str, made: str) -> str:
    """Return a page with a new section between the two markers. Raises `UsageError` if it has no markers."""
    found = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not found.search(page):
        raise UsageError(f"README.md of the shelf lacks the lines {BEGIN!r} and {END!r}; the index goes between them")
    return found.sub(lambda _: made, page, count=1)
