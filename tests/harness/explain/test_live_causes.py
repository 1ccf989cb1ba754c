"""Causes made on a cluster with a controller: each is told, and after its remedy all is well."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import endpoint
from harness.backends.netns import NetnsBackend
from harness.explain import objects
from harness.explain.cluster import Cluster as Seen
from harness.explain.diagnosis import Diagnosis
from harness.explain.service import of
from harness.explain.text import answer
from harness.judging.history import History
from harness.model.release import Release
from harness.scenario.cluster import Cluster

WEB = {"app": "web"}
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}
NUMBERS = itertools.count(1)


class Shop:
    """A namespace with Service web."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._numbers = itertools.count(1)

    def serve(self, *, on: str = "", asks: str | None = "PreferSameZone", **fields: Any) -> None:
        """Service web, and ready pods of it on these nodes."""
        self.service = self.cluster.create_service("web", selector=WEB, traffic_distribution=asks, **fields)
        self.run(on)

    def run(self, on: str, **options: Any) -> None:
        """One more pod of web on each of these nodes."""
        for node in on.split():
            self.cluster.create_pod(f"web-{next(self._numbers)}", node, labels=WEB, **options)

    def patch(self, **spec: Any) -> None:
        """Change the Service."""
        self.cluster.patch_service(self.service, {"spec": spec})

    def annotate(self, annotations: Mapping[str, str | None]) -> None:
        """Change annotations of the Service."""
        self.cluster.patch_service(self.service, {"metadata": {"annotations": dict(annotations)}})

    def move(self, node: str, zone: str | None) -> None:
        """Give a node another zone label, or none."""
        self.cluster.nodes.move(node, zone)

    def set_ready(self, *pods: str, ready: bool = True) -> None:
        """Report pods as ready or not."""
        for each in pods:
            self.cluster.set_ready(each, ready)

    def diagnosis(self) -> Diagnosis:
        """What is said of web now."""
        self.cluster.settle()
        namespace = self.cluster.namespace
        return of(Seen(objects.of_service(self.cluster.api, namespace, "web"), "released"), namespace, "web")


Change = Callable[[Shop], None]


@dataclass(frozen=True)
class Row:
    """How a cause is made, its name and nodes, and the remedy."""

    cause: str
    make: Change
    heal: Change
    nodes: str = ""


def _not_ready(shop: Shop) -> None:
    shop.serve(on="a1 b1")
    shop.run("c1", ready=False)


def _none_is_ready(shop: Shop) -> None:
    shop.serve()
    shop.run("a1 b1 c1", ready=False)


def _no_pods(shop: Shop) -> None:
    shop.serve()
    shop.patch(selector={"app": "other"})


def _select_pods(shop: Shop) -> None:
    shop.patch(selector=WEB)
    shop.run("a1 b1 c1")


def _unlabelled(shop: Shop) -> None:
    shop.move("c1", None)
    shop.serve(on="a1 b1 c1")


def _label_and_renew(shop: Shop) -> None:
    shop.move("c1", "c")
    shop.set_ready("web-3", ready=False)
    shop.set_ready("web-3")


def _lost_its_label(shop: Shop) -> None:
    shop.serve(on="a1 b1 c1")
    shop.move("b2", None)


def _worker_without_zone(shop: Shop) -> None:
    shop.move("b2", None)
    shop.serve(on="a1 a2 b1 b1 c1", asks=None, annotations=AUTO)


def _label_and_touch(shop: Shop) -> None:
    shop.move("b2", "b")
    shop.annotate({"trafficdist.dev/touched": "now"})


def _by_hand(shop: Shop) -> None:
    shop.serve(on="a1 b1 c1")
    shop.cluster.publish(shop.service, [endpoint(each) for each in shop.cluster.run_servers(on=["a1"])])


def _by_annotation(on: str, value: str = "Auto") -> Change:
    return lambda shop: shop.serve(on=on, asks=None, annotations=dict.fromkeys(AUTO, value))


def _by_field(shop: Shop) -> None:
    shop.annotate(dict.fromkeys(AUTO))
    shop.patch(trafficDistribution="PreferSameZone")


def _one_more_by_field(shop: Shop) -> None:
    shop.run("c1")
    _by_field(shop)


EACH_ZONE = "a1 b1 c1"
LOCAL = {"internal_traffic_policy": "Local"}
CLUSTER = {"internalTrafficPolicy": "Cluster", "trafficDistribution": "PreferSameNode"}
ROWS = {
    "a zone without a pod": Row(
        "zone-without-endpoint", lambda shop: shop.serve(on="a1 b1"), lambda shop: shop.run("c1"), "c1"
    ),
    "a pod that is not ready": Row("zone-not-ready", _not_ready, lambda shop: shop.set_ready("web-3"), "c1"),
    "no pod is ready": Row("no-ready-endpoint", _none_is_ready, lambda shop: shop.set_ready("web-1", "web-2", "web-3")),
    "a selector of nobody": Row("selector-matches-nobody", _no_pods, _select_pods),
    "a Service that does not ask": Row("asks-for-nothing", lambda shop: shop.serve(on=EACH_ZONE, asks=None), _by_field),
    "an annotation that is no value": Row("asks-for-nothing", _by_annotation(EACH_ZONE, "AUTO"), _by_field),
    "internal policy": Row(
        "internal-policy-local",
        lambda shop: shop.serve(on=EACH_ZONE, **LOCAL),
        lambda shop: shop.patch(**CLUSTER),
        "a2 b2",
    ),
    "fewer pods than zones": Row("too-few-endpoints", _by_annotation("a1 b1"), _one_more_by_field),
    "an overload": Row("overload", _by_annotation("a1 a2 b1 c1"), _by_field),
    "an overload, and the number of pods that is told": Row(
        "overload", _by_annotation("a1 a2 b1 c1"), lambda shop: shop.run("b2")
    ),
    "a worker without a zone": Row("node-without-zone", _worker_without_zone, _label_and_touch),
    "a pod on a node without a zone": Row("endpoint-without-zone", _unlabelled, _label_and_renew),
    "a node that lost its label": Row(
        "client-node-without-zone", _lost_its_label, lambda shop: shop.move("b2", "b"), "b2"
    ),
    "a slice by hand": Row("slice-of-another-manager", _by_hand, lambda shop: shop.cluster.unpublish(shop.service)),
}


@pytest.fixture(scope="module")
def backend() -> Iterator[NetnsBackend]:
    with NetnsBackend(release=Release(follows="released")) as backend:
        yield backend


@pytest.fixture
def shop(backend: NetnsBackend, tmp_path: Path) -> Iterator[Shop]:
    with (
        closing(History(tmp_path / "history.jsonl")) as history,
        closing(Cluster(backend, f"shop-{next(NUMBERS)}", history=history, test="test")) as cluster,
    ):
        yield Shop(cluster)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_cause_is_told_and_after_its_remedy_all_is_well(row: Row, shop: Shop) -> None:
    row.make(shop)
    ill = shop.diagnosis()
    first = ill.findings[0]
    assert (first.cause.id, " ".join(first.nodes)) == (row.cause, row.nodes), answer(ill)
    row.heal(shop)
    assert answer(shop.diagnosis()) == "connections stay in the zone of their client, from all 5 nodes"
