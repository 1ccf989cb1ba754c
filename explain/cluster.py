"""An index of a cluster's objects, and facts that do not depend on a particular Service."""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Literal

from explain.components import API_SERVER, CONTROLLER, PROXY, MinimumRelease, proof
from explain.objects import CALICO, Objects, kubelet_version
from explain.programs import Follows, ProxyProgram, numbers_of, program_of
from explain.scheduling import RULES, refusal
from harness.api.client import Object
from harness.guest.lease_record import moment
from harness.model.topology import ZONE_LABEL
from reference.endpointslice.endpoints import is_ready
from reference.endpointslice.labels import node_zone, service_name
from reference.endpointslice.zones import ZoneTable, counts, milli_cpu
from reference.features import GATES, NEWEST, OLDEST, Features, Reading, Version
from reference.proxy.decision import Behaviour

_PATIENCE = 4
"""A controller counts as stopped if it last renewed its Lease more than this many Lease durations ago."""

_TIMES = ("lastTimestamp", "eventTime", "firstTimestamp")  # of an Event
_TIME = "%Y-%m-%dT%H:%M:%SZ"

_INGRESSES = {"ingress-nginx", "traefik", "contour", "haproxy-ingress", "kong"}

ServiceName = tuple[str, str]
"""The namespace and name of a Service."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with its zone ("" if missing), its service proxy, and the CPU that counts for CPU-based hints.

    `version` is the kube-proxy release whose behaviour is assumed on the node, and `age` explains why. `counts` is true
    if the node is ready and not a control plane node. `milli_cpu` is 0 if it is unknown. `doubt` is set if the node's
    rules may be old or missing, because its proxy is not ready or it has no proxy pod.
    """

    name: str
    zone: str
    version: Version
    program: ProxyProgram
    age: str
    counts: bool
    milli_cpu: int
    doubt: Literal["", "unready", "missing"] = ""
    ready: bool = True

    @property
    def served_by(self) -> str:
        """The service proxy of the node, its version, and where this information comes from, as text."""
        if not self.program.name:
            return f"not known: no pod of a service proxy was seen; predicted as kube-proxy {self.age}"
        guessed = "" if self.program.version or self.program.is_other else f"; predicted as one {self.age}"
        return f"{self.program.title}, by its image {self.program.image}{guessed}"


@dataclass(frozen=True, slots=True)
class LateLabel:
    """A node's zone label that is newer than its proxy pod. `restart` is the command to restart the pod, if needed."""

    said: str
    by_hand: bool
    restart: str


