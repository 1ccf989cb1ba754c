"""Create index.html of the shelf: tables of implementations and features by profile, and unmet requirements.

The page is a single file without scripts and network requests, in the style of a run's page.
"""

import datetime
from collections.abc import Sequence
from typing import Any

from harness.report.comparison import KEY, MARKS, key_of_decisions
from harness.report.template import environment, file, style
from tools.shelf import matrix
from tools.shelf.entry import Entry, Unmet, states
from tools.shelf.markdown import summary
from tools.shelf.place import README
from tools.shelf.stated import Stated, of

_PACKAGE = "tools.shelf"


def as_html(entries: Sequence[Entry], today: datetime.date, stated: Sequence[Stated] = ()) -> str:
    """Return the page. Reports that have expired by `today` are marked."""
    told = states(entries, today)
    return (
        environment(_PACKAGE)
        .get_template("index.html.j2")
        .render(
            entries=entries,
            states=told,
            today=today,
            summary=summary(entries),
            matrices=[_matrix(name, entries, stated) for name in matrix.profiles(entries)],
            about_since=matrix.SINCE,
            without_cause={each.place: _without_cause(each) for each in entries},
            by_id={each.place: {one.id: one for one in each.unmet} for each in entries},
            stated={
                (each.place, one.id): said
                for each in entries
                for one in each.unmet
                if (said := of(each.project, one.id, stated))
            },
            key=" ".join([KEY, matrix.KEY, *key_of_decisions(each.judges for each in entries)]).strip(),
            classes={**{mark: outcome.replace(" ", "-") for outcome, mark in MARKS.items()}, matrix.UNCLAIMED: ""},
            links={each.place: f"{each.place}/{README}" for each in entries},
            style=style(file(_PACKAGE, "index.css")),
        )
    )


def _matrix(profile: str, entries: Sequence[Entry], stated: Sequence[Stated]) -> dict[str, Any]:
    names, judged = matrix.columns(profile, entries), [each for each in entries if profile in each.features]
    return {
        "profile": profile,
        "features": names,
        "rows": [(each, [_cell(each, profile, name, stated) for name in names]) for each in judged],
        "since": matrix.since(profile, entries),
    }


def _cell(entry: Entry, profile: str, feature: str, stated: Sequence[Stated]) -> tuple[str, str, str, str]:
    """Return a cell: the mark that decides its colour, its two texts, and the id that it links, or ""."""
    text, numbers = matrix.cell(entry, profile, feature, stated), matrix.numbers_of(entry, profile, feature)
    met, _, more = matrix.shown(entry, profile, feature, stated).partition(", ")
    link = f"{entry.place}/cause-{numbers[0]}" if len(numbers) == 1 else entry.place
    return text[0], met, more, "" if matrix.is_green(text) else link


def _without_cause(entry: Entry) -> list[Unmet]:
    known = {name for each in entry.causes for name in each.requirements}
    return [each for each in entry.unmet if each.id not in known]
