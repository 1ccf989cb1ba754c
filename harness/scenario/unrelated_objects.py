"""Unrelated objects that share the cluster with a scenario: Services (some named like the scenario's), pods and nodes.

Unrelated Services remain for the next scenarios, because writing hundreds of objects takes longer than most scenarios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.api.client import Object
from harness.backends.backend import Backend, WantedPod
from harness.backends.protocols import PodLifecycle, PodReports
from harness.backends.scenario_backend import ScenarioBackend
from harness.model import manifests
from harness.model.manifests import MANAGED_BY_LABEL, Endpoint, Port
from harness.model.topology import ZONE_LABEL, Node
from harness.variation import axes
from harness.variation.axes import DrawnValues

NUMBERS = {"many": 30, "crowd": 300}
"""The number of unrelated Services for each value of the axis `neighbours`. The first 30 have endpoints."""

CHANGES = 200  # number of changes of a slice, if the draw has history=busy
MOST_TWINS = 40  # once the twin namespace has this number of objects, the next scenario gets a new one

_DECOYS = {"IPv4": "192.0.2.7", "IPv6": "2001:db8::7"}
"""Addresses of endpoints that must never receive a packet. No node routes these documentation addresses."""

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
"""Zone, readiness, labels and millicores of the nodes for each value of the axis `bystanders` (0: unknown CPU)."""

_MOST_NAMES = 4  # number of pods and Services of a scenario for which unrelated objects are created
_ELSEWHERE = {"IPv4": "198.51.100.7", "IPv6": "2001:db8:1::7"}


@dataclass(slots=True)
class SharedServices:
    """The unrelated Services of a cluster. They remain until a scenario draws another value of `neighbours`."""

    prefix: str = "td-"
    kind: str = "none"
    _number: int = 0
    _twins: dict[tuple[str, str], Object] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The namespace of these Services. The next set of Services gets a new namespace, because deletion is slow."""
        return f"{self.prefix}{'twin' if self.kind == 'twin' else 'neighbours'}-{self._number}"

    def make(self, backend: Backend, wanted: str) -> None:
        """Create the Services for a value of the axis `neighbours`, and delete those of the previous value."""
        if wanted == self.kind and len(self._twins) < MOST_TWINS:
            return
        if self.kind != "none":
            backend.delete_namespace(self.namespace)
        self.kind, self._number = wanted, self._number + 1
        self._twins.clear()
        if wanted == "none":
            return
        backend.create_namespace(self.namespace)
        for number in range(1, NUMBERS.get(wanted, 0) + 1):
            name = f"web-{number}"
            service = manifests.service(name, internalTrafficPolicy="Local" if number % 3 == 0 else "Cluster")
            created = backend.api.create("services", self.namespace, service)
            for family in created["spec"]["ipFamilies"] if number <= NUMBERS["many"] else ():
                endpoints = [_decoy(ready=number % 2 == 0)]
                made = manifests.endpoint_slice(f"{name}-slice", name, endpoints, family=family)
                backend.api.create("endpointslices", self.namespace, made)

    def put_twin(self, backend: ScenarioBackend, resource: str, obj: Object) -> None:
        """Write an object to the namespace of twins (same names, other endpoints). Skip an unchanged object."""
        key = resource, obj["metadata"]["name"]
        before = self._twins.get(key)
        if before == obj:
            return
        if before is not None:
            backend.api.delete(resource, self.namespace, obj["metadata"]["name"])
        backend.api.create(resource, self.namespace, obj)
        self._twins[key] = obj


