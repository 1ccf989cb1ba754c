"""A scenario asks a view; what the backend lacks is said by its name, and what was needed is noted."""

from __future__ import annotations

from typing import Any

import pytest

from harness.backends.any_cluster.names import Names
from harness.backends.any_cluster.target import ClusterTarget
from harness.backends.kubeconfig import KubeconfigBackend
from harness.backends.view import View
from harness.errors import UnavailableError
from harness.model.abilities import EVERYTHING, Ability
from harness.model.release import API_SERVER, PROXY, Release
from harness.model.topology import THREE_ZONES
from harness.model.workloads import Client, external_client, pod_client


class _Api:
    """Asked for nothing."""

    asked = ()

    def close(self) -> None: ...


def view(*abilities: Ability) -> View:
    """A view of a cluster that is only said to have these abilities: its type has few of them."""
    api: Any = _Api()
    return View(KubeconfigBackend(ClusterTarget("", "", "abcd1234", Names(), THREE_ZONES, frozenset(abilities)), api))


ASKED = {
    Ability.SOURCE_PORTS: lambda view: view.namespace_of(pod_client("a1")),
    Ability.HTTP: lambda view: view.http_get(pod_client("a1"), "10.0.0.1", 80, "/"),
    Ability.LOAD_BALANCER: lambda view: view.virtual_addresses("load-balancer", "a1", 1),
    Ability.EXTERNAL_IPS: lambda view: view.virtual_addresses("external-ip", "a1", 1),
    Ability.DNS: lambda view: view.dns(),
    Ability.CONTROLLER_METRICS: lambda view: view.controller_metrics(),
    Ability.API_READS: lambda view: view.reads(PROXY, since=0),
    Ability.STOP_NODES: lambda view: view.stop_node("a1"),
    Ability.RESTART_API_SERVER: lambda view: view.start_component(API_SERVER, Release(), []),
}


@pytest.mark.parametrize("ability", ASKED)
def test_what_a_backend_is_not_of_the_type_for_is_refused_by_the_name_of_the_ability(ability: Ability) -> None:
    with pytest.raises(UnavailableError, match=f"^backend kubeconfig has no {ability} here$"):
        ASKED[ability](view(*EVERYTHING))


def test_what_a_backend_does_not_offer_is_refused_even_where_its_type_could() -> None:
    with pytest.raises(UnavailableError, match=r"^backend kubeconfig has no proxy-metrics here$"):
        view().proxy_metrics("a1")


@pytest.mark.parametrize(
    ("client", "needed"), [(external_client("b1"), {"external-client"}), (pod_client("b1"), set())]
)
def test_what_is_needed_is_noted_though_it_is_not_there(client: Client, needed: set[str]) -> None:
    asked = view(Ability.EXTERNAL_CLIENT)
    with pytest.raises(UnavailableError, match="has no http here"):
        asked.http_get(client, "10.0.0.1", 80, "/")
    assert asked.needs.abilities == {"http", *needed}
    assert asked.needs.nodes == {"b1"}


def test_who_knows_no_connections_has_none_to_forget() -> None:
    view().forget_connections()
