"""Write Markdown about published reports: README.md of each report, and the overview in the shelf's README.md.

Pure functions from entries to text. Text from reports is escaped.
"""

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
from tools.shelf.entry import UNRELEASED, Entry, State, Unmet, states
from tools.shelf.place import README
from tools.shelf.stated import Stated

BEGIN, END = "<!-- the shelf: made by `trafficdist shelf index` -->", "<!-- end of the shelf -->"


def readme(entry: Entry, report: Mapping[str, Any]) -> str:
    """Return the text of the README.md in a report's folder."""
    suite, mode = report["suite"]["version"], f"mode {entry.mode}" if entry.mode else ""
    judged = " ".join(filter(None, (mode, mark(entry.judges))))
    facts = (
        ("Kubernetes", entry.kubernetes),
        ("implementation", ", ".join(filter(None, (entry.organization, f"{entry.project} {entry.version}", judged)))),
        ("web page", entry.url or NOT_RUN),
        ("cluster", f"{report['environment']['backend']}, {len(report['environment']['nodes'])} nodes"),
        ("date", f"{entry.day}; valid until {entry.holds_until}"),
        ("suite", f"{entry.suite}, {_origin(report)}"),
        ("requirements met", entry.met),
    )
    lines = [
        f"# {for_markdown(entry.title)}",
        "",
        *table("", ["from the report"], [(name, [for_markdown(text)]) for name, text in facts]),
        "",
        *(f"- {for_markdown(each['name'])}: {for_markdown(each['summary'])}" for each in report["profiles"]),
        "",
        *key_of_decisions([entry.judges]),
        "## Not met, and why",
        "",
        "\n".join(_unmet(entry)).strip() or "Nothing.",
        "",
        "## Features",
        "",
        KEY,
        "",
        *_features(entry),
        "## Run it again, and check it",
        "",
        f"    {for_line(shlex.join(report['run']['arguments']))}",
        "",
        f"Two commands of trafficdist {for_markdown(suite)} derive each verdict again, and make a page with pictures:",
        "",
        "    trafficdist verify .",
        "    trafficdist report .",
    ]
    return "\n".join(lines) + "\n"


def _origin(report: Mapping[str, Any]) -> str:
    """Return the suite revision that made a report."""
    revision = report["suite"].get("revision", "")
    if is_released(report):
        return revision or "as released"
    return f"{revision or 'unknown revision'}; not verified: {UNRELEASED}"


def _features(entry: Entry) -> Iterator[str]:
    for profile, cells in entry.features.items():
        rows = [(for_markdown(name), [cell]) for name, cell in cells.items()]
        yield from table(profile.lower(), ["requirements met"], rows)
        yield ""


def _unmet(entry: Entry) -> Iterator[str]:
    """Yield the causes with their requirements, and then the requirements without a definite verdict."""
    left = {each.id: each for each in entry.unmet}
    if entry.causes:
        yield from (f"{entry.counts()}.", "")
    for number, cause in enumerate(entry.causes, 1):
        yield from (f"### {number}. {for_markdown(cause.headline)}", "")
        yield from _listed([left.pop(name) for name in cause.requirements if name in left])
        yield ""
    yield from _listed(list(left.values()))


def _listed(unmet: Sequence[Unmet]) -> list[str]:
    return [
        f"- {each.mark} `{for_code(each.id)}` ({each.level}): "
        + (f"*{for_markdown(each.sentence)}* " if each.sentence else "")
        + for_markdown(each.message)
        + (f" ([evidence](<{each.evidence}>))" if each.evidence else "")
        for each in unmet
    ]


def section(entries: Sequence[Entry], today: datetime.date, stated: Sequence[Stated] = ()) -> str:
    """Return the section with all reports, between its two markers."""
    told = states(entries, today)
    lines = [
        BEGIN,
        "",
        f"Updated on {today}: {summary(entries)} [index.html](index.html) shows the same in colour, with each failure.",
        "",
        f"{KEY} {matrix.KEY}",
        "",
        *key_of_decisions(each.judges for each in entries),
        matrix.SINCE,
        "",
        *(line for profile in matrix.profiles(entries) for line in _matrix(profile, entries, told, stated)),
        "### Reports",
        "",
        *_reports(entries, told),
        *_documented(stated),
        END,
    ]
    return "\n".join(lines)


def summary(entries: Sequence[Entry]) -> str:
    """Return a sentence with the numbers of reports and of verified reports."""
    verified, unreleased = (sum(each.refused == why for each in entries) for why in ("", UNRELEASED))
    more = f", {unreleased} made by an unreleased version of the suite" if unreleased else ""
    return f"{len(entries)} reports, {verified} of them verified{more}."


def _reports(entries: Sequence[Entry], told: Mapping[str, State]) -> list[str]:
    heads = ["Kubernetes", "date", "suite", "met", "state"]
    rows = [
        (
            _link(each),
            [
                for_markdown(each.kubernetes),
                str(each.day),
                for_markdown(each.suite),
                each.met.removeprefix("✗ ") + (f": {_link_to(each, each.counts())}" if each.causes else ""),
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
            [
                _link_to(each, each.counts(profile)) if each.counts(profile) else NOT_RUN,
                *(_cell(each, profile, name, stated) for name in names),
            ],
        )
        for each in entries
        if profile in each.features
    ]
    yield from (
        f"### {profile.lower()}",
        "",
        *table("", ["not met", *(for_markdown(each) for each in names)], rows),
        "",
    )
    yield from ("\\* not verified, older catalogue, or expired: see [reports](#reports).", "")
    if found := matrix.since(profile, entries):
        yield from (f"#### {profile.lower()}: first version", "")
        rows = [
            (
                for_markdown(name),
                [f"[{for_markdown(each[name].text)}](<{each[name].place}/>)" for each in found.values()],
            )
            for name in next(iter(found.values()))
        ]
        yield from (*table("", [for_markdown(each) for each in found], rows), "")


def _cell(entry: Entry, profile: str, feature: str, stated: Sequence[Stated]) -> str:
    """Return a cell. A cell that is not green links to the unmet requirements."""
    green = matrix.is_green(matrix.cell(entry, profile, feature, stated))
    text = matrix.shown(entry, profile, feature, stated)
    return text if green else _link_to(entry, text)


def _link_to(entry: Entry, text: str) -> str:
    return f"[{text}](<{entry.place}/{README}#not-met-and-why>)"


def _documented(stated: Sequence[Stated]) -> Iterator[str]:
    if stated:
        yield from ("### Documented deviations", "")
        for each in stated:
            page = f"[documentation](<{for_line(each.where)}>)"
            yield f"- {for_markdown(each.project)}: {for_markdown(each.says)} ({page})"
        yield ""


def _link(entry: Entry) -> str:
    return f"[{for_markdown(entry.title)}](<{entry.place}/>)"


def replaced(page: str, made: str) -> str:
    """Return a page with a new section between the two markers. Raises `UsageError` if it has no markers."""
    found = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not found.search(page):
        raise UsageError(f"README.md of the shelf lacks the lines {BEGIN!r} and {END!r}; the index goes between them")
    return found.sub(lambda _: made, page, count=1)
