"""The controller's metrics, with the names and labels of each release. Source: KEP-4444, Monitoring Requirements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import generate_latest

from reference.endpointslice.metrics import Metrics
from reference.features import Features
from tests.reference.endpointslice.objects import AUTO, RELEASED, make_pod, make_pods, make_service, plan, release
from tests.reference.endpointslice.running_controller import RunningController, failing

ONE_POD = {"ipFamilies": ["IPv4"]}
KEY = ("default", "web")


class ControllerMetrics:
    """A controller's metrics. Each plan counts as if it had been written."""

    def __init__(self, features: Features | None = None) -> None:
        self.features = features or Features()
        self.metrics = Metrics(self.features)

    def sync(self, *pods: Any, key: tuple[str, str] = KEY, **spec: Any) -> None:
        planned = plan(make_service(**spec), pods, features=self.features, max_endpoints=2)
        self.metrics.planned(key, planned)
        self.metrics.applied(planned)

    def text(self) -> list[str]:
        prefix = "endpoint_slice_controller_"
        lines = generate_latest(self.metrics).decode().splitlines()  # type: ignore[arg-type]
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]

    def values(self, name: str) -> dict[str, float]:
        """Return the values of a metric by the label text in braces."""
        found = (line.rpartition(" ") for line in self.text() if line.split("{")[0].split(" ")[0] == name)
        return {series.removeprefix(name): float(value) for series, _, value in found}


def test_gauges_add_up_over_services() -> None:
    counted = ControllerMetrics()
    counted.sync(*make_pods(3))
    counted.sync(*make_pods(1), key=("default", "other"))
    counted.sync(key=("default", "empty"))
    assert counted.values("endpoints_desired") == {"": 4}
    assert counted.values("num_endpoint_slices") == {"": 4}
    assert counted.values("desired_endpoint_slices") == {"": 4}
    counted.metrics.forget(KEY)
    assert counted.values("endpoints_desired") == {"": 1}


def test_services_are_counted_by_value_and_values_remain_exposed() -> None:
    counted = ControllerMetrics()
    name = "services_count_by_traffic_distribution"
    counted.sync(trafficDistribution="PreferClose")
    counted.sync(trafficDistribution="PreferSameNode", key=("default", "other"))
    counted.sync(key=("default", "plain"))
    assert counted.values(name) == {
        '{traffic_distribution="PreferClose"}': 1,
        '{traffic_distribution="PreferSameNode"}': 1,
    }
    counted.sync()
    counted.metrics.forget(("default", "other"))
    assert set(counted.values(name).values()) == {0}
    assert len(counted.values(name)) == 2


def test_annotated_service_is_not_counted() -> None:
    counted = ControllerMetrics()
    counted.sync(trafficDistribution="PreferClose", annotations=AUTO)
    assert counted.values("services_count_by_traffic_distribution") == {}


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (release("1.37"), '{topology="Disabled",traffic_distribution="PreferClose"}'),
        (release("1.30", ServiceTrafficDistribution=True), '{topology="Disabled",traffic_distribution="PreferClose"}'),
        (release("1.30"), '{topology="Disabled",traffic_distribution=""}'),
        (release("1.29"), '{topology="Disabled"}'),
        (release("1.21"), '{topology="Disabled"}'),
    ],
)
def test_changed_slices_are_labelled_as_in_the_release(features: Features, labels: str) -> None:
    counted = ControllerMetrics(replace(features, follows="released"))
    counted.sync(*make_pods(3), trafficDistribution="PreferClose")
    assert counted.values("endpointslices_changed_per_sync_sum") == {labels: 2}


@pytest.mark.parametrize(("annotations", "approach"), [(AUTO, "auto"), ({}, "random")])
def test_changed_slices_have_the_approach_of_the_kep(annotations: dict[str, str], approach: str) -> None:
    counted = ControllerMetrics(Features(follows="kep"))
    counted.sync(annotations=annotations)
    (labels,) = counted.values("endpointslices_changed_per_sync_count")
    assert f'approach="{approach}"' in labels


def test_annotation_is_the_topology_of_changed_slices() -> None:
    counted = ControllerMetrics(RELEASED)
    counted.sync(annotations=AUTO, trafficDistribution="PreferClose")
    expected = {'{topology="Auto",traffic_distribution=""}': 1.0}
    assert counted.values("endpointslices_changed_per_sync_count") == expected


