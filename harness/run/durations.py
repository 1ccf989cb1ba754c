"""The expected duration of each requirement, which is the same on every machine."""

import math
from collections import Counter
from pathlib import Path

from harness.errors import UsageError
from harness.model import needs
from harness.model.abilities import Ability
from harness.model.needs import Needs
from harness.model.requirements import Profile, Requirement
from harness.run.plan import Plan, matches
from harness.run.random_values import TYPICAL
from harness.settings.settings import Settings

# Fitted to runs of the reference on the embedded cluster in 2026-11. The fit explains two thirds of the variance of
# log(seconds).
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


def estimate(requirement: Requirement, needed: Needs, *, cases: int = 1, declared: float = 0.0) -> float:
    """Return a requirement's estimated duration in s. `declared` is the value of the test's marker `takes`, or 0."""
    if declared:
        return declared
    factor = math.prod(each for ability, each in _FACTORS.items() if ability in needed.abilities)
    size = math.exp(0.2 * len(needed.nodes)) * (1 + len(requirement.kills)) ** 0.3 * math.sqrt(cases)
    return round(float(_BASE[requirement.profile] * factor * size), 2)


def before_collection(settings: Settings, suite: Path) -> dict[str, float]:
    """Return the duration `TYPICAL` for each selected requirement in the suite's table of needs."""
    try:
        known = needs.read(suite)
    except UsageError:  # the suite has no table
        return {}
    chosen = [each for each in known if not settings.run_test or matches(each, settings.run_test)]
    return {each: TYPICAL for each in chosen if not matches(each, settings.skip_tests)}


def by_case(plan: Plan) -> dict[str, float]:
    """Return the expected duration in s of each case, by node id. Cases get equal shares of a requirement's time."""
    cases = [case for case in plan.cases if case.to_run]
    number = Counter(each.requirement for each in cases)
    return {case.nodeid: plan.seconds.get(case.requirement, TYPICAL) / number[case.requirement] for case in cases}
