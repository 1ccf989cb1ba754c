"""The duration of each requirement, as measured by earlier runs on this machine, or estimated otherwise.

A run starts the longest requirements first, and uses durations to choose the number of workers and to estimate the
remaining time. Verdicts do not depend on durations, so cache errors are ignored. The choice of a quick run uses only
estimates, which makes it identical on every machine.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.binaries.cache import default_folder
from harness.errors import UsageError
from harness.judging.results import Result
from harness.judging.verdict import Verdict
from harness.model import needs
from harness.model.abilities import Ability
from harness.model.needs import Needs
from harness.model.requirements import Profile, Requirement
from harness.run.folder import write_whole
from harness.run.plan import Plan, matches
from harness.settings.settings import Settings

TYPICAL = 1.5
"""The estimate in seconds for a requirement of which only the id is known."""

_KINDS = 20  # the maximum number of kinds of runs in the cache; the newest are kept
_SAME = 2.0  # a new duration replaces a cached duration if the two differ by this factor

# A fit to the reference on the embedded cluster, 2026-11: it explains two thirds of the variance of log(seconds).
_BASE = {
    Profile.API_SERVER: 0.13,
    Profile.CLUSTER: 0.4,
    Profile.DNS: 0.08,
    Profile.ENDPOINTSLICE_CONTROLLER: 0.08,
    Profile.SERVICE_PROXY: 0.24,
}
_FACTORS = {
    Ability.EXTERNAL_CLIENT: 1.5,
    Ability.EXTERNAL_IPS: 1.8,
    Ability.HOST_NETWORK: 2.5,
    Ability.MANY_PORTS: 2.5,
    Ability.REPORT_NODES: 1.6,
    Ability.SOURCE_PORTS: 4.0,
    Ability.UNDISTURBED: 5.0,
}

Table = Mapping[str, Mapping[str, float]]
"""The duration in seconds of each requirement, grouped by profile."""


def estimate(requirement: Requirement, needed: Needs, *, cases: int = 1, declared: float = 0.0) -> float:
    """Return the estimated seconds of a requirement. `declared` is the value of the test's marker `takes`."""
    if declared:
        return declared
    factor = math.prod(each for ability, each in _FACTORS.items() if ability in needed.abilities)
    size = math.exp(0.2 * len(needed.nodes)) * (1 + len(requirement.kills)) ** 0.3 * math.sqrt(cases)
    return round(float(_BASE[requirement.profile] * factor * size), 2)


def before_collection(settings: Settings, suite: Path) -> dict[str, float]:
    """Return the known seconds of each requirement that the options select, before collection."""
    with contextlib.suppress(UsageError):
        known = dict.fromkeys(needs.read(suite), TYPICAL) if not settings.profile else {}
        known |= cached(settings, suite)
        chosen = {name for name in known if not settings.run_test or matches(name, settings.run_test)}
        return {name: known[name] for name in known if name in chosen and not matches(name, settings.skip_tests)}
    return {}


def by_case(plan: Plan) -> dict[str, float]:
    """Return seconds by node id of cases to run. The cases of a requirement share its time equally."""
    cases = [case for case in plan.cases if case.to_run]
    number = Counter(each.requirement for each in cases)
    return {case.nodeid: plan.seconds.get(case.requirement, TYPICAL) / number[case.requirement] for case in cases}


def cached(settings: Settings, suite: Path) -> dict[str, float]:
    """Return seconds by requirement from earlier runs of the same kind, of the profiles that the options select."""
    table = _read().get(_kind(settings, suite), {})
    chosen = [mine for profile, mine in table.items() if not settings.profile or profile in settings.profile]
    return {name: seconds for mine in chosen for name, seconds in mine.items()}


def remember(settings: Settings, suite: Path, results: Sequence[Result]) -> None:
    """Save the durations of requirements that passed. A cached duration is only replaced by a very different one."""
    met = [each for each in results if each.verdict is Verdict.PASSED]
    if settings.mutant or not met:
        return
    everything, kind = dict(_read()), _kind(settings, suite)
    mine = {profile: dict(table) for profile, table in everything.pop(kind, {}).items()}
    for each in met:
        table = mine.setdefault(str(each.requirement.profile), {})
        old, new = table.get(each.requirement.id, 0.0), round(each.duration, 2)
        if not new / _SAME < old < new * _SAME:
            table[each.requirement.id] = new
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        newest = [*everything.items(), (kind, mine)][-_KINDS:]
        write_whole(_file(), json.dumps(dict(newest), indent=1))


def _read() -> dict[str, Table]:
    try:
        loaded = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(kind): _checked(table) for kind, table in loaded.items()} if isinstance(loaded, dict) else {}


def _file() -> Path:
    return default_folder() / "durations.json"


def _kind(settings: Settings, suite: Path) -> str:
    """Return the kind of a run: its suite, backend and components, which determine durations."""
    components = (str(settings.proxy), settings.mode, settings.dns, settings.control_plane, settings.controller)
    return " ".join(filter(None, (settings.backend, *components, str(suite))))


def _checked(table: Any) -> Table:
    if not isinstance(table, dict):
        return {}
    return {
        str(profile): {str(each): float(s) for each, s in mine.items() if isinstance(s, (int, float)) and s >= 0}
        for profile, mine in table.items()
        if isinstance(mine, dict)
    }
