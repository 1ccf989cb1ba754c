"""Scenarios on a cluster that is made by its API and asked by packets: what agnhost cannot ask is asked too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import conformance
from harness.backends.implementation import reference
from harness.model.abilities import Ability
from harness.plugin.evidence import gather
from mutants import MUTANTS
from tests.conformance.trials import SCENARIOS
from tests.harness.backends.any_cluster.conftest import RESTARTS
from tests.harness.backends.containers.conftest import Inhabited

NEARBY = "KEP-4444/zone-hints-keep-traffic-in-the-zone"
SCHEMA = json.loads((Path(conformance.__file__).parents[1] / "harness/report/schema.json").read_text())
OF_REPORTS = SCHEMA["properties"]["environment"]["properties"]
QUICK = [
    "KEP-1669/last-endpoint-is-replaced-without-loss",  # steady traffic, TCP and UDP
    "SERVICE/udp-flows-at-external-addresses",  # flows that stay, from outside too
]
OTHERS = [
    "KEP-1669/established-connections-outlive-the-choice",
    "AFFINITY/stays-within-hints-at-load-balancers",
    "HEALTH/check-node-port-tells-name-and-number",
]


def run(inhabited: Inhabited, requirement: str, mutant: str = "", *abilities: Ability) -> None:
    implementation = reference(MUTANTS[mutant]) if mutant else None
    scenario = SCENARIOS[requirement]
    scenario.test(inhabited(implementation, *abilities)(), **scenario.cases[0])


@pytest.mark.parametrize("requirement", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)])
def test_the_reference_meets_it_by_packets(inhabited: Inhabited, requirement: str) -> None:
    run(inhabited, requirement)


def test_a_fault_is_found_by_packets_and_its_path_is_followed(inhabited: Inhabited) -> None:
    cluster = inhabited(reference(MUTANTS["ignores-zone-hints"]))(converges_within=1)
    with pytest.raises(AssertionError, match="not allowed"):
        SCENARIOS[NEARBY].test(cluster)
    texts = gather({"three_zones": cluster}, evidence=True).texts
    assert "eth0" in texts["network-a1.txt"]
    assert "dport=80" in texts["connections-a1.txt"]
    assert cluster.backend.environment().keys() <= OF_REPORTS.keys()
    paths = [str(text) for name, text in texts.items() if name.startswith("path-")]
    assert paths
    assert not any("which rules took it:" in each for each in paths)


@pytest.mark.slow
def test_components_that_were_away_are_waited_for(inhabited: Inhabited) -> None:
    run(inhabited, "KEP-4444/proxy-catches-up", "", *RESTARTS)


@pytest.mark.slow
def test_a_node_that_is_off_is_waited_for_and_asked_no_more(inhabited: Inhabited) -> None:
    run(inhabited, "KEP-4444/zone-outlives-its-node", "", Ability.STOP_NODES)
