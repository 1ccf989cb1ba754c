"""Cases for an EndpointSlice controller. A case changes Services, pods and nodes, and the controller writes slices.

A case runs without threads and without a server. Its clock jumps to the next due time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from mutants import delayed_faults
from reference.client import ApiError, Event, Object
from reference.endpointslice import EndpointSliceController, controller, status
from reference.endpointslice.labels import CONTROLLER, MANAGED_BY, SERVICE_NAME, TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE
from reference.endpointslice.node_level import MissingNodesLimit, NodeLevel
from reference.features import Features
from reference.objects.acknowledgement_lease import ANNOTATION, NAMESPACE, lease_name

HOST, ZONE, CONTROL_PLANE = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "node-role.kubernetes.io/control-plane",
)
NODES = ("a1", "a2", "b1", "c1")
NEXT_ZONE = "trafficdist.dev/PreferNextZone"
BY_NODE = {"NodeLevelTopology": True}
FEATURES = (
    *(Features(),) * 5,
    Features(follows="released"),
    Features((1, 29)),
    Features((1, 31)),
    Features((1, 33), {"PreferSameTrafficDistribution": True}),
    *(Features(gates=BY_NODE),) * 3,
)
VALUES = (None, None, "PreferClose", "PreferClose", "PreferSameZone", "PreferSameNode", "PreferSameNode", NEXT_ZONE)
UNKNOWN = "example.org/Unknown"
ANNOTATIONS = (
    *({},) * 3,
    *({TOPOLOGY_MODE: "Auto"},) * 4,
    {TOPOLOGY_MODE: "auto"},
    {TOPOLOGY_AWARE_HINTS: "Auto"},
    {TOPOLOGY_MODE: "Disabled"},
    *({TOPOLOGY_MODE: "Node"},) * 3,
    {TOPOLOGY_MODE: "PreferClose"},
)  # fmt: skip
NODE_LEVELS = (
    *(NodeLevel(),) * 2,
    NodeLevel("automatic", MissingNodesLimit(1), daemon_set=False),
    NodeLevel("automatic", MissingNodesLimit(25, percent=True), daemon_set=True),
    NodeLevel("automatic", None, daemon_set=True),
    NodeLevel("opt-in", MissingNodesLimit(1), daemon_set=False),
    NodeLevel("opt-out", MissingNodesLimit(50, percent=True), daemon_set=False),
)
RESTART, SERVED = "RESTART", "SERVED"
"""RESTART replaces the controller by a new controller. SERVED changes an object without a new resource version."""

Seen = Mapping[tuple[object, ...], object]


@dataclass(frozen=True)
class ControllerCase:
    """A release, a configuration, and steps.

    Each step is a list of actions on objects. The first step runs before the controller starts.
    """

    features: Features
    node_level: NodeLevel
    most: int
    steps: Sequence[Sequence[tuple[str, str, Object]]]


# Generated cases


class _CaseGenerator:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.tidy = chance.random() < 0.5
        self.owned = chance.random() < 0.5
        self.numbers = iter(range(1, 1000))
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}

    def generate(self, steps: int) -> ControllerCase:
        chance = self.chance
        for name in NODES[: chance.choice((1, 2, 4, 4, 4, 4))]:
            self.nodes[name] = self.node(name)
        for _ in range(chance.choice((0, 1, 2, 3, 4, 5, 6))):
            self.add_pod()
        self.web = self.service()
        begin = [("ADDED", "nodes", each) for each in self.nodes.values()]
        begin += [("ADDED", "pods", each) for each in self.pods.values()]
        begin += [("ADDED", "services", self.web), ("ADDED", "endpointslices", self.foreign())]
        begin += [("ADDED", "leases", self.lease(name)) for name in self.nodes if chance.random() < 0.8]
        told = [deepcopy(begin), *([deepcopy(self.step())] for _ in range(steps))]
        features = chance.choice(FEATURES)
        level = chance.choice(NODE_LEVELS) if features.gates.get("NodeLevelTopology") else NodeLevel()
        return ControllerCase(features, level, chance.choice((2, 3, 100, 100)), told)

    def step(self) -> tuple[str, str, Object]:
        chance = self.chance
        kinds = ("pod",) * 4 + (
            "come",
            "go",
            "node",
            "node",
            "service",
            "service",
            "restart",
            "lease",
            "sync",
            "served",
        )
        kind = chance.choice(kinds)
        if kind == "node":
            return self.change_node()
        match kind:
            case "pod" if self.pods:
                name = chance.choice(sorted(self.pods))
                self.pods[name] = self.pod(name, self.pods[name]["spec"]["nodeName"], self.pods[name])
                return "MODIFIED", "pods", self.pods[name]
            case "go" if self.pods:
                return "DELETED", "pods", self.pods.pop(chance.choice(sorted(self.pods)))
            case "service" | "served":
                self.web = self.service(self.web)
                return "MODIFIED" if kind == "service" else SERVED, "services", self.web
            case "restart" | "sync" | "lease":
                lease = "MODIFIED", "leases", self.lease(chance.choice(sorted(self.nodes)))
                return {"restart": (RESTART, "", {}), "sync": ("SYNCED", "", {})}.get(kind, lease)
        return "ADDED", "pods", self.add_pod()

    def change_node(self) -> tuple[str, str, Object]:
        name, chance = self.chance.choice(sorted(self.nodes)), self.chance.random
        if chance() < 0.3 and len(self.nodes) > 1:
            return "DELETED", "nodes", self.nodes.pop(name)
        if chance() < 0.4 and (absent := sorted({*NODES} - self.nodes.keys())):
            self.nodes[absent[0]] = self.node(absent[0])
            return "ADDED", "nodes", self.nodes[absent[0]]
        self.nodes[name] = self.node(name)
        return "MODIFIED", "nodes", self.nodes[name]

    def node(self, name: str) -> Object:
        chance, choice = self.chance.random, self.chance.choice
        odd = 0.0 if self.tidy else 0.25
        labels = {HOST: name} | ({} if chance() < odd else {ZONE: name[0]})
        if ZONE in labels and chance() < 0.2:
            labels[ZONE] = choice("abc")
        labels |= {CONTROL_PLANE: ""} if chance() < odd else {}
        cpu = {} if chance() < odd / 2 else {"cpu": choice(("2", "2", "2", "4", "8"))}
        ready = "False" if chance() < odd else "True"
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": cpu, "conditions": [{"type": "Ready", "status": ready}]},
        }

    def add_pod(self) -> Object:
        number = next(self.numbers)
        name = f"p{number:03}"
        self.pods[name] = self.pod(name, self.chance.choice(NODES))
        return self.pods[name]

    def pod(self, name: str, node: str, old: Object | None = None) -> Object:
        chance, choice = self.chance.random, self.chance.choice
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": choice(("d1", "d1", "d1", "d2"))}
        metadata: Object = {
            "namespace": "default",
            "name": name,
            "labels": {"app": "web" if old is None or chance() < 0.85 else "other"},
            "ownerReferences": [owner] if self.owned and chance() < 0.85 else [],
        }
        if chance() < 0.15:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        ready = "True" if chance() < 0.75 else "False"
        containers = ready if chance() < 0.8 else "True"
        ips = [f"10.244.0.{int(name[1:])}", f"fd00:244::{int(name[1:])}"]
        ports = [{"name": "http", "containerPort": 8080 if int(name[1:]) % 3 else 9090}]
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "ports": ports}]}
        if old is not None:
            metadata["ownerReferences"] = old["metadata"]["ownerReferences"]
        return {
            "metadata": metadata,
            "spec": spec,
            "status": {
                "phase": "Succeeded" if chance() < 0.08 else "Running",
                "conditions": [{"type": "Ready", "status": ready}, {"type": "ContainersReady", "status": containers}],
                "podIP": ips[0],
                "podIPs": [{"ip": each} for each in ips],
            },
        }

    def service(self, old: Object | None = None) -> Object:
        chance, choice = self.chance.random, self.chance.choice
        ports: list[Object] = [
            {"name": "http", "port": 80, "protocol": "TCP", "targetPort": choice((8080, 8080, "http"))}
        ]
        ports += [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}] if chance() < 0.3 else []
        spec: Object = {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "ipFamilies": ["IPv4", "IPv6"][: choice((1, 1, 2))],
            "ports": ports,
        }
        if old is not None:
            spec = {key: old["spec"][key] for key in spec}
        spec |= {"selector": {"app": "web"}} if chance() < 0.93 else {}
        value = UNKNOWN if chance() < 0.05 else choice(VALUES)
        spec |= {"trafficDistribution": value} if value else {}
        for policy in ("internalTrafficPolicy", "externalTrafficPolicy"):
            spec[policy] = "Local" if chance() < 0.2 else "Cluster"
        spec |= {"publishNotReadyAddresses": True} if chance() < 0.15 else {}
        metadata = {"namespace": "default", "name": "web", "annotations": dict(choice(ANNOTATIONS))}
        return {"metadata": metadata, "spec": spec}

    def foreign(self) -> Object:
        """Return a slice of the Service that another controller manages."""
        labels = {SERVICE_NAME: "web", MANAGED_BY: "somebody"}
        hints = {"forZones": [{"name": "b"}]}
        endpoint = {"addresses": ["10.9.9.9"], "conditions": {"ready": True}, "hints": hints}
        metadata = {"namespace": "default", "name": "web-of-somebody", "labels": labels}
        return {"metadata": metadata, "addressType": "IPv4", "ports": [], "endpoints": [endpoint]}

    def lease(self, node: str) -> Object:
        behind = {} if self.chance.random() < 0.7 else {"behind": "yes"}
        return {"metadata": {"namespace": NAMESPACE, "name": lease_name(node), "labels": behind}}


def _node_without_endpoint_comes() -> ControllerCase:
    """Return a handwritten case that adds a node without an endpoint while the configuration allows one such node."""
    generator = _CaseGenerator(random.Random(1))
    generator.tidy, generator.owned = True, False
    nodes = [generator.node(name) for name in ("a1", "a2", "b1")]
    pod, web = generator.pod("p001", "a1"), generator.service()
    pod["metadata"] = {"namespace": "default", "name": "p001", "labels": {"app": "web"}}
    pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    web["metadata"]["annotations"] = {}
    web["spec"].pop("trafficDistribution", None)
    begin = [*(("ADDED", "nodes", each) for each in nodes[:2]), ("ADDED", "pods", pod), ("ADDED", "services", web)]
    automatic = NodeLevel("automatic", MissingNodesLimit(1), daemon_set=False)
    return ControllerCase(Features(gates=BY_NODE), automatic, 100, [begin, [("ADDED", "nodes", nodes[2])]])


def generated_cases(count: int, *, steps: int = 5) -> list[ControllerCase]:
    """Return deterministic cases: one case is written by hand, and the others are generated."""
    chance = random.Random(2433)
    return [_node_without_endpoint_comes(), *(_CaseGenerator(chance).generate(steps) for _ in range(count - 1))]


# Running a case on a controller


@dataclass
class _FakeApiServer:
    """A fake API server with the features that a controller requires."""

    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    version: int = 0
    sink: Callable[[Event], None] = lambda event: None
    writes: list[tuple[str, str]] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)

    def do(self, verb: str, resource: str, obj: Object) -> None:
        """Apply the steps of a case."""
        metadata = obj["metadata"]
        key = resource, metadata.get("namespace", ""), metadata["name"]
        if resource == "leases":
            done = 0 if "behind" in metadata["labels"] else self.version + 1
            obj = {**obj, "metadata": {**metadata, "annotations": {ANNOTATION: str(done)}}}
        match verb:
            case "DELETED":
                self._emit("DELETED", resource, self.objects.pop(key))
            case "SERVED":
                same = {name: self.objects[key]["metadata"][name] for name in ("uid", "resourceVersion")}
                self.objects[key] = {**self.objects[key], **obj, "metadata": {**metadata, **same}}
                self._emit("MODIFIED", resource, self.objects[key])
            case _:
                kept = {"status": self.objects[key]["status"]} if "status" in self.objects.get(key, {}) else {}
                self._put(resource, {**kept, **obj})

    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> None:
        self.sink = sink
        for (resource, _, _), obj in [*self.objects.items()]:
            sink(Event("ADDED", resource, obj))
        sink(Event("SYNCED", "", {}))

    def get(self, resource: str, namespace: str, name: str) -> Object:
        return self.objects[resource, namespace, name]

    def create(self, resource: str, namespace: str, obj: Object) -> Object:
        if resource == "events":
            self.events.append(obj)
            return obj
        self.writes.append(("create", resource))
        name = f"{obj['metadata']['generateName']}{self.version:04}"
        return self._put(resource, {**obj, "metadata": {**obj["metadata"], "name": name}})

    def update(self, resource: str, namespace: str, obj: Object) -> Object:
        self.writes.append(("update", resource))
        return self._put(resource, obj)

    def update_status(self, resource: str, namespace: str, obj: Object) -> Object:
        there = self.objects[resource, namespace, obj["metadata"]["name"]]
        return self._put(resource, {**there, "status": obj["status"]})

    def delete(self, resource: str, namespace: str, name: str) -> None:
        self.writes.append(("delete", resource))
        if (resource, namespace, name) not in self.objects:
            raise ApiError({"reason": "NotFound", "code": 404})
        self._emit("DELETED", resource, self.objects.pop((resource, namespace, name)))

    def _put(self, resource: str, obj: Object) -> Object:
        self.version += 1
        metadata = obj["metadata"]
        key = resource, metadata.get("namespace", ""), metadata["name"]
        old = self.objects.get(key)
        made = {
            **obj,
            "metadata": {
                **metadata,
                "uid": f"uid-of-{resource}-{metadata['name']}",
                "resourceVersion": str(self.version),
            },
        }
        self.objects[key] = made
        self._emit("ADDED" if old is None else "MODIFIED", resource, made)
        return made

    def _emit(self, kind: Any, resource: str, obj: Object) -> None:
        self.sink(Event(kind, resource, obj))


class _FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@contextmanager
def _clock() -> Iterator[_FakeClock]:
    clock = _FakeClock()
    with (
        mock.patch.object(controller, "time", clock),
        mock.patch.object(status, "time", clock),
        mock.patch.object(delayed_faults, "time", clock),
    ):
        yield clock


def run_case(make: Callable[..., EndpointSliceController], case: ControllerCase, *, counted: bool) -> list[Seen]:
    """Run a case on a controller. Return the objects written after each step, with metrics if `counted`."""
    store, seen = _FakeApiServer(), []

    def begin() -> tuple[EndpointSliceController, deque[Event]]:
        events: deque[Event] = deque()
        made = make(
            store,
            features=case.features,
            max_endpoints_per_slice=case.most,
            conditions=True,
            node_level=case.node_level,
        )
        made._client.subscribe(("services", "pods", "nodes", "endpointslices", "leases"), events.append)
        return made, events

    for each in case.steps[0]:
        store.do(*each)
    with _clock() as clock:
        made, events = begin()
        _settle(made, events, clock)
        seen.append(_seen(made, store, counted=counted))
        for step in case.steps[1:]:
            for kind, resource, obj in step:
                if kind == RESTART:
                    made, events = begin()
                elif kind == "SYNCED":
                    store.sink(Event("SYNCED", "", {}))
                else:
                    store.do(kind, resource, obj)
            _settle(made, events, clock)
            seen.append(_seen(made, store, counted=counted))
    return seen


def _settle(made: EndpointSliceController, events: deque[Event], clock: _FakeClock) -> None:
    for _ in range(300):
        while events:
            made._read(events.popleft())
        made._work_on_next()
        if events or any(queue.next_due() == 0.0 for queue in made._queues):
            continue
        due = [each for queue in made._queues if not queue.is_idle and (each := queue.next_due()) is not None]
        if not due:
            return
        clock.now = max(clock.now, *due) if len(due) > 1 else max(clock.now, due[0])
    raise AssertionError("the controller works and works")


def _seen(made: EndpointSliceController, store: _FakeApiServer, *, counted: bool) -> Seen:
    found: dict[tuple[object, ...], object] = {}
    for (resource, _, name), obj in store.objects.items():
        if resource == "services":
            conditions = (obj.get("status") or {}).get("conditions") or ()
            found |= {("conditions", each["type"]): (each["status"], each["reason"]) for each in conditions}
        if resource != "endpointslices":
            continue
        if obj["metadata"]["labels"].get(MANAGED_BY) != CONTROLLER or name == "web-of-somebody":
            found["slices of others", name] = obj["endpoints"]
            continue
        ports = tuple(sorted((port["name"], port["port"]) for port in obj["ports"]))
        for each in obj["endpoints"]:
            key = obj["addressType"], each["addresses"][0], ports
            there = found.get(("endpoints", *key), ())
            said = {part: value for part, value in each.items() if part != "hints"}
            found["endpoints", *key] = (*there, said)  # type: ignore[misc]
            for kind in ("forZones", "forNodes"):
                names = (each.get("hints") or {}).get(kind)
                found[kind, *key] = names and [one["name"] for one in names]
    found["writes",] = sorted(store.writes)
    found["events",] = [(e["involvedObject"]["kind"], e["type"], e["reason"], e["message"]) for e in store.events]
    store.writes, store.events = [], []
    for metric in made.registry.collect() if counted else ():
        for sample in metric.samples:
            if not sample.name.endswith(("_bucket", "_created")):
                found["metrics", sample.name, *sorted(sample.labels.items())] = sample.value
    return found
