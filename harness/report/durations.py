"""The duration of each requirement: in the last run of its kind on this machine, else in the table of the suite.

It puts the longest requirements first, chooses the number of workers, and estimates the rest of a run. No verdict rests
on it, so a file that cannot be read or written is ignored. The table beside the suite is made from the report of a
whole run on the embedded cluster:

    python -m harness.report.durations trafficdist-results/latest > conformance/durations.yaml

A proxy that is a program in every node has a table of its own, durations-kube-proxy.yaml, from a run with `--proxy
kube-proxy`; what that lacks takes as long as with the reference. A quick run is chosen by the tables alone, so that it
is the same on every machine.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.binaries.cache import default_folder
from harness.errors import UsageError
from harness.judging.results import Result
from harness.judging.verdict import Verdict
from harness.run.folder import write_whole
from harness.run.plan import Plan, matches
from harness.run.workers import usual
from harness.settings.claims import REFERENCE
from harness.settings.settings import Settings

FILE = "durations.yaml"
OF_PROGRAMS = "durations-kube-proxy.yaml"

_KINDS = 20  # kinds of runs that are remembered, the newest

Table = Mapping[str, Mapping[str, float]]
"""Seconds by requirement, by profile."""


def expected(settings: Settings, suite: Path) -> dict[str, float]:
    """Return seconds by requirement, of those that the options select, as far as known before collection."""
    tables = (
        of_suite(suite),
        of_suite(suite, OF_PROGRAMS) if settings.proxy.kind != REFERENCE else {},
        {} if settings.quick else _all_remembered().get(_kind(settings, suite), {}),
    )
    return {
        requirement: seconds
        for table in tables
        for profile, mine in table.items()
        if not settings.profile or profile in settings.profile
        for requirement, seconds in mine.items()
        if not settings.run_test or matches(requirement, settings.run_test)
        if not matches(requirement, settings.skip_tests)
    }


def by_case(plan: Plan, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return seconds by node id of cases to run. Cases share their requirement's time, or the median if unknown."""
    unknown = usual(seconds)
    cases = [case for case in plan.cases if case.to_run]
    number = {each.requirement: 0 for each in cases}
    for each in cases:
        number[each.requirement] += 1
    return {case.nodeid: seconds.get(case.requirement, unknown) / number[case.requirement] for case in cases}


def of_suite(suite: Path, file: str = FILE) -> Table:
    """Return a table beside a suite; empty if there is none."""
    from harness.model import strict_yaml  # noqa: PLC0415  the plugin loads this module where requirements are run only

    with contextlib.suppress(UsageError):
        return _checked(strict_yaml.read(suite / file, what="table of durations"))
    return {}


def remember(settings: Settings, suite: Path, results: Sequence[Result]) -> None:
    """Save the durations of requirements that passed, beside those of earlier runs of the same kind."""
    met = [each for each in results if each.verdict is Verdict.PASSED]
    if settings.mutant or not met:
        return
    everything, kind = dict(_all_remembered()), _kind(settings, suite)
    mine = {profile: dict(table) for profile, table in everything.pop(kind, {}).items()}
    for each in met:
        mine.setdefault(str(each.requirement.profile), {})[each.requirement.id] = round(each.duration, 2)
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        newest = [*everything.items(), (kind, mine)][-_KINDS:]
        write_whole(_file(), json.dumps(dict(newest), indent=1))


def _all_remembered() -> dict[str, Table]:
    try:
        loaded = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(kind): _checked(table) for kind, table in loaded.items()} if isinstance(loaded, dict) else {}


def _file() -> Path:
    return default_folder() / "durations.json"


def _kind(settings: Settings, suite: Path) -> str:
    """Return the kind of a run. Runs of one kind take equally long: same suite, backend and components."""
    components = (str(settings.proxy), settings.mode, settings.dns, settings.control_plane, settings.controller)
    return " ".join(filter(None, (settings.backend, *components, str(suite))))


def _checked(table: Any) -> Table:
    """Return the valid part of a loaded table."""
    if not isinstance(table, dict):
        return {}
    return {
        str(profile): {str(each): float(s) for each, s in mine.items() if isinstance(s, (int, float)) and s >= 0}
        for profile, mine in table.items()
        if isinstance(mine, dict)
    }


def as_yaml(tests: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the `tests` of a report that passed, by profile and id."""
    table: dict[str, dict[str, float]] = {}
    for test in sorted(tests, key=lambda each: (each["profile"], each["id"])):
        if test["verdict"] == "passed":
            table.setdefault(test["profile"].lower(), {})[test["id"]] = round(test["durationSeconds"], 2)
    rows = ((f"{profile}:", *(f"  {name}: {s}" for name, s in mine.items())) for profile, mine in table.items())
    return "".join(f"{line}\n" for row in rows for line in row)


if __name__ == "__main__":
    from harness.report.conformance import read_report

    sys.stdout.write(as_yaml(read_report(sys.argv[1])["tests"]))
