"""Cases for a proxy. A case has the objects at the proxy's start and later changes of them.

A case runs without a kernel, sockets or threads, so that many cases can run on many mutants.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

from reference.client import Client, Event, Object
from reference.features import Features
from reference.proxy import ServiceProxy
from reference.proxy import proxy as proxies
from reference.proxy.listeners import Listeners
from reference.proxy.ruleset import RuleAction, StickyEndpoints
from reference.proxy.state import FAMILIES, State

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.org/rack"
OWN = "a1"
NODES = ("a1", "a2", "b1")
OWN_ADDRESSES = ("10.0.0.1", "fd00::a1")
DELETION_TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}
FEATURES = (
    *(Features(),) * 4,
    Features((1, 29)),
    Features((1, 29), {"NodeLevelTopology": True}),
    Features((1, 30), {"ServiceTrafficDistribution": False}),
    Features((1, 33), {"PreferSameTrafficDistribution": False}),
    *(Features(gates={"ServiceTopology": True}),) * 2,
    Features(gates={"ServiceTopology": True}, follows="released"),
)
KEYS = ([HOST], [ZONE], [RACK], [HOST, ZONE], [RACK, ZONE], [HOST, "*"], [RACK, "*"])
SYNCED = Event("SYNCED", "", {})

Seen = Mapping[tuple[object, ...], object]
"""The behaviour of a proxy after a step. Keys begin with the kind of behaviour."""


@dataclass(frozen=True)
class ProxyCase:
    """A release, and steps.

    The events of a step arrive together. The first step has the objects that exist at the start.
    """

    features: Features
    steps: Sequence[Sequence[Event]]


# Generated cases


class _CaseGenerator:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.objects: dict[tuple[str, str], Object] = {}
        self.hinted, self.noded = (chance.choice((0.0, 0.8, 1.0, 1.0)) for _ in range(2))

    def generate(self, steps: int) -> ProxyCase:
        for name in NODES:
            self.objects["nodes", name] = self.node(name)
        for number, name in enumerate(self.chance.sample(("web", "api"), self.chance.randint(1, 2))):
            self.objects["services", name] = self.service(name, number)
            for family in ("IPv4", "IPv6"):
                for part in range(self.chance.choice((0, 1, 1, 2, 2))):
                    self.objects["endpointslices", f"{name}-{family}-{part}"] = self.slice(name, family, part)
        begin = [Event("ADDED", resource, deepcopy(each)) for (resource, _), each in self.objects.items()]
        return ProxyCase(self.chance.choice(FEATURES), [[*begin, SYNCED], *(self.step() for _ in range(steps))])

    def step(self) -> list[Event]:
        if self.chance.random() < 0.05:
            return [SYNCED]
        kinds = ["endpointslices"] * 4 + ["services"] * 2 + ["nodes"] * 2
        there = [key for kind in kinds for key in self.objects if key[0] == kind]
        resource, name = self.chance.choice(there)
        old = self.objects[resource, name]
        if resource != "nodes" and self.chance.random() < 0.15:
            del self.objects[resource, name]
            again = [] if self.chance.random() < 0.5 else [Event("ADDED", resource, old)]
            if again:
                self.objects[resource, name] = old
            return [Event("DELETED", resource, old), *again]
        match resource:
            case "nodes":
                new = self.node(name)
            case "services":
                new = self.service(name, 0, old)
            case _:
                new = self.changed_slice(old)
        self.objects[resource, name] = new
        return [Event("MODIFIED", resource, deepcopy(new))]

    def node(self, name: str) -> Object:
        chance = self.chance.random
        zone = self.chance.choice("aaab") if name[0] == "a" else "b"
        labels = {HOST: name} | ({ZONE: zone} if chance() < 0.9 else {}) | ({RACK: "1"} if chance() < 0.5 else {})
        addresses = OWN_ADDRESSES if name == OWN else ()
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [DELETION_TAINT] if chance() < 0.15 else []},
            "status": {"addresses": [{"type": "InternalIP", "address": each} for each in addresses]},
        }

    def service(self, name: str, number: int, old: Object | None = None) -> Object:
        chance, choice = self.chance.random, self.chance.choice
        spec: dict[str, Any] = {
            "type": "LoadBalancer",
            "clusterIPs": [f"10.96.0.{number + 1}", f"fd00:96::{number + 1}"][: choice((1, 2, 2))],
            "ports": [
                {"name": port, "port": 80 + index, "protocol": protocol, "nodePort": 30000 + 10 * number + index}
                for index, (port, protocol) in enumerate((("http", "TCP"), ("dns", "UDP"))[: choice((1, 2, 2))])
            ],
            "externalIPs": [f"198.51.100.{number + 1}", f"fd00:51::{number + 1}"] if chance() < 0.6 else [],
            "healthCheckNodePort": 31000 + number,
        }
        balanced = (f"192.0.2.{number + 1}", f"fd00:2::{number + 1}") if chance() < 0.6 else ()
        status = {"loadBalancer": {"ingress": [{"ip": each} for each in balanced]}}
        if old is not None:
            kept = {key: old["spec"][key] for key in ("type", "clusterIPs", "ports", "healthCheckNodePort")}
            spec, status = {**spec, **kept}, old["status"]
        if chance() < 0.25:
            spec["ports"] = [{**each, "nodePort": 0} for each in spec["ports"]]
        for policy in ("internalTrafficPolicy", "externalTrafficPolicy"):
            spec[policy] = "Local" if chance() < 0.3 else "Cluster"
        if chance() < 0.4:
            spec["trafficDistribution"] = "PreferClose"
        if chance() < 0.3:
            spec["sessionAffinity"] = "ClientIP"
        if chance() < 0.5:
            spec["topologyKeys"] = choice(KEYS)
        annotations = {"service.kubernetes.io/topology-mode": "Auto"} if chance() < 0.4 else {}
        metadata = {"namespace": "default", "name": name, "annotations": annotations}
        return {"metadata": metadata, "spec": spec, "status": status}

    def slice(self, service: str, family: str, part: int) -> Object:
        labels = {"kubernetes.io/service-name": service}
        metadata = {"namespace": "default", "name": f"{service}-{family}-{part}", "labels": labels}
        ports = [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": 5353, "protocol": "UDP"}]
        pools = self.chance.choice((ports, ports, ports[:1], ports[1:]))
        numbers = [number for number in range(4) if self.chance.random() < 0.7]
        base = "10.244.{}.{}" if family == "IPv4" else "fd00:244:{}::{}"
        which = 2 * (service == "api") + part
        return {
            "metadata": metadata,
            "addressType": family,
            "ports": pools,
            "endpoints": [self.endpoint(base.format(which, number + 1)) for number in numbers],
        }

    def endpoint(self, address: str) -> Object:
        choice = self.chance.choice
        node = choice(NODES)
        conditions = choice(
            (*({"ready": True, "serving": True, "terminating": False},) * 4,
             {},
             {"ready": False, "serving": False, "terminating": False},
             {"ready": False, "serving": True, "terminating": True},
             {"ready": False, "serving": False, "terminating": True})
        )  # fmt: skip
        if conditions.get("terminating") and conditions["serving"] and address.endswith(("1", "3", "5", "7", "9")):
            conditions = {"ready": False, "terminating": True}  # an equivalent form
        made = {"addresses": [address], "nodeName": node, "zone": node[0], "conditions": conditions}
        return self.with_hints(made)

    def with_hints(self, endpoint: Object) -> Object:
        hints = {}
        for kind, names, rate in (("forZones", "ab", self.hinted), ("forNodes", NODES, self.noded)):
            if self.chance.random() < rate:
                count = self.chance.choice((1, 1, 2))
                hints[kind] = [{"name": each} for each in self.chance.sample(names, count)]
        bare = {key: value for key, value in endpoint.items() if key != "hints"}
        return {**bare, "hints": hints} if hints else bare

    def changed_slice(self, old: Object) -> Object:
        endpoints, choice = list(old["endpoints"]), self.chance.choice
        kinds = ("leave", "come", "hints", "unhinted", "all hints", "condition") if endpoints else ("come",)
        if endpoints:
            which = self.chance.randrange(len(endpoints))
        match choice(kinds):
            case "leave":
                del endpoints[which]
            case "come":
                name = old["metadata"]["name"]
                base = "10.245.{}.{}" if "IPv4" in name else "fd00:245:{}::{}"
                there = {each["addresses"][0] for each in endpoints}
                new = base.format(ord(name[0]) % 10, self.chance.randint(1, 3))
                endpoints += [self.endpoint(new)] if new not in there else []
            case "hints":
                endpoints[which] = self.with_hints(endpoints[which])
            case "unhinted":
                endpoints = [{key: value for key, value in each.items() if key != "hints"} for each in endpoints]
            case "all hints":
                endpoints = [self.with_hints(each) for each in endpoints]
            case "condition":
                endpoints[which] = {**endpoints[which], "conditions": self.endpoint("")["conditions"]}
        return {**old, "endpoints": endpoints}


def generated_cases(count: int, *, steps: int = 5) -> list[ProxyCase]:
    """Return deterministic generated cases."""
    chance = random.Random(536)
    return [_CaseGenerator(chance).generate(steps) for _ in range(count)]


# Running a case on a proxy


class _FakeClient:
    """A fake API client that sends the existing objects first and then the events of a case."""

    def __init__(self) -> None:
        self.tell: Callable[[Event], None] = lambda event: None

    def subscribe(self, resources: Collection[str], sink: Callable[[Event], None]) -> Any:
        self.tell = sink


class _FakeKernel:
    """A fake of the kernel interface that the proxy uses."""

    def __init__(self, state: State, pod_cidrs: Sequence[str], metrics: Any, kernel_table: object) -> None:
        self.state, self.metrics, self.stale = state, metrics, set[object]()

    def write(self, *, reload: bool) -> None:
        self.stale = set()
        for family, table in self.state.tables.items():
            self.stale |= {each for changes in table.take_changes() for each in changes.stale if not reload}
            self.metrics.last_synced[family] = 7.0

    def close(self) -> None:
        """Do nothing."""


class _FakeThread:
    """A fake thread that never runs."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def start(self) -> None:
        """Do nothing."""


