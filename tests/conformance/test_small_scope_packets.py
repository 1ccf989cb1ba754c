"""A sample of the states of the small scope, with packets: the reference's rules do what its decisions say."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from conformance import oracle
from conformance.interactions.cells import service_fields
from conformance.small_scope import POLICIES, Endpoint, questions, right, sets
from mutants import MUTANTS, Mutant
from tests.conformance.mutant_trials import MutantTrial, time_scaled
from trafficdist import (
    NO_ANSWER,
    REFUSED,
    TIMED_OUT,
    Client,
    ClientRef,
    Cluster,
    Expected,
    ExpectedTraffic,
    Pod,
    Rates,
    endpoint,
    expect_concurrent_traffic,
)

SEED, STATES = 20261127, 30
PLACES = {"a1": "a", "b1": "b", "c1": "c"}
"""The nodes of clients. In this scope c1, whose zone nothing names, is like a node without zone."""

SILENT: Mapping[Any, Expected] = {
    oracle.NoReply.DROPPED: TIMED_OUT,
    oracle.NoReply.REFUSED: REFUSED,
    oracle.NoReply.EITHER: NO_ANSWER,
}

RATES = Rates(leak=0.25)  # as in the grid, a rule is right or completely wrong


@dataclass(frozen=True)
class SampledState:
    """A set of endpoints, both policies, a kind of client and of address, and the policy that applies to them."""

    endpoints: tuple[Endpoint, ...]
    internal: oracle.Policy
    external: oracle.Policy
    client: oracle.ClientKind
    to: oracle.AddressKind
    policy: oracle.Policy

    def outcomes(self) -> dict[str, oracle.Outcome]:
        """Return the outcome for a client on each node."""
        return {node: right(self.endpoints, node, zone, self.policy, "released") for node, zone in PLACES.items()}

    @property
    def fields(self) -> dict[str, Any]:
        return service_fields(
            {
                "address": self.to,
                "internal": self.internal,
                "external": self.external,
                "distribution": "PreferSameNode",
                "affinity": "None",
                "family": "IPv4",
            }
        )


def sample() -> dict[str, SampledState]:
    """Return states of three endpoints by name. By chance alone, most states would have neither hints nor drops."""
    chance, found = random.Random(SEED), dict[str, SampledState]()
    wanted = ["zone hints", "node hints", "all endpoints", "the node", "termination", "silence"]
    chosen = list(sets(3))
    while len(found) < STATES:
        internal, external = chance.choice(POLICIES), chance.choice(POLICIES)
        pair = chance.choice(questions(oracle.Policies(internal, external)))
        asked = SampledState(chance.choice(chosen), internal, external, *pair)
        if wanted[len(found) % len(wanted)] in {_by(each) for each in asked.outcomes().values()}:
            found[f"state-{len(found)}"] = asked
    return found


def _by(outcome: oracle.Outcome) -> str:
    return outcome.by if isinstance(outcome, oracle.AllowedPods) else "silence"


def _question(name: str, service: Any, asked: SampledState, told: Mapping[str, Expected]) -> ExpectedTraffic:
    clients: dict[ClientRef, Expected] = {Client(asked.client, node): each for node, each in told.items()}
    return ExpectedTraffic(name, service, clients, to=asked.to)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_packets_follow_the_oracle_in_a_sample_of_states(trial: Callable[[Mutant], MutantTrial]) -> None:
    with trial(Mutant("none", "No fault.")).cluster("small scope") as cluster:
        _expect_sample(cluster)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mixes-terminating-with-ready", "rejects-where-drop-is-due"])
def test_sample_reveals_wrong_decisions(name: str, trial: Callable[[Mutant], MutantTrial]) -> None:
    with (
        time_scaled(0.3),
        trial(MUTANTS[name]).cluster("small scope") as cluster,
        pytest.raises(AssertionError, match=r"of 30 addresses have unexpected traffic"),
    ):
        _expect_sample(cluster)


def _expect_sample(cluster: Cluster) -> None:
    servers = {node: cluster.run_servers([node] * 3) for node in ("a1", "b1")} | {"c1": cluster.run_servers(["c1"])}
    everyone = [pod for pods in servers.values() for pod in pods]
    states = sample()
    services = {name: cluster.create_service(name, **asked.fields) for name, asked in states.items()}
    for service in services.values():  # silence means something only after the Service has answered
        cluster.publish(service, [endpoint(each) for each in everyone], name="speech")
    spoken = {
        name: _question(
            name, services[name], asked, {n: {*(everyone if asked.policy == "Cluster" else servers[n])} for n in PLACES}
        )
        for name, asked in states.items()
    }
    expect_concurrent_traffic(cluster, list(spoken.values()), rates=RATES, timed=False)

    asked_now = []
    for name, asked in states.items():
        left = {node: list(pods) for node, pods in servers.items()}
        pods = {each.address: left[each.node].pop() for each in asked.endpoints}
        cluster.publish(services[name], [_published(pods[each.address], each) for each in asked.endpoints])
        cluster.unpublish(services[name], "speech")
        asked_now.append(_question(name, services[name], asked, _expected(asked, pods)))
    expect_concurrent_traffic(cluster, asked_now, rates=RATES, timed=False)


def _published(pod: Pod, each: Endpoint) -> Any:
    conditions = {"ready": each.ready, "serving": each.serving, "terminating": each.terminating}
    return endpoint(pod, zones=each.zone_hints, nodes=each.node_hints, **conditions)


def _expected(asked: SampledState, pods: Mapping[str, Pod]) -> dict[str, Expected]:
    return {
        node: {pods[address] for address in told.pods} if isinstance(told, oracle.AllowedPods) else SILENT[told]
        for node, told in asked.outcomes().items()
    }
