"""Shows reports of the shelf as Markdown: the page beside each, and the section of the index.

Pure: from entries to text. All words of others are escaped.
"""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.model.escaping import for_code, for_line, for_markdown
from harness.model.judged import mark
from harness.report.comparison import KEY, NOT_RUN, key_of_decisions, table
from harness.report.verified import is_released
from tools.shelf import matrix
from tools.shelf.entry import UNRELEASED, Entry, State, states
from tools.shelf.place import README, SHELVED
from tools.shelf.stated import Stated, of

MOST_UNMET = 10
"""The most requirements that the index names of one report; the page beside it has all."""

BEGIN, END = "<!-- the shelf: made by `trafficdist shelf index` -->", "<!-- end of the shelf -->"


def readme(entry: Entry, report: Mapping[str, Any]) -> str:
    """Return the page beside a report, which follows from it."""
    suite, mode = report["suite"]["version"], f"mode {entry.mode}" if entry.mode else ""
    judged = " ".join(filter(None, (mode, mark(entry.judges))))
    facts = (
        ("Kubernetes", entry.kubernetes),
        ("implementation", ", ".join(filter(None, (entry.organization, f"{entry.project} {entry.version}", judged)))),
        ("page of the implementation", entry.url or NOT_RUN),
        ("cluster", f"{report['environment']['backend']}, {len(report['environment']['nodes'])} nodes"),
        ("date", f"{entry.day}; the report holds until {entry.holds_until}"),
        ("suite", f"{entry.suite}, {_origin(report)}"),
        ("requirements that are met", entry.met),
    )
    lines = [
        f"# {for_markdown(entry.title)}",
        "",
        *table("", ["what the report says"], [(name, [for_markdown(text)]) for name, text in facts]),
        "",
        *(f"- {for_markdown(each['name'])}: {for_markdown(each['summary'])}" for each in report["profiles"]),
        "",
        *key_of_decisions([entry.judges]),
        "## Not met, and why",
        "",
        *(_unmet(entry, "", ()) or ["Nothing."]),
        "",
        "## Features",
        "",
        KEY,
        "",
        *_features(entry),
        "## How it was made, and how to check it",
        "",
        f"    {for_line(shlex.join(report['run']['arguments']))}",
        "",
        f"trafficdist {for_markdown(suite)} derives each verdict again, and makes a page with pictures:",
        "",
        "    trafficdist verify .",
        "    trafficdist report .",
    ]
    return "\n".join(lines) + "\n"


def _origin(report: Mapping[str, Any]) -> str:
    """Return what the suite of a report was installed from."""
    revision = report["suite"].get("revision", "")
    if is_released(report):
        return revision or "as released"
    return f"{revision or 'of no known revision'}: {UNRELEASED}, so it is not verified"


def _features(entry: Entry) -> Iterator[str]:
    for profile, cells in entry.features.items():
        rows = [(for_markdown(name), [cell]) for name, cell in cells.items()]
        yield from table(profile.lower(), ["requirements that are met"], rows)
        yield ""


def _unmet(entry: Entry, base: str, stated: Sequence[Stated]) -> list[str]:
    return [
        f"- {each.mark} `{for_code(each.id)}` ({each.level}): "
        + (f"*{for_markdown(each.sentence)}* " if each.sentence else "")
        + for_markdown(each.message)
        + (f" ([evidence](<{base}{each.evidence}/>))" if each.evidence else "")
        + _stated(of(entry.project, each.id, stated))
        for each in entry.unmet
    ]


def _stated(said: Stated | None) -> str:
    return f" **Stated** by its [documentation](<{for_line(said.where)}>): {for_markdown(said.says)}" if said else ""


def _few(entry: Entry, stated: Sequence[Stated]) -> list[str]:
    """Return the worst of what is not met, for the index, whose page GitHub shows only up to half a megabyte."""
    lines = _unmet(entry, f"{entry.place}/", stated)
    more = [f"- and {len(lines) - MOST_UNMET} more: [its folder](<{entry.place}/>)"] if len(lines) > MOST_UNMET else []
    return [*lines[:MOST_UNMET], *more]


