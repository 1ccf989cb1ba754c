"""Tests that a scenario is unavailable if the backend lacks an ability, and that a scenario's needs are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.api.name_translation import NameTranslation
from harness.backends.any_cluster.target import ClusterTarget
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.protocols import (
    VIRTUAL,
    ClientNetns,
    ControllerMetrics,
    FlushesConntrack,
    NodePower,
    OpensConnections,
    ProxyMetrics,
    RecordsApiReads,
    SendsHttpRequests,
    ServesDns,
    VirtualAddresses,
)
from harness.backends.scenario_backend import ScenarioBackend
from harness.errors import UnavailableError
from harness.model.abilities import EVERYTHING, Ability
from harness.model.release import API_SERVER, Release
from harness.model.topology import THREE_ZONES
from harness.model.workloads import Client, external_client, pod_client


class _UnusedApi:
    """An API to which no request is sent."""

    asked = ()

    def close(self) -> None: ...


def backend(*abilities: Ability) -> ScenarioBackend:
    """Return a backend that claims these abilities. The backend's class implements only a few of the protocols."""
    api: Any = _UnusedApi()
    target = ClusterTarget("", "", "abcd1234", NameTranslation(), THREE_ZONES, frozenset(abilities))
    return ScenarioBackend(KubeconfigBackend(target, api))


USES: dict[Ability, Callable[[ScenarioBackend], object]] = {
    Ability.SOURCE_PORTS: lambda backend: backend.part(ClientNetns),
    Ability.OTHER_PROGRAMS: lambda backend: backend.part(ClientNetns, Ability.OTHER_PROGRAMS),
    Ability.OPEN_CONNECTIONS: lambda backend: backend.part(OpensConnections),
    Ability.HTTP: lambda backend: backend.part(SendsHttpRequests, client=pod_client("a1")),
    Ability.LOAD_BALANCER: lambda backend: backend.part(VirtualAddresses, VIRTUAL["load-balancer"]),
    Ability.EXTERNAL_IPS: lambda backend: backend.part(VirtualAddresses, VIRTUAL["external-ip"]),
    Ability.DNS: lambda backend: backend.part(ServesDns),
    Ability.CONTROLLER_METRICS: lambda backend: backend.part(ControllerMetrics),
    Ability.API_READS: lambda backend: backend.part(RecordsApiReads),
    Ability.STOP_NODES: lambda backend: backend.part(NodePower),
    Ability.RESTART_API_SERVER: lambda backend: backend.releases.start(API_SERVER, Release(), []),
}


@pytest.mark.parametrize("ability", USES)
def test_missing_protocol_is_unavailable_by_the_name_of_its_ability(ability: Ability) -> None:
    with pytest.raises(UnavailableError, match=f"^backend kubeconfig has no {ability} here$"):
        USES[ability](backend(*EVERYTHING))


def test_missing_ability_is_unavailable_even_if_the_type_has_the_protocol() -> None:
    with pytest.raises(UnavailableError, match=r"^backend kubeconfig has no proxy-metrics here$"):
        backend().part(ProxyMetrics, nodes=["a1"])


@pytest.mark.parametrize(
    ("client", "needed"), [(external_client("b1"), {"external-client"}), (pod_client("b1"), set())]
)
def test_missing_needs_are_recorded(client: Client, needed: set[str]) -> None:
    asked = backend(Ability.EXTERNAL_CLIENT)
    with pytest.raises(UnavailableError, match="has no http here"):
        asked.part(SendsHttpRequests, client=client)
    assert asked.needs.abilities == {"http", *needed}
    assert asked.needs.nodes == {"b1"}


def test_optional_protocol_that_is_missing_is_none() -> None:
    assert backend().find(FlushesConntrack) is None
