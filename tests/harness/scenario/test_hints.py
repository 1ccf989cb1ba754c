"""Tests how scenarios read the hints of a controller. Hints can be spread over slices in any way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.manifests import Hints, Object
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import recheck
from harness.scenario.hints import evidence_of_successful_sync, expect_conditions, expect_hints, written_endpoints
from harness.scenario.record import ScenarioRecord
from harness.scenario.service import Service

WEB = Service({"metadata": {"name": "web", "namespace": "shop"}, "spec": {}}, ())


class _ClusterWithSlices:
    """A cluster with these EndpointSlices."""

    converges_within = 0.0

    def __init__(self, *slices: Object) -> None:
        self._slices = slices
        restored = SimpleNamespace(await_pods=self.await_pods)
        self.api = self.backend = SimpleNamespace(writes=0, changes=0, restored=restored)
        self.record = ScenarioRecord("t")
        self.pod_variation = SimpleNamespace(wrong_port=lambda *_: "")
        self.compared: dict[str, tuple[Any, Any]] = {}

    def disturb(self, _: Service) -> bool:
        return False

    def slices(self, _: Service) -> Sequence[Object]:
        return self._slices

    def await_pods(self) -> None: ...

    def took(self, what: str, seconds: float) -> None: ...

    def settle(self) -> None: ...

    def expect_equal(self, what: str, *, expected: Any, observed: Any, **_: str) -> None:
        self.compared[what] = (expected, observed)


def _cluster(*slices: Object) -> Cluster:
    return cast("Cluster", _ClusterWithSlices(*slices))


def _slice(name: str, port: str, *endpoints: Object) -> Object:
    ports = [{"name": port, "port": 8080, "protocol": "TCP"}]
    return {"metadata": {"name": name}, "addressType": "IPv4", "ports": ports, "endpoints": list(endpoints)}


def _endpoint(pod: str, *zones: str, **conditions: bool) -> Object:
    hints = {"hints": {"forZones": [{"name": each} for each in zones]}} if zones else {}
    return {"addresses": ["10.244.1.2"], "targetRef": {"name": pod}, "conditions": conditions, **hints}


def test_pod_in_a_slice_of_each_port_is_one_endpoint() -> None:
    cluster = _cluster(_slice("one", "web", _endpoint("p1", "a")), _slice("two", "tls", _endpoint("p1", "a")))
    (written,) = written_endpoints(cluster, WEB).values()
    assert (written.hints, written.slices) == (Hints(zones=("a",)), ("one", "two"))


def test_slices_that_differ_about_a_pod_are_both_reported() -> None:
    cluster = _cluster(_slice("one", "web", _endpoint("p1", "a")), _slice("two", "tls", _endpoint("p1")))
    assert list(written_endpoints(cluster, WEB)) == ["p1", "p1 again, in two"]


def test_duplicate_pod_in_slices_of_one_port_is_reported() -> None:
    cluster = _cluster(_slice("one", "web", _endpoint("p1")), _slice("two", "web", _endpoint("p1")))
    assert list(written_endpoints(cluster, WEB)) == ["p1", "p1 again, in two"]


def test_omitted_conditions_have_their_api_defaults() -> None:
    endpoints = (
        _endpoint("ready"),
        _endpoint("starting", ready=False),
        _endpoint("leaving", ready=False, terminating=True),
    )
    cluster = _ClusterWithSlices(_slice("one", "web", *endpoints))
    expected = {"ready": (True, True, False), "starting": (False, False, False), "leaving": (False, True, True)}
    expect_conditions(cast("Cluster", cluster), WEB, expected)
    assert [observed for _, observed in cluster.compared.values()] == list(expected.values())


class _LaterBrokenSlices(_ClusterWithSlices):
    converges_within = 0.05

    def settle(self) -> None:
        self._slices = ()


def test_correct_first_result_is_judged_after_the_controller_settled() -> None:
    cluster = _LaterBrokenSlices(_slice("one", "web", _endpoint("p1", ready=True)))
    expect_conditions(cast("Cluster", cluster), WEB, {"p1": (True, True, False)})
    assert [observed for _, observed in cluster.compared.values()] == [None]


class _SlicesWithoutNodes(_ClusterWithSlices):
    converges_within = 0.05


class _LateKubeletSlices(_ClusterWithSlices):
    converges_within = 0.01

    def await_pods(self) -> None:
        time.sleep(0.05)
        self._slices = (_slice("one", "web", _endpoint("p1", "a")),)


def test_time_taken_by_kubelets_does_not_count_for_the_controller() -> None:
    cluster = _LateKubeletSlices()
    expect_hints(cast("Cluster", cluster), WEB, {"p1": Hints(zones=("a",))})
    assert list(cluster.compared.values()) == [({"p1": "zones=a"}, {"p1": "zones=a"})]


@pytest.mark.parametrize(
    ("exactly", "others", "observed"),
    [(False, None, "zones=a"), (True, None, "zones=a nodes=n"), (False, Hints(("a",), ("n",)), "zones=a nodes=n")],
)
def test_node_hints_beside_zone_hints_count_only_in_tables_about_nodes(
    exactly: bool, others: Hints | None, observed: str
) -> None:
    both = {"forZones": [{"name": "a"}], "forNodes": [{"name": "n"}]}
    endpoints = [{**_endpoint(name), "hints": both} for name in ("p1", "p2")]
    cluster = _SlicesWithoutNodes(_slice("one", "web", *endpoints))
    expected = {"p1": Hints(zones=("a",)), "p2": others or Hints(zones=("a",))}
    expect_hints(cast("Cluster", cluster), WEB, expected, exactly=exactly)
    ((_, seen),) = cluster.compared.values()
    assert seen["p1"] == observed


LEFT_ALONE = "the IPv4 endpoints of service web, left alone"


def test_correct_slices_are_checked_again_at_the_end() -> None:
    cluster = _ClusterWithSlices(_slice("one", "web", _endpoint("p1", "a")))
    expect_hints(cast("Cluster", cluster), WEB, {"p1": Hints(zones=("a",))})
    recheck(cast("Cluster", cluster))
    assert cluster.compared[LEFT_ALONE] == ({"p1": "zones=a"}, {"p1": "zones=a"})

    cluster._slices = (_slice("one", "web", _endpoint("p1")),)
    recheck(cast("Cluster", cluster))
    assert cluster.compared[LEFT_ALONE] == ({"p1": "zones=a"}, {"p1": "no hints"})


@pytest.mark.parametrize("change", ["writes", "changes"])
def test_slices_from_before_a_change_are_not_checked_again(change: str) -> None:
    cluster = _ClusterWithSlices(_slice("one", "web", _endpoint("p1", "a")))
    expect_hints(cast("Cluster", cluster), WEB, {"p1": Hints(zones=("a",))})
    setattr(cluster.api, change, 1)
    recheck(cast("Cluster", cluster))
    assert LEFT_ALONE not in cluster.compared


def test_written_slice_shows_that_no_sync_failed() -> None:
    assert evidence_of_successful_sync(_cluster(), WEB) == ""
    said = evidence_of_successful_sync(_cluster(_slice("one", "web")), WEB)
    assert said == "no sync failed: slices of service web were written (one)"