@contextmanager
def _no_system() -> Iterator[None]:
    """In this context, new proxies use no kernel, no sockets and no thread."""
    with (
        mock.patch.object(proxies, "KernelWriter", _FakeKernel),
        mock.patch.object(Listeners, "_listen", lambda self, port: self._open.setdefault(port, [])),
        mock.patch.object(proxies.threading, "Thread", _FakeThread),
    ):
        yield


def run_case(proxy: Callable[..., ServiceProxy], case: ProxyCase) -> list[Seen]:
    """Run a case on a proxy. Return the proxy's behaviour after each step."""
    server = _FakeClient()
    seen: list[Seen] = []
    with _no_system():
        made = proxy(OWN, server, pod_cidrs=("10.244.0.0/16",), features=case.features, serving=object())
        client: Client = made._client
        client.subscribe(made._resources, made._deliver)
        for step in case.steps:
            for event in step:
                server.tell(event)
            made._metrics.last_queued = 5.0
            while not made._events.empty():
                made._receive(made._events.get())
            if made._complete:
                made._write()
            seen.append(_seen(made, told=step is case.steps[-1]))
    return seen


KINDS = (
    ("10.96.", "cluster IP"), ("fd00:96:", "cluster IP"),
    ("192.0.2.", "load balancer IP"), ("198.51.100.", "external IP"),
    ("fd00:2:", "load balancer IP"), ("fd00:51:", "external IP"),
    ("10.0.0.", "node port"), ("fd00::", "node port"),
)  # fmt: skip


