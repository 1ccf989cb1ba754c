"""Measurements of steady traffic: a list in `report.yaml`, a table in Allure, and columns in comparisons."""

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from harness.judging.judge import JudgedRun, Key
from harness.judging.transitions import reaction_ms, transitions

COLUMNS = (
    "client", "asked", "longest gap, ms", "longest pause, ms", "timed out", "refused", "unknown",
    "wrong answers", "answers from removed endpoints", "change", "first correct answer, ms", "all correct from, ms",
)  # fmt: skip


Numbers = Mapping[Key, Sequence[Mapping[str, Any]]]  # measurements of all steady traffic, by case


def by_case(judged: JudgedRun) -> dict[Key, list[dict[str, Any]]]:
    found = {key: transitions(story) for key, story in judged.stories.items()}
    return {key: each for key, each in sorted(found.items()) if each}


def listed(numbers: Numbers) -> list[dict[str, Any]]:
    return [
        {"test": test, **({"parameters": parameters} if parameters else {}), **each}
        for (test, parameters), some in numbers.items()
        for each in some
    ]


def rows(transition: Mapping[str, Any]) -> list[list[Any]]:
    """Return a row per client and change, with a cell for each of `COLUMNS`. Missing values are ""."""
    return [
        [
            client["client"], client["asked"], client["longestGapMs"], client["longestPauseMs"],
            *(client["lost"].get(kind, 0) for kind in ("timedOut", "refused", "unknown")),
            client["wrongSet"], client["removedEndpoints"],
            *(each.get(key, "") for key in ("change", "firstRightMs", "allRightMs")),
        ]
        for client in transition["clients"]
        for each in (client["reactions"] or [{}])
    ]  # fmt: skip


def as_csv(found: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["traffic", *COLUMNS])
    writer.writerows([each["traffic"], *row] for each in found for row in rows(each))
    return text.getvalue()


def by_kind(report: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for transition in report.get("transitions", ()):
        for client in transition["clients"]:
            for each in client["reactions"]:
                if (ms := reaction_ms(each)) is not None:
                    found[each["change"]].append(ms)
    return {kind: (statistics.median(all_ms), max(all_ms)) for kind, all_ms in sorted(found.items())}
