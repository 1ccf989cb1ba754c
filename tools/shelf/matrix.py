"""The cells of the matrix, and the first version of an implementation that meets a feature."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.model.verdict_basis import mark
from harness.report.comparison import MET, NOT_RUN
from harness.run.plan import EXEMPTED
from tools.shelf.deviations import Deviation, deviation_of
from tools.shelf.entry import ShelfEntry

UNCLAIMED = "·"
KEY = (
    f"{UNCLAIMED} not claimed. 11/12, cause 2: 11 of 12 requirements are met, and cause 2 of the report explains the "
    "last. Stated: the implementation's documentation describes the deviation."
)

_MOST_NUMBERS = 3  # maximum number of causes whose numbers a cell shows; for more causes it shows their count
_BROKEN, _WARNED = "✗?", "!"
_LACKING = f"{_BROKEN}{NOT_RUN}{UNCLAIMED}"


@dataclass(frozen=True, slots=True)
class FeatureCell:
    """The result of a report for a feature: "✓ 12", "✗ 3/12", "·" or "-".

    `causes` are the numbers of the causes of the failures. `notes` are "not claimed", "stated" or "2 stated".
    """

    result: str
    causes: Sequence[int]
    notes: Sequence[str]

    def __str__(self) -> str:
        return ", ".join([self.result, *self.notes])

    @property
    def mark(self) -> str:
        return self.result[0]

    @property
    def green(self) -> bool:
        """True if the result is met, not run or not claimed, so that the cell needs no explanation."""
        return self.mark in (MET, NOT_RUN, UNCLAIMED)

    @property
    def met(self) -> str:
        return self.result.removeprefix(self.mark).strip() if self.causes else self.result

    @property
    def more(self) -> str:
        """The causes and the notes: "cause 2, 1 stated"."""
        numbers = ", ".join(map(str, self.causes))
        about = f"{len(self.causes)} causes" if len(self.causes) > _MOST_NUMBERS else f"causes {numbers}"
        return ", ".join([*([f"cause {numbers}" if len(self.causes) == 1 else about] * bool(self.causes)), *self.notes])

    @property
    def shown(self) -> str:
        return ", ".join(filter(None, (self.met, self.more)))


def profiles(entries: Sequence[ShelfEntry]) -> list[str]:
    found = [name for each in entries for name in each.features]
    return sorted(set(found), key=lambda name: (-found.count(name), name))


def of_profile(profile: str, entries: Sequence[ShelfEntry], deviations: Sequence[Deviation]) -> dict[str, Any]:
    """Return the matrix of a profile: its features, rows with a cell for each feature, and first versions."""
    names = _columns(profile, entries)
    return {
        "profile": profile,
        "features": names,
        "rows": [
            (each, [cell(each, profile, name, deviations) for name in names])
            for each in entries
            if profile in each.features
        ],
        "since": since(profile, entries),
    }


def _columns(profile: str, entries: Sequence[ShelfEntry]) -> list[str]:
    return sorted({name for each in entries for name in each.features.get(profile, ())})


def cell(entry: ShelfEntry, profile: str, feature: str, deviations: Sequence[Deviation] = ()) -> FeatureCell:
    result = entry.features.get(profile, {}).get(feature)
    claimed = feature not in entry.unclaimed
    if result is None:
        return FeatureCell(NOT_RUN if claimed else UNCLAIMED, (), ())
    unmet = [each.id for each in entry.unmet if each.profile == profile and feature in each.features]
    known = sum(deviation_of(entry.project, each, deviations) is not None for each in unmet)
    notes = [] if claimed else ["not claimed"]
    notes += ["stated" if known == len(unmet) else f"{known} stated"] if known else []
    causes = [number for number, each in entry.causes_in(profile) if {*unmet} & {*each.requirements}]
    return FeatureCell(result, causes, notes)


@dataclass(frozen=True, slots=True)
class FirstVersion:
    """The first version of an implementation that meets a feature, as text, and the folder of its report."""

    text: str
    place: str = ""


SINCE = (
    "From a feature's first version on, all judged versions meet each of its MUSTs; ≤ marks the oldest judged version. "
    "In brackets are the failing version before it, and the last version that does not meet a SHOULD. Catalogues may "
    "differ between versions."
)


def since(profile: str, entries: Sequence[ShelfEntry]) -> dict[str, dict[str, FirstVersion]]:
    """For each implementation with several versions, return the first version that meets each feature."""
    versions: dict[str, dict[tuple[int, ...], ShelfEntry]] = {}
    for each in sorted(entries, key=lambda each: each.date):
        if profile in each.features and _is_whole(each):
            name = " ".join(filter(None, (each.project, each.mode, mark(each.judges))))
            versions.setdefault(name, {})[_number(each.version)] = each
    several = {name: [found[key] for key in sorted(found)] for name, found in versions.items() if len(found) > 1}
    names = _columns(profile, [each for found in several.values() for each in found])
    return {name: {each: _since(found, profile, each) for each in names} for name, found in several.items()}


def _since(versions: Sequence[ShelfEntry], profile: str, feature: str) -> FirstVersion:
    """Return the first version that meets the feature. `versions` are those of one implementation, the oldest first."""
    cells = [str(cell(each, profile, feature)) for each in versions]
    lacking = [number for number, text in enumerate(cells) if text[0] in _LACKING]
    first = lacking[-1] + 1 if lacking else 0
    if first == len(versions):
        newest = _named(cells[-1], versions[-1]) if cells[-1][0] in _BROKEN else cells[-1]
        return FirstVersion(newest, versions[-1].place)
    before = [number for number in range(max(first - 1, 0), first) if cells[number][0] in _BROKEN]
    warned = [number for number in range(first, len(cells)) if cells[number][0] == _WARNED][-1:]
    more = "; ".join(_named(cells[number], versions[number]) for number in (*before, *warned))
    text = versions[first].version if first else f"≤ {versions[first].version}"
    return FirstVersion(f"{text} ({more})" if more else text, versions[first].place)


def _named(text: str, entry: ShelfEntry) -> str:
    return f"{text} in {entry.version}"


def _is_whole(entry: ShelfEntry) -> bool:
    """Return whether the report covers all requirements of the features that the implementation claims."""
    return all(each.startswith(EXEMPTED) for each in entry.uncertifiable.split("; ") if each)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