class Cluster:
    """The objects of a cluster, indexed. `features` are those of the controller, according to its metrics.

    `proven` is the oldest release that can have written the objects (before any `--if`), if no version is reported.
    """

    def __init__(self, objects: Objects, follow: Reading, proven: MinimumRelease | None = None) -> None:
        self.objects = objects
        images = [_image(each, CONTROLLER) for each in objects.control_plane]
        self.controller_image = min(filter(None, images), default="")
        kubelet = max(map(kubelet_version, objects.nodes), default="", key=numbers_of)
        versions = {f"API server {objects.version}": objects.version, f"kubelet {kubelet}": kubelet}
        self.known_by = next((name for name, each in versions.items() if each), "")
        tag = self.controller_image.rpartition(":")[2]
        known = version_of(tag) or version_of(objects.version)
        self.proven = proven or (MinimumRelease() if known else proof(objects.services, objects.endpointslices))
        of_kubelet = MinimumRelease(version_of(kubelet) or OLDEST, f"kubelet {kubelet}")
        least = max(of_kubelet, self.proven, key=lambda each: each.version)
        said = f"not known, at least 1.{least.version[1]} ({least.by})" if least.version > OLDEST else ""
        self.known_at_least = "" if known else said
        version = known or max(version_of(kubelet) or NEWEST, self.proven.version)
        server = max((_image(each, API_SERVER) for each in objects.control_plane), default="").rpartition(":")[2]
        self.server = version_of(objects.version) or version_of(server) or version
        gates = objects.gates.get(API_SERVER, {})  # all components are assumed to agree about topology keys
        self._keys = {name: on for name, on in gates.items() if name == "ServiceTopology"}
        self.features = _features(version, {**self._keys, **objects.gates.get(CONTROLLER, {})}, follow)
        self.services = {key_of(each): each for each in objects.services}
        self.slices: Mapping[ServiceName, list[Object]] = defaultdict(list)
        for each in objects.endpointslices:
            self.slices[service_of(each)].append(each)
        self.behaviour, self.refusals = lru_cache(self._behaviour), lru_cache(self._refusals)
        self.names_of_pods = lru_cache(lambda space: {each["metadata"]["name"] for each in self.further["pods", space]})
        self.in_doubt = lru_cache(self._in_doubt)
        self._pods: dict[ServiceName, dict[str, list[Object]]] = {}  # pods by namespace and label

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        objects = sorted(self.objects.nodes, key=lambda each: str(each["metadata"]["name"]))
        return {found.name: found for found in map(self._node, objects)}

    @cached_property
    def alike(self) -> Mapping[tuple[str, Version, ProxyProgram], list[str]]:
        """The names of the nodes, grouped by zone, kube-proxy release and service proxy."""
        groups: dict[tuple[str, Version, ProxyProgram], list[str]] = defaultdict(list)
        for name, each in self.nodes.items():
            groups[each.zone, each.version, each.program].append(name)
        return groups

    @cached_property
    def others(self) -> Mapping[ProxyProgram, list[str]]:
        """The service proxies other than kube-proxy, with their nodes."""
        programs = dict.fromkeys(each.program for each in self.nodes.values() if each.program.is_other)
        return {one: [name for name, each in self.nodes.items() if each.program == one] for one in programs}

    def _in_doubt(self, doubt: str) -> Sequence[str]:
        return [name for name, each in self.nodes.items() if each.doubt == doubt]

    @cached_property
    def uncertain(self) -> tuple[str, ...]:
        return tuple(name for name, each in self.nodes.items() if each.doubt or not each.program.reads)

    def knows(self, value: str) -> bool:
        """Return whether the service proxies of all nodes support a value of trafficDistribution."""
        old = {each for each in {version for _, version, _ in self.alike} if not self.behaviour(each).node_hints}
        old &= {version for _, version, each in self.alike if value == "PreferSameNode" and not each.is_other}
        return not old and all(each.knows(value) for _, _, each in self.alike)

    @property
    def is_deaf(self) -> bool:
        """True if no service proxy can follow hints, whatever Services request and however it is configured."""
        return not any(each.knows("PreferClose") or each.switch_on for _, _, each in self.alike)

    @cached_property
    def has_programs(self) -> bool:
        """True if some node has a pod of a service proxy."""
        return any(program.name for program, _ in self._programs.values())

    def _node(self, node: Object) -> Node:
        name, kubelet = str(node["metadata"]["name"]), kubelet_version(node)
        program, proxy = self._programs.get(name, (ProxyProgram(), None))
        known_by, status = f"kubelet {kubelet}" if kubelet else self.known_by, node.get("status") or {}
        reported = [each.get("status") for each in status.get("conditions") or () if each.get("type") == "Ready"]
        return Node(
            name,
            node_zone(node),
            NEWEST if program.is_other else version_of(program.version) or version_of(kubelet) or self.features.version,
            program,
            f"of the release of {known_by}" if known_by else "of a current release",
            counts(node, self.features),
            milli_cpu(str((status.get("allocatable") or {}).get("cpu", ""))),
            "unready" if proxy and not is_ready(proxy) else "missing" if not proxy and self.has_programs else "",
            {*reported} <= {"True"},  # or it does not report whether it is
        )

    @cached_property
    def _programs(self) -> Mapping[str, tuple[ProxyProgram, Object | None]]:
        pods: dict[str, list[Object]] = defaultdict(list)
        for each in self.objects.proxies:
            pods[str((each.get("spec") or {}).get("nodeName", ""))].append(each)
        cilium = next((each.get("data") or {} for each in self.objects.configs), None)
        return {name: program_of(each, cilium) for name, each in pods.items()}

    @cached_property
    def further(self) -> Mapping[tuple[str, str], list[Object]]:
        found: Mapping[tuple[str, str], list[Object]] = defaultdict(list)
        for resource, objects in {**self.objects.further, "pods": self.objects.pods}.items():
            for each in objects:
                found[resource, each["metadata"].get("namespace", "")].append(each)
        return found

    @cached_property
    def ill(self) -> set[str]:
        return {name for name, each in self.nodes.items() if not each.ready}

    def _refusals(self, rules: str) -> Mapping[str, str]:
        """Return the nodes that take no pods with these values of `scheduling.RULES`, each with the reason."""
        spec = dict(zip(RULES, json.loads(rules), strict=True))
        if "nodes" in self.objects.unread:
            return {}
        found = {name: refusal(spec, self.node_objects[name], ready=each.ready) for name, each in self.nodes.items()}
        return {name: why for name, why in found.items() if why}

    @cached_property
    def zones(self) -> ZoneTable:
        return ZoneTable(self.features, self.node_objects)

    @cached_property
    def node_objects(self) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in self.objects.nodes}

    def zone(self, endpoint: Object) -> str:
        """Return the zone of an endpoint: the zone of its node, or if that is unknown, the zone in the slice."""
        node = self.nodes.get(endpoint.get("nodeName") or "")
        return (node.zone if node else "") or str(endpoint.get("zone") or "")

    @cached_property
    def zones_in_slices(self) -> Mapping[str, str]:
        """Maps the names of nodes to their zones, according to the endpoints in slices."""
        endpoints = (each for one in self.objects.endpointslices for each in one.get("endpoints") or ())
        return {str(each.get("nodeName")): str(each["zone"]) for each in endpoints if each.get("zone")}

    @cached_property
    def names_of_zones(self) -> Sequence[str]:
        return sorted({each.zone for each in self.nodes.values()} - {""})

    def with_label(self, namespace: str, key: str) -> Mapping[str, list[Object]]:
        """Return the pods of a namespace that have this label, grouped by the label's value."""
        if (namespace, key) not in self._pods:
            found = self._pods[namespace, key] = defaultdict(list)
            for each in self.further["pods", namespace]:
                if (value := (each["metadata"].get("labels") or {}).get(key)) is not None:
                    found[value].append(each)
        return self._pods[namespace, key]

    @cached_property
    def ingress_controllers(self) -> set[str]:
        labels = (each["metadata"].get("labels") or {} for each in self.objects.pods)
        return _INGRESSES & {str(each.get("app.kubernetes.io/name", "")) for each in labels}

    def pods(self, service: Object) -> list[Object] | None:
        """Return the pods that a Service selects, or None if the pods are unknown."""
        selector = service["spec"].get("selector")
        if not selector or "pods" in self.objects.unread:
            return None
        wanted, (key, value) = selector.items(), next(iter(selector.items()))
        mine = self.with_label(service["metadata"]["namespace"], key).get(value, ())
        return [each for each in mine if wanted <= (each["metadata"].get("labels") or {}).items()]

    @cached_property
    def _events(self) -> Mapping[ServiceName, list[Object]]:
        found: dict[ServiceName, list[Object]] = defaultdict(list)
        for each in self.objects.events:
            about = each.get("involvedObject") or {}
            if about.get("kind") == "Service":
                found[about.get("namespace", ""), about.get("name", "")].append(each)
        return found

    def events(self, service: Object) -> list[str]:
        """Return the latest topology Event of a Service for each Event reason, newest first."""
        mine = [each for each in self._events.get(key_of(service), ()) if "Topology" in str(each.get("reason", ""))]
        newest: dict[str, Object] = {str(each["reason"]): each for each in sorted(mine, key=_time)}
        return [
            f"{each['reason']}: {each.get('message', '')} ({_time(each) or 'at an unknown time'})"
            for each in sorted(newest.values(), key=_time, reverse=True)
        ]

    @cached_property
    def _lease(self) -> Object | None:
        named = (each for each in self.objects.leases if each["metadata"]["name"] == CONTROLLER)
        return next((each.get("spec") or {} for each in named), None)

    def controller(self) -> str:
        """Return a sentence about the controller's Lease: its holder and last renewal. "" if there is no Lease."""
        if self._lease is None:
            return ""
        held = self._lease.get("holderIdentity") or "nobody"
        at = f", read at {self.objects.at}" if self.objects.at else ""
        return f"Lease {CONTROLLER}: held by {held}, renewed {self._lease.get('renewTime', 'never')}{at}"

    @property
    def controller_is_gone(self) -> bool:
        """True if the controller's Lease was released, or was long overdue when it was read (see `_PATIENCE`)."""
        if self._lease is None:
            return False
        renewed, now = moment(self._lease.get("renewTime")), moment(self.objects.at)
        lasts = timedelta(seconds=int(self._lease.get("leaseDurationSeconds") or 15))
        return not self._lease.get("holderIdentity") or bool(renewed and now and now > renewed + _PATIENCE * lasts)

    def look_at_proxy(self, node: str) -> str:
        _, pod = self._programs[node]
        assert pod is not None, "only a pod is known not to be ready"
        metadata, runs = pod["metadata"], (pod.get("status") or {}).get("phase", "Running") == "Running"
        return f"kubectl -n {metadata['namespace']} {'logs' if runs else 'describe pod'} {metadata['name']}"

    @cached_property
    def late_labels(self) -> Mapping[str, LateLabel]:
        """The late labels by node: zone labels that are known to be newer than the node's proxy pod."""
        found = {}
        for node in self.objects.nodes:
            name, written = str(node["metadata"]["name"]), _label_written(node)
            proxy = (self._programs.get(name) or (None, None))[1] or {}
            at, started = moment(written.get("time")), moment((proxy.get("status") or {}).get("startTime"))
            if at and started and at > started:
                manager, pod = str(written.get("manager", "?")), proxy["metadata"]
                said = f"by {manager} at {at:{_TIME}}, {pod['name']} started at {started:{_TIME}}"
                restart = f"kubectl -n {pod['namespace']} delete pod {pod['name']}"
                by_hand, at_start = manager.startswith("kubectl"), (pod.get("labels") or {}).get("k8s-app") == CALICO
                found[name] = LateLabel(f"zone label of {name} written {said}", by_hand, restart if at_start else "")
        return found

    def gate_off(self, component: str, *gates: str) -> str:
        seen = self.objects.gates.get(component, {})
        return next((each for each in gates if seen.get(each) is False), "")

    def _behaviour(self, version: Version, follows: Follows = "all") -> Behaviour:
        of_proxy = self.objects.gates.get(f"{PROXY} {version[0]}.{version[1]}", {})
        found = Behaviour.of(_features(version, {**self._keys, **of_proxy}, self.features.follows))
        if follows in {"zone", "strict", "none"}:
            return replace(found, node_hints=False, zone_hints=found.zone_hints and follows != "none")
        return found


