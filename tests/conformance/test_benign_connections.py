"""Variants translate a pod's connections in the netns that their description names: the node's or the pod's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.scenario.evidence import explain_failure
from mutants import BENIGN, Mutant
from tests.conformance.mutant_trials import MutantTrial
from trafficdist import TCP, endpoint, expect_traffic


@pytest.mark.parametrize(("name", "at_the_node"), [("translates-at-the-client", False), ("takes-turns", True)])
def test_pod_connections_are_translated_in_the_stated_netns(
    name: str, at_the_node: bool, trial: Callable[[Mutant], MutantTrial]
) -> None:
    with trial(BENIGN[name]).cluster("test") as cluster:
        client, server = cluster.run_servers(on=["a1", "b1"])  # the rules in a pod are updated at the next change
        service = cluster.create_service(ports=[TCP])
        cluster.publish(service, [endpoint(server)])
        expect_traffic(cluster, service, {client: {server}})
        connections = dict(explain_failure(cluster, cluster.record))["connections-a1.txt"].splitlines()

    begun = [line.split(" dst=")[1].split(" ")[0] for line in connections if line.startswith("tcp ")]
    assert {*begun} == {service.cluster_ip("IPv4") if at_the_node else server.addresses["IPv4"]}
