"""Makes index.html of the shelf: a matrix of implementations and features for each profile, and what is not met.

One file without scripts, which asks no network; its style is that of the page of a run.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from harness.report.comparison import KEY, MARKS, key_of_decisions
from harness.report.shelf.entry import Entry, states
from harness.report.shelf.markdown import columns, profiles, summary
from harness.report.shelf.place import README, REPORT, SHELVED
from harness.report.template import environment, file, style

_PACKAGE = "harness.report.shelf"


def as_html(entries: Sequence[Entry], today: datetime.date) -> str:
    """Return the page; `today` tells which reports have expired."""
    told = states(entries, today)
    return (
        environment(_PACKAGE)
        .get_template("index.html.j2")
        .render(
            entries=entries,
            states=told,
            today=today,
            summary=summary(entries),
            matrices=[
                (name, columns(name, entries), [each for each in entries if name in each.features])
                for name in profiles(entries)
            ],
            key=" ".join([KEY, *key_of_decisions(each.judges for each in entries)]).strip(),
            classes={mark: outcome.replace(" ", "-") for outcome, mark in MARKS.items()},
            links={each.place: f"{each.place}/{_page(each)}" for each in entries},
            style=style(file(_PACKAGE, "index.css")),
        )
    )


def _page(entry: Entry) -> str:
    return README if SHELVED.fullmatch(entry.place) else REPORT
