"""Tests which routing a Service requests, and which hints a scenario may write for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.backends.netns import NetnsBackend
from harness.errors import UsageError
from harness.judging.history import History
from harness.model.manifests import Endpoint, Hints
from harness.model.release import Release
from harness.model.topology import ONE_ZONE
from harness.scenario.cluster import Cluster
from harness.scenario.service import refuse_unrequested_hints, requested_hints

MODE, AWARE_HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
ZONE, NODE = Endpoint({}, hints=Hints(zones=("a",))), Endpoint({}, hints=Hints(nodes=("a1",)))


def service(value: str | None = None, annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "spec": {"trafficDistribution": value}}


@pytest.mark.parametrize(
    ("obj", "kinds"),
    [
        ({}, set()),
        (service(), set()),
        (service("PreferClose"), {"zone"}),
        (service("PreferSameZone"), {"zone"}),
        (service("PreferSameNode"), {"zone", "node"}),
        (service("example.com/Mine"), {"zone", "node"}),
        (service(annotations={MODE: "Auto"}), {"zone"}),
        (service(annotations={AWARE_HINTS: "auto"}), {"zone"}),
        (service(annotations={MODE: "Node"}), {"zone", "node"}),
        (service(annotations={MODE: "Disabled", AWARE_HINTS: ""}), set()),
        (service(annotations={MODE: None}), set()),
        (service(annotations={"example.com/other": "Auto"}), set()),
    ],
)
def test_field_and_annotations_request_hints(obj: Mapping[str, Any], kinds: set[str]) -> None:
    assert requested_hints(obj) == kinds


@pytest.mark.parametrize(
    ("endpoints", "asked"), [([Endpoint({})], ""), ([ZONE, Endpoint({})], "zone"), ([ZONE, NODE], "zone node")]
)
def test_requested_hints_are_allowed(endpoints: list[Endpoint], asked: str) -> None:
    refuse_unrequested_hints("web", frozenset(asked.split()), endpoints)


@pytest.mark.parametrize(("endpoint", "asked", "wanted"), [(ZONE, "", "PreferClose"), (NODE, "zone", "PreferSameNode")])
def test_unrequested_hints_are_refused(endpoint: Endpoint, asked: str, wanted: str) -> None:
    with pytest.raises(UsageError, match=f"service web does not request hints .*{wanted}.*unasked=True"):
        refuse_unrequested_hints("web", frozenset(asked.split()), [endpoint])


def test_slices_with_hints_are_written_for_services_that_request_them(tmp_path: Path, netns_allowed: None) -> None:
    hinted = [Endpoint({"IPv4": "10.244.0.9"}, hints=Hints(zones=("a",)))]
    with (
        NetnsBackend(ONE_ZONE, release=Release("1.29")) as backend,  # does not store the field
        History(tmp_path / "run.jsonl") as history,
    ):
        cluster = Cluster(backend, "asking", history=history, test="test")
        asking, silent = cluster.create_service(traffic_distribution="PreferClose"), cluster.create_service()
        cluster.publish(asking, hinted)
        with pytest.raises(UsageError, match=f"service {silent.name} does not request hints for zones"):
            cluster.publish(silent, hinted)
        assert cluster.slices(silent) == []
        cluster.publish(silent, hinted, unasked=True)
        cluster.patch_service(silent, {"metadata": {"annotations": {AWARE_HINTS: "Auto"}}})
        cluster.publish(silent, hinted)
        cluster.close()
