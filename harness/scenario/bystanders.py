"""What a controller sees beside the objects of a scenario: nodes that do not count, and other pods and slices.

None of them changes the right slices. Their names begin with `PREFIX`, and expectations do not see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.api.client import Object
from harness.backends.backend import WantedPod
from harness.backends.protocols import PodLifecycle
from harness.backends.scenario_backend import ScenarioBackend
from harness.model import manifests
from harness.model.manifests import MANAGED_BY_LABEL, Endpoint, Port
from harness.model.topology import ZONE_LABEL, Node
from harness.variation import axes
from harness.variation.axes import Draw

PREFIX = "drawn-"

_ROLE = "node-role.kubernetes.io/"
_NODES: Mapping[str, Sequence[tuple[str, str, Mapping[str, str], int]]] = {
    "control-plane": (
        ("a", "True", {f"{_ROLE}control-plane": ""}, 64_000),
        ("drawn-zone", "True", {f"{_ROLE}control-plane": "true"}, 64_000),
        ("", "True", {f"{_ROLE}master": "true"}, 0),
    ),
    "unready": (("a", "False", {}, 64_000), ("drawn-zone", "Unknown", {}, 64_000), ("", "Unknown", {}, 0)),
}
"""The zone, readiness, labels and millicores of nodes by drawn value. 0 means that the CPU is unknown."""

_MOST = 4
"""The number of pods and Services of a scenario that have company."""

_ELSEWHERE = {"IPv4": "198.51.100.7", "IPv6": "2001:db8:1::7"}


class Bystanders:
    def __init__(self, backend: ScenarioBackend, namespace: str, draw: Draw) -> None:
        self._backend = backend
        self._namespace = namespace
        self._draw = draw
        self._seen: set[str] = set()
        self._nodes = _NODES.get(draw[axes.BYSTANDERS], ())
        for number, (zone, ready, labels, cpu_milli) in enumerate(self._nodes):
            name = f"{PREFIX}{number}"
            status = manifests.node_status(Node(name, zone, cpu_milli), [])
            status["conditions"][0]["status"] = ready
            if not cpu_milli:
                del status["allocatable"]["cpu"], status["capacity"]["cpu"]
            metadata = {"name": name, "labels": {**labels, **({ZONE_LABEL: zone} if zone else {})}}
            made = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
            backend.booted.api.create("nodes", "", made)

    def close(self) -> None:
        for number in range(len(self._nodes)):
            self._backend.booted.api.delete("nodes", "", f"{PREFIX}{number}")

    def accompany_pod(self, wanted: WantedPod) -> None:
        """Create a pod with the same labels on the same node that is not ready, and may lack named ports."""
        pods, lacks = self._backend.find(PodLifecycle), self._draw[axes.TARGETS] == "lacking"
        if (
            wanted.labels
            and pods is not None
            and (self._is_drawn("pods", wanted.name) or (lacks and self._is_new(wanted.name)))
        ):
            beside = replace(wanted, name=f"{PREFIX}{wanted.name}", ready=False, host_network=False)
            pods.create_pod(self._namespace, replace(beside, container_ports=()) if lacks else beside)

    def accompany_service(self, service: Object) -> None:
        """Create slices of a Service with a selector that nobody manages, or somebody else."""
        name, spec = service["metadata"]["name"], service["spec"]
        if not spec.get("selector") or not spec.get("ipFamilies") or not self._is_drawn("slices", name):
            return
        ports = [Port(each["port"], each["protocol"], each.get("name", "")) for each in spec.get("ports") or ()]
        for manager in (None, "example.org"):
            family = spec["ipFamilies"][0]
            made = manifests.endpoint_slice(
                f"{PREFIX}{name}-{manager}".lower(), name, [Endpoint(_ELSEWHERE)], family=family, ports=ports
            )
            labels = made["metadata"]["labels"]
            if manager is None:
                del labels[MANAGED_BY_LABEL]
            else:
                labels[MANAGED_BY_LABEL] = manager
            self._backend.api.create("endpointslices", self._namespace, made)

    def is_to_disturb(self, service: str) -> bool:
        """Return whether somebody deletes the slices of a Service now. This happens once."""
        return self._is_drawn("deleted", service)

    def _is_drawn(self, value: str, name: str) -> bool:
        return self._draw[axes.BESIDE] == value and self._is_new(name)

    def _is_new(self, name: str) -> bool:
        if name in self._seen or len(self._seen) >= _MOST:
            return False
        self._seen.add(name)
        return True

    def without_own(self, slices: Sequence[Object]) -> Sequence[Object]:
        """Return the slices without the slices and the endpoints that bystanders have."""
        if not self._seen:
            return slices
        own = [each for each in slices if not each["metadata"]["name"].startswith(PREFIX)]
        kept = [[one for one in each.get("endpoints") or () if not _pod(one).startswith(PREFIX)] for each in own]
        return [
            {**each, "endpoints": endpoints}
            for each, endpoints in zip(own, kept, strict=True)
            if endpoints or not each.get("endpoints")
        ]


def _pod(endpoint: Object) -> str:
    return str((endpoint.get("targetRef") or {}).get("name", ""))