@dataclass(slots=True)
class UnrelatedObjects:
    """The unrelated objects of one scenario. If `shared` is None, the scenario creates its own Services."""

    backend: ScenarioBackend
    namespace: str
    draw: DrawnValues
    shared: SharedServices | None = None
    _own: SharedServices = field(init=False)
    _has_pods: bool = False
    _was_busy: bool = False
    _owner: Object | None = None

    def __post_init__(self) -> None:
        self._own = self.shared or SharedServices(f"{self.namespace}-")
        self._own.make(self.backend.booted, self.draw[axes.NEIGHBOURS])

    def close(self) -> None:
        """Delete the unrelated Services that only this scenario uses. Shared Services remain."""
        if self.shared is None:
            self._own.make(self.backend.booted, "none")

    def owner_of_slices(self, draw: DrawnValues) -> Object | None:
        """Return the owner (ownerReferences) of slices, which is their Namespace, or None if the draw sets no owner."""
        if draw[axes.EXTRAS] != "newer":
            return None
        if self._owner is None:
            self._owner = {**self.backend.api.get("namespaces", "", self.namespace), "kind": "Namespace"}
        return self._owner

    def before_service(self, draw: DrawnValues, wanted: Object, families: Sequence[str]) -> None:
        """If `draw` requires it, create and delete a Service named like `wanted`, or write a twin (`put_twin`)."""
        name, spec = wanted["metadata"]["name"], wanted["spec"]
        if not spec.get("ports") or spec.get("type") == "ExternalName":
            return
        ports = [Port(int(each["port"]), each.get("protocol", "TCP"), each.get("name", "")) for each in spec["ports"]]
        policy, family = "Local", families[0]  # with another policy, and an endpoint that never answers
        service = manifests.service(name, ports=ports, internalTrafficPolicy=policy, ipFamilies=[family])
        of_service = manifests.endpoint_slice(f"{name}-earlier", name, [_decoy()], family=family, ports=ports)
        if draw[axes.HISTORY] == "remade":
            api = self.backend.api
            api.create("services", self.namespace, service)
            api.create("endpointslices", self.namespace, of_service)
            self.backend.settle()
            api.delete("endpointslices", self.namespace, of_service["metadata"]["name"])
            api.delete("services", self.namespace, name)
        if draw[axes.NEIGHBOURS] == "twin":
            self._own.put_twin(self.backend, "services", service)
            self._own.put_twin(self.backend, "endpointslices", of_service)

    def before_slice(self, draw: DrawnValues, obj: Object) -> bool:
        """As `draw` requires, write a twin, or create the slice with other endpoints (and then return True)."""
        if draw[axes.NEIGHBOURS] == "twin":
            twin = {**obj, "endpoints": [_decoy().manifest(obj["addressType"])]}
            self._own.put_twin(self.backend, "endpointslices", twin)
        if draw[axes.HISTORY] not in ("changed", "busy"):
            return False
        busy = draw[axes.HISTORY] == "busy" and not self._was_busy
        earlier = [_decoy(ready=False, serving=False).manifest(obj["addressType"]), *obj["endpoints"][:1]]
        api, name = self.backend.api, obj["metadata"]["name"]
        api.create("endpointslices", self.namespace, {**obj, "endpoints": [] if busy else earlier})
        self._was_busy |= busy
        for number in range(CHANGES if busy else 0):  # the slice has no endpoints, so changes cost proxies little
            patch = {"metadata": {"annotations": {"example.com/revision": str(number)}}}
            api.patch("endpointslices", self.namespace, name, patch)
        return True

    def with_pods(self, node: str, labels: Mapping[str, str] | None) -> None:
        """If `draw` requires it, create a failed and a completed pod with these labels, once per scenario."""
        if self._begins_pods("others", labels):
            for phase in ("Failed", "Succeeded"):
                self._create_ended(phase, node, labels)

    def after_pod(self, name: str, labels: Mapping[str, str] | None) -> None:
        """If `draw` requires it, create a failed pod with the labels and addresses of this pod, once per scenario."""
        if self._begins_pods("reused", labels):
            pod = self.backend.api.get("pods", self.namespace, name)
            ended = self._create_ended("Failed", pod["spec"]["nodeName"], labels)
            status = {key: pod["status"][key] for key in ("podIP", "podIPs") if key in pod["status"]}
            self.backend.api.patch("pods", self.namespace, ended, {"status": status}, subresource="status")

    def _begins_pods(self, value: str, labels: Mapping[str, str] | None) -> bool:
        if self.draw[axes.PODS] != value or not labels or self._has_pods or self.backend.find(PodReports) is None:
            return False
        self._has_pods = True
        return True

    def _create_ended(self, phase: str, node: str, labels: Mapping[str, str] | None) -> str:
        wanted = WantedPod(f"ended-{phase.lower()}", node, labels, (), ready=False)
        if reports := self.backend.find(PodReports):
            reports.create_reported_pod(self.namespace, wanted, phase=phase)
        return wanted.name


