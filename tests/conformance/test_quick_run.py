"""A quick run always selects the same requirements, is estimated at half a minute, and kills most mutants."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformance
from harness.model import needs
from harness.model.needs import Needs
from harness.run import durations
from harness.run.plan import reason_to_skip
from harness.run.quick_selection import BUDGET, QuickSelection, choose
from harness.settings.options import resolve
from tests.conformance.mutant_trials import SCENARIOS

SUITE = Path(conformance.__file__).parent
KUBE_PROXY = {"proxy": "kube-proxy:1.37.2"}


def chosen(**options: str) -> QuickSelection:
    """Return the requirements that `trafficdist run --quick` selects with these options."""
    settings = resolve({"backend": "netns", "quick": "yes", **options}, environment={})
    asked = [each.requirement for each in SCENARIOS.values() if not reason_to_skip(each.requirement, settings)[0]]
    table = needs.read(SUITE)
    seconds = {
        each.id: durations.estimate(each, table.get(each.id, Needs()), declared=_declared(each.id)) for each in asked
    }
    return choose(asked, seconds, settings)


def _declared(name: str) -> float:
    marks = getattr(SCENARIOS[name].test, "pytestmark", [])
    return next((mark.args[0] for mark in marks if mark.name == "takes"), 0.0)


@pytest.mark.parametrize(
    ("options", "share"),  # measured: 0.67, 0.59, 0.66, 1.00 …
    [
        ({}, 0.65),
        (KUBE_PROXY, 0.56),
        ({"profile": "service-proxy"}, 0.63),
        ({"profile": "cluster"}, 0.98),
        ({"profile": "endpointslice-controller"}, 1.0),
        ({"profile": "dns"}, 1.0),
        ({"profile": "api-server"}, 1.0),
    ],
)
def test_quick_run_of_half_a_minute_kills_most_mutants(options: dict[str, str], share: float) -> None:
    found = chosen(**options)
    assert found.seconds <= BUDGET
    assert found.mutants / found.of_mutants >= share, str(found)
