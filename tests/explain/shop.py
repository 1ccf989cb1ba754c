"""A namespace with Service web on a running cluster, and changes to it.

Tests apply remedies as a user does: they run the printed commands, or do what the text tells a person to do.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from explain import objects
from explain.causes import Finding
from explain.cluster import Cluster as Seen
from explain.diagnosis import Diagnosis
from explain.service import of
from harness.backends.netns import NetnsBackend
from harness.judging.history import History
from harness.model.release import Component
from harness.scenario.cluster import Cluster
from tests.explain import kubectl
from tests.explain.building import AUTO, ZONES
from trafficdist import endpoint

WEB = {"app": "web"}
NUMBERS = itertools.count(1)
EACH_ZONE = "a1 b1 c1"
EACH_NODE = "a1 a2 b1 b2 c1"
SYSTEM = "kube-system"


class Shop:
    """A namespace with Service web."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api, self.namespace = cluster.api, cluster.namespace
        self._numbers = itertools.count(1)
        self._system: list[tuple[str, str]] = []

    def serve(self, *, on: str = "", asks: str | None = "PreferSameZone", **fields: Any) -> None:
        """Create Service web, and ready pods of it on these nodes."""
        wanted = {"selector": WEB, "traffic_distribution": asks, **fields}
        self.service = self.cluster.create_service("web", **wanted)
        self.run(on)

    def run(self, on: str, **options: Any) -> None:
        """Run one more pod of web on each of these nodes."""
        for node in on.split():
            self.cluster.create_pod(f"web-{next(self._numbers)}", node, labels=WEB, **options)

    def patch(self, **spec: Any) -> None:
        self.cluster.patch_service(self.service, {"spec": spec})

    def annotate(self, annotations: Mapping[str, str | None]) -> None:
        self.cluster.patch_service(self.service, {"metadata": {"annotations": dict(annotations)}})

    def move(self, node: str, zone: str | None) -> None:
        """Set or remove the zone label of a node."""
        self.cluster.nodes.move(node, zone)

    def set_ready(self, *pods: str, ready: bool = True) -> None:
        """Report pods as ready or not."""
        for each in pods:
            self.cluster.set_ready(each, ready)

    def end(self, *pods: str) -> None:
        """Start the termination of pods."""
        for each in pods:
            self.cluster.begin_termination(each)

    def stop_controller(self) -> None:
        """Stop the controller when it is idle."""
        self.cluster.settle()
        self.cluster.stop(Component.CONTROLLER)

    def start_controller(self) -> None:
        self.cluster.restart(Component.CONTROLLER)

    def publish(self, *hints: str, **options: Any) -> None:
        """Write a slice with endpoints on nodes and hints for zones, like "c1 b"; "c1 " has none."""
        pairs = [each.split(" ") for each in hints]
        pods = {each.node: each for each in self.cluster.run_servers(on=[node for node, _ in pairs])}
        self.published = [endpoint(pods[node], zones=[zone] if zone else []) for node, zone in pairs]
        self.pods = list(pods.values())
        self.cluster.publish(self.service, self.published, unasked=True, **options)

    def create(self, resource: str, obj: dict[str, Any], status: dict[str, Any] | None = None) -> None:
        """Create an object in kube-system, such as the cluster's own components."""
        if not any(each["metadata"]["name"] == SYSTEM for each in self.api.list("namespaces")):
            self.api.create("namespaces", "", {"metadata": {"name": SYSTEM}})
        name = obj["metadata"]["name"]
        self.api.create(resource, SYSTEM, obj)
        self._system.append((resource, name))
        if status:
            self.api.patch(resource, SYSTEM, name, {"status": status}, subresource="status")

    def run_component(self, name: str, node: str, image: str, labels: Mapping[str, str], **status: Any) -> None:
        """Create a pod of a component in the API."""
        pod = {
            "metadata": {"name": name, "namespace": SYSTEM, "labels": dict(labels)},
            "spec": {"nodeName": node, "containers": [{"name": "it", "image": image}]},
        }
        self.create("pods", pod, {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"} | status)

    def set_kubelet(self, nodes: str, version: str) -> None:
        """Set the kubelet version of nodes."""
        for each in nodes.split():
            info = {"status": {"nodeInfo": {"kubeletVersion": version}}}
            self.api.patch("nodes", "", each, info, subresource="status")

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of Service web."""
        self.cluster.settle()
        seen = objects.of_service(self.api, self.namespace, "web")
        ours = [each for each in seen.nodes if each["metadata"]["name"] in ZONES]  # the harness has its own
        return of(Seen(replace(seen, nodes=ours), "released"), self.namespace, "web")

    def close(self) -> None:
        """Delete the objects in kube-system, and restore the status of nodes."""
        for resource, name in self._system:
            self.api.delete(resource, SYSTEM, name, grace_seconds=0)
        for each in self.api.list("nodes"):
            if each["status"].get("nodeInfo", {}).get("kubeletVersion"):
                self.set_kubelet(each["metadata"]["name"], "")


@contextlib.contextmanager
def in_shop(backend: NetnsBackend, folder: Path) -> Iterator[Shop]:
    """Yield a shop on this cluster, with its run history in a folder."""
    with (
        closing(History(folder / "history.jsonl")) as history,
        closing(Cluster(backend, f"shop-{next(NUMBERS)}", history=history, test="test")) as cluster,
        closing(Shop(cluster)) as shop,
    ):
        yield shop


Change = Callable[[Shop], None]
Heal = Callable[[Shop, Finding], None]


def commands(shop: Shop, finding: Finding) -> None:
    """Run the commands of the remedy, with the node's zone for ZONE."""
    run(shop, finding.remedy)


def run(shop: Shop, remedy: str) -> None:
    """Run commands, with the node's zone for ZONE."""
    named = re.search(r"label node (\S+)", remedy)
    kubectl.run(remedy.replace("=ZONE", f"={ZONES[named[1]]}") if named else remedy, shop.api)


def other_commands(shop: Shop, finding: Finding) -> None:
    """Run the commands of the second of two remedies."""
    run(shop, finding.remedy.partition("; or ")[2])


def scale(shop: Shop, finding: Finding) -> None:
    """Run as many pods as the remedy says, distributed over the nodes."""
    wanted = re.search(r"--replicas=(\d+)", finding.remedy)
    assert wanted, finding.remedy
    there = [each["spec"]["nodeName"] for each in shop.api.list("pods", shop.namespace)]
    free = [each for each in EACH_NODE.split() if each not in there]
    shop.run(" ".join(free[: int(wanted[1]) - len(there)]))


def by(change: Change) -> Heal:
    """Apply a remedy that has no command."""
    return lambda shop, _: change(shop)


def served(on: str = EACH_ZONE, **fields: Any) -> Change:
    """Create Service web and its pods."""
    return lambda shop: shop.serve(on=on, **fields)


def auto(on: str = EACH_NODE, annotations: Mapping[str, str] = AUTO, **fields: Any) -> Change:
    """Create the same with the topology annotation."""
    return lambda shop: shop.serve(on=on, annotations=annotations, **({"asks": None} | fields))


def in_turn(*changes: Change) -> Change:
    """Make the changes in order."""

    def all_of_them(shop: Shop) -> None:
        for each in changes:
            each(shop)

    return all_of_them