def _seen(proxy: ServiceProxy, *, told: bool) -> Seen:
    """Return the behaviour of a proxy. If `told`, include its health responses and its metrics."""
    found: dict[tuple[object, ...], object] = {}
    for family in FAMILIES:
        rules = proxy._state.ruleset(family, ())
        for service, action in rules.services.items():
            kind = _kind(service.address)
            outside = rules.external.get(service, action) if kind != "cluster IP" else action
            found[kind, "inside", service], found[kind, "outside", service] = map(_what, (action, outside))
            sticky = "affinity" if kind == "cluster IP" else "affinity outside"
            found[sticky, service] = [each.seconds for each in (action, outside) if isinstance(each, StickyEndpoints)]
        found["hairpin", family] = rules.hairpin
        for service, ranges in rules.ranges.items():
            found["source ranges", service] = ranges
    found["stale",] = frozenset(proxy._kernel.stale)  # type: ignore[attr-defined]
    for port, handlers in proxy._listeners._wanted.items():
        for each, handler in handlers.items():
            code, headers, body = handler("/")
            found["health check port", port, each] = code, {**headers}, json.loads(body)["localEndpoints"]
    if not told:
        return found
    for path in ("/healthz", "/livez", "/else"):
        code, _, body = proxy._health.answer(path)
        found["health", path] = code, b'"nodeEligible": true' in body
    for metric in proxy.registry.collect():
        for sample in metric.samples:
            kind = next((kind for part, kind in METRICS if part in sample.name), "")
            if kind:
                found[kind, sample.name, *sorted(sample.labels.items())] = sample.value
    return found


@cache
def _kind(address: str) -> str:
    return next(kind for prefix, kind in KINDS if address.startswith(prefix))


METRICS = (("no_local_endpoints", "drops"), ("timestamp", "timestamps"), ("changes_total", "changes"))


def _what(action: RuleAction) -> object:
    match action:
        case StickyEndpoints(endpoints):
            return frozenset(endpoints)
        case tuple():
            return frozenset(action)
    return action
