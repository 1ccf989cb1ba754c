"""Shows reports of the shelf as Markdown: the page beside each, and the section of the index.

Pure: from entries to text. All words of others are escaped.
"""

from __future__ import annotations

import datetime
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.model.escaping import for_code, for_line, for_markdown
from harness.model.judged import mark
from harness.report.comparison import KEY, NOT_RUN, key_of_decisions, table
from harness.report.shelf.entry import UNRELEASED, Entry, State, states
from harness.report.verified import is_released

MOST_UNMET = 10
"""The most requirements that the index names of one report; the page beside it has all."""

BEGIN, END = "<!-- the shelf: made by `trafficdist shelf index` -->", "<!-- end of the shelf -->"


def readme(entry: Entry, report: Mapping[str, Any]) -> str:
    """Return the page beside a report, which follows from it."""
    suite, by = report["suite"]["version"], mark(entry.judges)
    facts = (
        ("Kubernetes", entry.kubernetes),
        ("implementation", f"{entry.organization}, {entry.project} {entry.version}, mode {entry.mode} {by}".rstrip()),
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
        *(_unmet(entry, "") or ["Nothing."]),
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


def _unmet(entry: Entry, base: str) -> list[str]:
    return [
        f"- {each.mark} `{for_code(each.id)}` ({each.level}): {for_markdown(each.message)}"
        + (f" ([evidence](<{base}{each.evidence}/>))" if each.evidence else "")
        for each in entry.unmet
    ]


def _few(entry: Entry) -> list[str]:
    """Return the worst of what is not met, for the index, whose page GitHub shows only up to half a megabyte."""
    lines = _unmet(entry, f"{entry.place}/")
    more = [f"- and {len(lines) - MOST_UNMET} more: [its folder](<{entry.place}/>)"] if len(lines) > MOST_UNMET else []
    return [*lines[:MOST_UNMET], *more]


def section(entries: Sequence[Entry], today: datetime.date) -> str:
    """Return the section of the index, with its marks."""
    told = states(entries, today)
    lines = [
        BEGIN,
        "",
        f"As of {today}: {summary(entries)} [index.html](index.html) has colours.",
        "",
        KEY,
        "",
        *key_of_decisions(each.judges for each in entries),
        *(line for profile in profiles(entries) for line in _matrix(profile, entries, told)),
        "### Reports",
        "",
        *_reports(entries, told),
        "### Not met, and why",
        "",
        *(line for each in entries if each.unmet for line in (f"{_link(each)}:", "", *_few(each), "")),
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


def profiles(entries: Sequence[Entry]) -> list[str]:
    """Return the names of the profiles of which any report has something; that of most reports first."""
    times = Counter(name for each in entries for name in each.features)
    return sorted(times, key=lambda name: (-times[name], name))


def columns(profile: str, entries: Sequence[Entry]) -> list[str]:
    """Return the features of a profile of which any report has something."""
    return sorted({name for each in entries for name in each.features.get(profile, ())})


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


def _matrix(profile: str, entries: Sequence[Entry], told: Mapping[str, State]) -> list[str]:
    names = columns(profile, entries)
    rows = [
        (
            _link(each) + ("" if told[each.place].holds else " \\*"),
            [each.features[profile].get(name, NOT_RUN) for name in names],
        )
        for each in entries
        if profile in each.features
    ]
    return [
        f"### {profile.lower()}",
        "",
        *table("", [for_markdown(each) for each in names], rows),
        "",
        "\\* not verified, of an older catalogue, or expired: see [reports](#reports).",
        "",
    ]


def _link(entry: Entry) -> str:
    return f"[{for_markdown(entry.title)}](<{entry.place}/>)"


def replaced(page: str, made: str) -> str:
    """Return a page with the section between its marks replaced. Raises `UsageError` if it has no marks."""
    found = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not found.search(page):
        raise UsageError(f"the README.md of the shelf has no lines {BEGIN!r} and {END!r}, between which the index goes")
    return found.sub(lambda _: made, page, count=1)
