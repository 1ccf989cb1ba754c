"""Tests scenarios that use a cluster's API and send packets themselves, including scenarios that agnhost cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import conformance
from harness.backends.implementation import reference
from harness.model.abilities import Ability
from harness.plugin.evidence import gather
from harness.scenario.service import endpoint
from harness.scenario.traffic import expect_traffic
from mutants import MUTANTS
from tests.conformance.mutant_trials import SCENARIOS
from tests.harness.backends.any_cluster.conftest import RESTARTS
from tests.harness.backends.containers.conftest import Inhabited

NEARBY = "KEP-4444/zone-hints-keep-traffic-in-the-zone"
SCHEMA = json.loads((Path(conformance.__file__).parents[1] / "harness/report/schema.json").read_text())
OF_REPORTS = SCHEMA["properties"]["environment"]["properties"]
QUICK = [
    "KEP-1669/last-endpoint-is-replaced-without-loss",  # steady traffic, TCP and UDP
    "SERVICE/udp-flows-at-external-addresses",  # long-lived flows, also from outside the cluster
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
def test_reference_passes_with_packets(inhabited: Inhabited, requirement: str) -> None:
    run(inhabited, requirement)


def test_fault_is_found_with_packets_and_its_path_is_traced(inhabited: Inhabited) -> None:
    cluster = inhabited(reference(MUTANTS["ignores-zone-hints"]))(converges_within=1)
    with pytest.raises(AssertionError, match="not allowed"):
        SCENARIOS[NEARBY].test(cluster)
    texts = gather({"three_zones": cluster}, evidence=True).texts
    assert "eth0" in texts["network-a1.txt"]
    assert "dport=80" in texts["connections-a1.txt"]
    assert cluster.backend.booted.environment().keys() <= OF_REPORTS.keys()
    paths = [str(text) for name, text in texts.items() if name.startswith("path-")]
    assert paths
    assert not any("which rules handled the packet:" in each for each in paths)


@pytest.mark.slow
def test_stopped_components_are_waited_for(inhabited: Inhabited) -> None:
    run(inhabited, "KEP-4444/proxy-catches-up", "", *RESTARTS)


@pytest.mark.slow
def test_stopped_node_is_waited_for_and_not_probed(inhabited: Inhabited) -> None:
    run(inhabited, "KEP-4444/zone-outlives-its-node", "", Ability.STOP_NODES)


def test_unchanged_pod_serves_the_next_scenario(inhabited: Inhabited) -> None:
    new_cluster = inhabited()
    cluster = new_cluster()
    kept, changed = cluster.run_servers(["a1", "b1"])
    (labelled,) = cluster.run_servers(["c1"], labels={"app": "web"})
    cluster.begin_termination(changed.name)
    cluster.close()
    cluster = new_cluster()
    again = cluster.run_servers(["a1", "a1", "b1", "c1"])
    assert again[0].addresses == kept.addresses
    assert not {changed.addresses["IPv4"], labelled.addresses["IPv4"]} & {pod.addresses["IPv4"] for pod in again}
    service = cluster.create_service()
    cluster.publish(service, [endpoint(pod) for pod in again])
    expect_traffic(cluster, service, {"a1": set(again)})


def test_deleted_pooled_pod_does_not_answer(inhabited: Inhabited) -> None:
    cluster = inhabited()()
    (pod,) = cluster.run_servers(["a1"])
    cluster.delete_pod(pod)
    (other,) = cluster.run_servers(["a1"])
    assert other.name == pod.name
    assert other.addresses != pod.addresses


def test_scenarios_have_different_virtual_addresses(inhabited: Inhabited) -> None:
    """The Services of a scenario are deleted some seconds after its end.

    Meanwhile the next scenario must use other addresses.
    """
    new_cluster = inhabited()
    given = []
    for _ in range(3):
        cluster = new_cluster()
        given += [
            str(cluster.backend.booted.virtual_addresses("load-balancer", "a1", number)) for number in range(1, 61)
        ]
    assert len(set(given)) == len(given)