def test_each_family_is_a_separate_observation() -> None:
    counted = ControllerMetrics()
    counted.sync(make_pod(ips=["10.0.0.1", "fd00::1"]), ipFamilies=["IPv4", "IPv6"])
    assert list(counted.values("endpointslices_changed_per_sync_count").values()) == [2]
    assert counted.values("endpoints_added_per_sync_sum") == {"": 2}


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        ("1.20", {"syncs", "endpointslices_changed_per_sync", "services_count_by_traffic_distribution"}),
        ("1.29", {"services_count_by_traffic_distribution"}),
        ("1.30", set()),
    ],
)
def test_release_has_only_its_own_metrics(version: str, missing: set[str]) -> None:
    names = {each.name.removeprefix("endpoint_slice_controller_") for each in Metrics(release(version)).collect()}
    everything = {each.name.removeprefix("endpoint_slice_controller_") for each in Metrics(Features()).collect()}
    assert everything - names == missing


def test_counters_are_exposed_without_a_suffix() -> None:
    metrics = Metrics(Features())
    metrics.synced("success")
    metrics.wrote("create")
    lines = generate_latest(metrics).decode().splitlines()  # type: ignore[arg-type]
    assert "# TYPE endpoint_slice_controller_syncs counter" in lines
    assert 'endpoint_slice_controller_syncs{result="success"} 1.0' in lines
    assert 'endpoint_slice_controller_changes{operation="create"} 1.0' in lines


@pytest.mark.parametrize(("features", "expected"), [(Features(), "failure"), (RELEASED, "error")])
def test_failed_sync_metric_has_the_name_of_the_kep_or_release(features: Features, expected: str) -> None:
    metrics = Metrics(features)
    metrics.synced("failure")
    assert f'syncs{{result="{expected}"}} 1.0' in generate_latest(metrics).decode()  # type: ignore[arg-type]


def test_buckets_count_values_up_to_their_bound() -> None:
    counted = ControllerMetrics()
    counted.sync(*make_pods(2))
    counted.sync(*make_pods(3))
    found = counted.values("endpoints_added_per_sync_bucket")
    assert [found[f'{{le="{edge}"}}'] for edge in ("2", "4", "32768", "+Inf")] == [1, 2, 2, 2]


def test_old_releases_count_unknown_values_together() -> None:
    counted = ControllerMetrics(release("1.32"))
    counted.sync(trafficDistribution="PreferSameNode")
    expected = {'{traffic_distribution="ImplementationSpecific"}': 1.0}
    assert counted.values("services_count_by_traffic_distribution") == expected


def scraped(live: RunningController) -> str:
    live.settle()
    return generate_latest(live.controller.registry).decode()


def test_running_controller_counts_syncs_and_writes() -> None:
    with RunningController() as live:
        live.create_service(trafficDistribution="PreferSameNode")
        live.run_pod()
        live.settle()
        live.api.delete("services", "default", "web")
        text = scraped(live)
    for line in (
        'changes{operation="create"} 1.0',
        'changes{operation="delete"} 1.0',
        'services_count_by_traffic_distribution{traffic_distribution="PreferSameNode"} 0.0',
        "num_endpoint_slices 0.0",
    ):
        assert f"endpoint_slice_controller_{line}" in text


@pytest.mark.parametrize(("reason", "result"), [("Conflict", "stale"), ("InternalError", "failure")])
def test_running_controller_counts_failures(reason: str, result: str) -> None:
    with RunningController() as live:
        live.interrupted.before["create"] = failing([reason] * 2)
        live.create_service()
        assert f'endpoint_slice_controller_syncs{{result="{result}"}} 2.0' in scraped(live)
        assert 'endpoint_slice_controller_syncs{result="success"} 1.0' in scraped(live)


def test_controllers_do_not_share_their_registries() -> None:
    with RunningController() as live, RunningController() as other:
        live.create_service(trafficDistribution="PreferSameNode")
        assert 'traffic_distribution="PreferSameNode"' in scraped(live)
        assert 'traffic_distribution="PreferSameNode"' not in scraped(other)