def _features(version: Version, seen: Mapping[str, bool], follow: Reading) -> Features:
    usual, gates = Features(version, follows=follow), {}
    alpha = {name: True for name, each in GATES.items() if seen.get("AllAlpha") and each.exists(version[1])}
    for name, value in (alpha | dict(seen)).items():
        if name in GATES and usual.enabled(name) != value:
            with contextlib.suppress(ValueError):
                Features(version, {name: value})
                gates[name] = value
    return Features(version, gates, follow)


def _label_written(node: Object) -> Object:
    field = f"f:{ZONE_LABEL}"  # the latest entry with it may be newer than the label
    entries = node["metadata"].get("managedFields") or ()
    labels = [(((each.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}, each) for each in entries]
    return max((each for kept, each in labels if field in kept), key=lambda each: str(each.get("time", "")), default={})


def version_of(text: str) -> Version | None:
    """Return the release in a text like "v1.34.2", or the nearest known release; None if the text has no version."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return min(max((int(match[1]), int(match[2])), OLDEST), NEWEST) if match else None


def key_of(obj: Object) -> ServiceName:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def service_of(endpoint_slice: Object) -> ServiceName:
    return endpoint_slice["metadata"].get("namespace", ""), service_name(endpoint_slice)


def _image(pod: Object, program: str) -> str:
    containers = pod["spec"].get("containers") or ()
    return str(next((each.get("image", "") for each in containers if program in each.get("image", "")), ""))


def _time(event: Object) -> str:
    times = ((event.get("series") or {}).get("lastObservedTime"), *map(event.get, _TIMES))
    return str(next(filter(None, times), ""))
