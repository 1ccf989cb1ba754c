"""A namespace with Service web on a running cluster, and changes to it.

Tests apply a remedy as a user would. They run the printed commands, or follow the text if there is no command.
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
from tests.explain.cluster_builders import AUTO, ZONES
from trafficdist import endpoint

WEB = {"app": "web"}
NUMBERS = itertools.count(1)
EACH_ZONE = "a1 b1 c1"
EACH_NODE = "a1 a2 b1 b2 c1"
SYSTEM = "kube-system"


class ShopNamespace:
    """A namespace with Service `web`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api, self.namespace = cluster.api, cluster.namespace
        self._numbers = itertools.count(1)
        self._system: list[tuple[str, str]] = []

    def serve(self, *, on: str = "", asks: str | None = "PreferSameZone", **fields: Any) -> None:
        """Create Service `web`, with a ready pod on each of these nodes."""
        wanted = {"selector": WEB, "traffic_distribution": asks, **fields}
        self.service = self.cluster.create_service("web", **wanted)
        self.run(on)

    def run(self, on: str, **options: Any) -> None:
        """Run one more pod of `web` on each of these nodes."""
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
        """Set the readiness of pods."""
        for each in pods:
            self.cluster.set_ready(each, ready)

    def end(self, *pods: str) -> None:
        """Start the termination of pods."""
        for each in pods:
            self.cluster.begin_termination(each)

    def stop_controller(self) -> None:
        """Wait until the controller is idle, then stop it."""
        self.cluster.settle()
        self.cluster.stop(Component.CONTROLLER)

    def start_controller(self) -> None:
        self.cluster.restart(Component.CONTROLLER)

    def publish(self, *hints: str, **options: Any) -> None:
        """Write a slice. Each argument is a node and the hinted zone, such as "c1 b". "c1 " has no hint."""
        pairs = [each.split(" ") for each in hints]
        pods = {each.node: each for each in self.cluster.run_servers(on=[node for node, _ in pairs])}
        self.published = [endpoint(pods[node], zones=[zone] if zone else []) for node, zone in pairs]
        self.pods = list(pods.values())
        self.cluster.publish(self.service, self.published, unasked=True, **options)

    def create(self, resource: str, obj: dict[str, Any], status: dict[str, Any] | None = None) -> None:
        """Create an object in kube-system, such as a component of the cluster."""
        if not any(each["metadata"]["name"] == SYSTEM for each in self.api.list("namespaces")):
            self.api.create("namespaces", "", {"metadata": {"name": SYSTEM}})
        name = obj["metadata"]["name"]
        self.api.create(resource, SYSTEM, obj)
        self._system.append((resource, name))
        if status:
            self.api.patch(resource, SYSTEM, name, {"status": status}, subresource="status")

    def run_component(self, name: str, node: str, image: str, labels: Mapping[str, str], **status: Any) -> None:
        """Create the pod of a component in the API, without running it."""
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
        ours = [each for each in seen.nodes if each["metadata"]["name"] in ZONES]  # the harness has an additional node
        return of(Seen(replace(seen, nodes=ours), "released"), self.namespace, "web")

    def close(self) -> None:
        """Delete the objects in kube-system, and restore the status of nodes."""
        for resource, name in self._system:
            self.api.delete(resource, SYSTEM, name, grace_seconds=0)
        for each in self.api.list("nodes"):
            if each["status"].get("nodeInfo", {}).get("kubeletVersion"):
                self.set_kubelet(each["metadata"]["name"], "")


@contextlib.contextmanager
def in_shop(backend: NetnsBackend, folder: Path) -> Iterator[ShopNamespace]:
    """Yield a shop on this cluster, with its run history in a folder."""
    with (
        closing(History(folder / "history.jsonl")) as history,
        closing(Cluster(backend, f"shop-{next(NUMBERS)}", history=history, test="test")) as cluster,
        closing(ShopNamespace(cluster)) as shop,
    ):
        yield shop


Change = Callable[[ShopNamespace], None]
Heal = Callable[[ShopNamespace, Finding], None]


def commands(shop: ShopNamespace, finding: Finding) -> None:
    """Run the commands of the remedy. The placeholder ZONE is replaced with the zone of the node."""
    run(shop, finding.remedy)


def run(shop: ShopNamespace, remedy: str) -> None:
    """Run commands. The placeholder ZONE is replaced with the zone of the node."""
    named = re.search(r"label node (\S+)", remedy)
    kubectl.run(remedy.replace("=ZONE", f"={ZONES[named[1]]}") if named else remedy, shop.api)


def other_commands(shop: ShopNamespace, finding: Finding) -> None:
    """Run the commands of the last alternative."""
    run(shop, re.split(r"; or(?:, if [^,]*,)? ", finding.remedy)[-1])


def scale(shop: ShopNamespace, finding: Finding) -> None:
    """Run as many pods as the remedy requests, on the nodes without a pod."""
    wanted = re.search(r"--replicas=(\d+)|run (\d+) pods", finding.remedy)
    assert wanted, finding.remedy
    there = [each["spec"]["nodeName"] for each in shop.api.list("pods", shop.namespace)]
    free = [each for each in EACH_NODE.split() if each not in there]
    shop.run(" ".join(free[: int(wanted[1] or wanted[2]) - len(there)]))


def by(change: Change) -> Heal:
    """Return a function that applies a remedy without a command."""
    return lambda shop, _: change(shop)


def served(on: str = EACH_ZONE, **fields: Any) -> Change:
    """Return a function that creates Service `web` and its pods."""
    return lambda shop: shop.serve(on=on, **fields)


def auto(on: str = EACH_NODE, annotations: Mapping[str, str] = AUTO, **fields: Any) -> Change:
    """Return a function that creates Service `web` with the topology annotation, and its pods."""
    return lambda shop: shop.serve(on=on, annotations=annotations, **({"asks": None} | fields))


def in_turn(*changes: Change) -> Change:
    """Return a function that makes the changes in order."""

    def all_of_them(shop: ShopNamespace) -> None:
        for each in changes:
            each(shop)

    return all_of_them