def _decoy(**conditions: Any) -> Endpoint:
    return Endpoint(_DECOYS, **conditions)


class UnrelatedControllerInputs:
    """Nodes, pods and slices that must not change what a controller writes. All names begin with `PREFIX`."""

    def __init__(self, backend: ScenarioBackend, namespace: str, draw: DrawnValues) -> None:
        self._backend, self._namespace, self._draw = backend, namespace, draw
        self._seen: set[str] = set()
        self._nodes = _NODES.get(draw[axes.BYSTANDERS], ())
        for number, (zone, ready, labels, cpu_milli) in enumerate(self._nodes):
            name = f"{PREFIX}{number}"
            status = manifests.node_status(Node(name, zone, cpu_milli), [])
            status["conditions"][0]["status"] = ready
            metadata = {"name": name, "labels": {**labels, **({ZONE_LABEL: zone} if zone else {})}}
            made = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
            backend.booted.api.create("nodes", "", made)

    def close(self) -> None:
        for number in range(len(self._nodes)):
            self._backend.booted.api.delete("nodes", "", f"{PREFIX}{number}")

    def accompany_pod(self, wanted: WantedPod) -> None:
        """If `draw` requires it, create an unready pod with the labels and node of `wanted`."""
        pods, lacks = self._backend.find(PodLifecycle), self._draw[axes.TARGETS] == "lacking"
        if not wanted.labels or pods is None:
            return
        if self._applies("pods", wanted.name) or (lacks and self._is_new(wanted.name)):
            other = replace(wanted, name=f"{PREFIX}{wanted.name}", ready=False, host_network=False)
            pods.create_pod(self._namespace, replace(other, container_ports=()) if lacks else other)

    def accompany_service(self, service: Object) -> None:
        """If `draw` requires it, create a slice of a Service without managed-by label, and one of another manager."""
        name, spec = service["metadata"]["name"], service["spec"]
        if not spec.get("selector") or not spec.get("ipFamilies") or not self._applies("slices", name):
            return
        ports = [Port(each["port"], each["protocol"], each.get("name", "")) for each in spec.get("ports") or ()]
        for manager in (None, "example.org"):
            family = spec["ipFamilies"][0]
            made = manifests.endpoint_slice(
                f"{PREFIX}{name}-{manager}".lower(), name, [Endpoint(_ELSEWHERE)], family=family, ports=ports
            )
            labels = made["metadata"]["labels"]
            labels.pop(MANAGED_BY_LABEL)
            labels |= {MANAGED_BY_LABEL: manager} if manager else {}
            self._backend.api.create("endpointslices", self._namespace, made)

    def is_to_disturb(self, service: str) -> bool:
        """Return whether to delete a Service's slices now, as another client would: at most once per Service."""
        return self._applies("deleted", service)

    def _applies(self, value: str, name: str) -> bool:
        return self._draw[axes.BESIDE] == value and self._is_new(name)

    def _is_new(self, name: str) -> bool:
        if name in self._seen or len(self._seen) >= _MOST_NAMES:
            return False
        self._seen.add(name)
        return True

    def without_own(self, slices: Sequence[Object]) -> Sequence[Object]:
        """Return the slices without those from `accompany_service` and without endpoints from `accompany_pod`."""
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
