"""A quick run of the suite: the same everywhere, half a minute by the tables, and most of what mutants there are."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformance
from harness.report import durations
from harness.run.plan import reason_to_skip
from harness.run.quick import BUDGET, Quick, choose
from harness.settings.options import resolve
from tests.conformance.trials import SCENARIOS

SUITE = Path(conformance.__file__).parent
KUBE_PROXY = {"proxy": "kube-proxy:1.37.2"}
RENEW = "python -m harness.report.durations RUN > conformance/{}"


def chosen(**options: str) -> Quick:
    """What `trafficdist run --quick` asks with these options."""
    settings = resolve({"backend": "netns", "quick": "yes", **options}, environment={})
    asked = [each.requirement for each in SCENARIOS.values() if not reason_to_skip(each.requirement, settings)[0]]
    return choose(asked, durations.expected(settings, SUITE), settings)


@pytest.mark.parametrize("file", [durations.FILE, durations.OF_PROGRAMS])
def test_each_line_of_a_table_is_about_a_requirement(file: str) -> None:
    table = durations.of_suite(SUITE, file)
    gone = {name for mine in table.values() for name in mine} - SCENARIOS.keys()
    assert table
    assert gone == set(), f"remove these lines, or measure anew with a whole run: {RENEW.format(file)}"


def test_most_requirements_of_a_proxy_were_measured_with_a_program() -> None:
    reference, programs = (durations.of_suite(SUITE, file) for file in (durations.FILE, durations.OF_PROGRAMS))
    share = len(programs["service-proxy"]) / len(reference["service-proxy"])
    assert share >= 0.7, f"measure anew with a whole run of kube-proxy: {RENEW.format(durations.OF_PROGRAMS)}"


@pytest.mark.parametrize(
    ("options", "share"),  # 0.67, 0.59, 0.66, 1.00 … were measured
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
def test_half_a_minute_finds_most_mutants(options: dict[str, str], share: float) -> None:
    found = chosen(**options)
    assert found.seconds <= BUDGET
    assert found.mutants / found.of_mutants >= share, str(found)


def test_what_this_machine_remembers_does_not_change_the_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = chosen(**KUBE_PROXY)
    settings = resolve({"backend": "netns", **KUBE_PROXY}, environment={})
    kind = durations._kind(settings, SUITE)
    slow = dict.fromkeys(before.ids, 100.0)
    monkeypatch.setattr(durations, "_all_remembered", lambda: {kind: {"service-proxy": slow}})
    assert durations.expected(settings, SUITE)[before.ids[0]] == 100.0
    assert chosen(**KUBE_PROXY) == before