def section(entries: Sequence[Entry], today: datetime.date, stated: Sequence[Stated] = ()) -> str:
    """Return the section of the index, with its marks."""
    told = states(entries, today)
    lines = [
        BEGIN,
        "",
        f"As of {today}: {summary(entries)} [index.html](index.html) has colours.",
        "",
        f"{KEY} {matrix.KEY}",
        "",
        *key_of_decisions(each.judges for each in entries),
        *(line for profile in matrix.profiles(entries) for line in _matrix(profile, entries, told, stated)),
        "### Reports",
        "",
        *_reports(entries, told),
        "### Not met, and why",
        "",
        *(line for each in entries if each.unmet for line in (_anchored(each), "", *_few(each, stated), "")),
        END,
    ]
    return "\n".join(lines)


def summary(entries: Sequence[Entry]) -> str:
    """Return in sentences how many reports there are, and how many can be relied on."""
    verified, unreleased = (sum(each.refused == why for each in entries) for why in ("", UNRELEASED))
    said = f"{len(entries)} reports, {verified} of them verified."
    if unreleased:
        said += f" {unreleased} made by a version that is not released cannot be verified."
    return said


def _reports(entries: Sequence[Entry], told: Mapping[str, State]) -> list[str]:
    heads = ["Kubernetes", "date", "suite", "met", "state"]
    rows = [
        (
            _link(each),
            [
                for_markdown(each.kubernetes),
                str(each.day),
                for_markdown(each.suite),
                each.met,
                for_markdown("; ".join(told[each.place].texts)),
            ],
        )
        for each in entries
    ]
    return [*table("implementation", heads, rows), ""]


def _matrix(
    profile: str, entries: Sequence[Entry], told: Mapping[str, State], stated: Sequence[Stated]
) -> Iterator[str]:
    names = matrix.columns(profile, entries)
    rows = [
        (
            _link(each) + ("" if told[each.place].holds else " \\*"),
            [_cell(each, matrix.cell(each, profile, name, stated)) for name in names],
        )
        for each in entries
        if profile in each.features
    ]
    yield from (f"### {profile.lower()}", "", *table("", [for_markdown(each) for each in names], rows), "")
    yield from ("\\* not verified, of an older catalogue, or expired: see [reports](#reports).", "")
    if found := matrix.since(profile, entries):
        yield from (f"#### {profile.lower()}, since which version", "", matrix.SINCE, "")
        rows = [
            (
                for_markdown(name),
                [f"[{for_markdown(each[name].text)}](<{each[name].place}/>)" for each in found.values()],
            )
            for name in next(iter(found.values()))
        ]
        yield from (*table("", [for_markdown(each) for each in found], rows), "")


def _cell(entry: Entry, text: str) -> str:
    """Return a cell; one that is not green leads to what is not met, with its evidence."""
    if matrix.is_green(text):
        return text
    return f"[{text}](<{_beside(entry)}>)"


def _beside(entry: Entry) -> str:
    """Return where all that a report does not meet is listed: on its own page, and of older ones in the index."""
    return f"{entry.place}/{README}#not-met-and-why" if SHELVED.fullmatch(entry.place) else f"#{entry.place}"


def _anchored(entry: Entry) -> str:
    return f'<a name="{entry.place}"></a>{_link(entry)}:'


def _link(entry: Entry) -> str:
    return f"[{for_markdown(entry.title)}](<{entry.place}/>)"


def replaced(page: str, made: str) -> str:
    """Return a page with the section between its marks replaced. Raises `UsageError` if it has no marks."""
    found = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not found.search(page):
        raise UsageError(f"the README.md of the shelf has no lines {BEGIN!r} and {END!r}, between which the index goes")
    return found.sub(lambda _: made, page, count=1)
