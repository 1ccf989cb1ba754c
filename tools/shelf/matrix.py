"""The cells of the matrix, and the first version of an implementation that meets a feature.

This module has no side effects. It converts entries to texts for Markdown and HTML.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.model.judged import mark
from harness.report.comparison import MET, NOT_RUN
from harness.run.plan import EXEMPTED
from tools.shelf.entry import Entry, Unmet
from tools.shelf.stated import Stated, of

UNCLAIMED = "·"
KEY = (
    f"{UNCLAIMED} not claimed. 11/12, cause 2: 11 of 12 requirements are met, and cause 2 of the report explains the "
    "last. Stated: the implementation's documentation describes the deviation."
)

_BROKEN, _WARNED = "✗?", "!"
_LACKING = f"{_BROKEN}{NOT_RUN}{UNCLAIMED}"


def profiles(entries: Sequence[Entry]) -> list[str]:
    """Return the names of the profiles in all reports, the most frequent first."""
    found = [name for each in entries for name in each.features]
    return sorted(set(found), key=lambda name: (-found.count(name), name))


def columns(profile: str, entries: Sequence[Entry]) -> list[str]:
    """Return the features of a profile in all reports."""
    return sorted({name for each in entries for name in each.features.get(profile, ())})


def cell(entry: Entry, profile: str, feature: str, stated: Sequence[Stated] = ()) -> str:
    """Return the cell of a report and a feature: "✓ 12", "✗ 3/12, 2 stated", "✗ 0/2, not claimed", "·" or "-"."""
    found = entry.features.get(profile, {}).get(feature)
    claimed = feature not in entry.unclaimed
    if found is None:
        return NOT_RUN if claimed else UNCLAIMED
    known = [of(entry.project, each.id, stated) is not None for each in behind(entry, profile, feature)]
    more = [] if claimed else ["not claimed"]
    more += ["stated" if all(known) else f"{sum(known)} stated"] if any(known) else []
    return ", ".join([found, *more])


def shown(entry: Entry, profile: str, feature: str, stated: Sequence[Stated] = ()) -> str:
    """Return a cell as readers see it: "11/12, cause 2" instead of a mark in the column of each feature."""
    text, numbers = cell(entry, profile, feature, stated), numbers_of(entry, profile, feature)
    if not numbers:
        return text
    met, comma, more = text.removeprefix(text[0]).strip().partition(", ")
    about = f"cause {numbers[0]}" if len(numbers) == 1 else f"causes {', '.join(map(str, numbers))}"
    return f"{met}, {about if len(numbers) <= _MOST_NUMBERS else f'{len(numbers)} causes'}{comma}{more}"


_MOST_NUMBERS = 3


def numbers_of(entry: Entry, profile: str, feature: str) -> list[int]:
    """Return the numbers of the causes behind a cell."""
    ids = {each.id for each in behind(entry, profile, feature)}
    return [number for number, each in entry.causes_in(profile) if ids & set(each.requirements)]


def is_green(text: str) -> bool:
    """Return whether a cell needs no explanation."""
    return text[0] in (MET, NOT_RUN, UNCLAIMED)


def behind(entry: Entry, profile: str, feature: str) -> list[Unmet]:
    """Return the unmet requirements that explain a cell."""
    return [each for each in entry.unmet if each.profile == profile and feature in each.features]


@dataclass(frozen=True, slots=True)
class Since:
    """The first version of an implementation that meets a feature, with the folder of its report."""

    text: str
    place: str = ""


SINCE = (
    "From a feature's first version on, all judged versions meet each of its MUSTs; ≤ marks the oldest judged version. "
    "In brackets are the failing version before it, and the last version that does not meet a SHOULD. Catalogues may "
    "differ between versions."
)


def since(profile: str, entries: Sequence[Entry]) -> dict[str, dict[str, Since]]:
    """Return the first version by implementation and feature. Implementations with one version are left out."""
    versions: dict[str, dict[tuple[int, ...], Entry]] = {}
    for each in sorted(entries, key=lambda each: each.date):
        if profile in each.features and _is_whole(each):
            name = " ".join(filter(None, (each.project, each.mode, mark(each.judges))))
            versions.setdefault(name, {})[_number(each.version)] = each
    several = {name: [found[key] for key in sorted(found)] for name, found in versions.items() if len(found) > 1}
    names = columns(profile, [each for found in several.values() for each in found])
    return {name: {each: _since(found, profile, each) for each in names} for name, found in several.items()}


def _since(versions: Sequence[Entry], profile: str, feature: str) -> Since:
    """Return the first version of one implementation. `versions` begins with the oldest version."""
    cells = [cell(each, profile, feature) for each in versions]
    lacking = [number for number, text in enumerate(cells) if text[0] in _LACKING]
    first = lacking[-1] + 1 if lacking else 0
    if first == len(versions):
        return Since(_named(cells[-1], versions[-1]) if cells[-1][0] in _BROKEN else cells[-1], versions[-1].place)
    before = [number for number in range(max(first - 1, 0), first) if cells[number][0] in _BROKEN]
    warned = [number for number in range(first, len(cells)) if cells[number][0] == _WARNED][-1:]
    more = "; ".join(_named(cells[number], versions[number]) for number in (*before, *warned))
    text = versions[first].version if first else f"≤ {versions[first].version}"
    return Since(f"{text} ({more})" if more else text, versions[first].place)


def _named(text: str, entry: Entry) -> str:
    return f"{text} in {entry.version}"


def _is_whole(entry: Entry) -> bool:
    """Return whether the report covers all requirements of the features that the implementation claims."""
    return all(each.startswith(EXEMPTED) for each in entry.uncertifiable.split("; ") if each)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
