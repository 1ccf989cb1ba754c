"""The state of one node's proxy: Services, slices, the proxy's Node, and the tables computed from these objects."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from reference.client import Object
from reference.objects.topology_keys import Labels
from reference.objects.trigger_times import read_trigger_time
from reference.proxy import objects
from reference.proxy.decision import Behaviour, Decision, Drop, Endpoint, Family, OwnNode, Protocol, ServicePort, decide
from reference.proxy.node_labels import NONE as NO_LABELS
from reference.proxy.node_labels import NodeLabels, PodLocatorLabels
from reference.proxy.objects import UNREADABLE, Node, Slice
from reference.proxy.ruleset import NOTHING, PortEntries, Ruleset, render
from reference.proxy.table import Table

FAMILIES: Final[tuple[Family, ...]] = ("IPv4", "IPv6")

Name = tuple[str, str]

PortKey = tuple[str, str, str, Protocol, Family]
"""The owner of table entries: the namespace and name of a Service, a port name, a protocol and an IP family."""

Dropped = tuple[Family, Literal["internal", "external"]]
"""Traffic that a traffic policy `Local` drops on this node: its IP family, and the policy (internal or external)."""


@dataclass(frozen=True, slots=True)
class LocalEndpoints:
    """The number of ready endpoints of a Service on this node, by IP family, for its health check node port."""

    namespace: str
    name: str
    counts: Mapping[Family, int]


@dataclass(slots=True)
class _Service:
    """There are no ports if the slices arrived before the Service. Decisions are not stored, to save memory."""

    ports: Mapping[Family, list[ServicePort]] = field(default_factory=dict)
    slices: dict[str, Slice] = field(default_factory=dict)
    decided: dict[PortKey, ServicePort] = field(default_factory=dict)
    dropped: frozenset[Dropped] = frozenset()
    health_port: int = 0
    checked: tuple[int, LocalEndpoints] | None = None


class State:
    """The objects that one node's proxy has received, and its tables. Not thread-safe.

    `unreadable` contains the Services whose slices could not be read; their rules stay unchanged. `dropped` counts the
    Services with the traffic policy `Local` that have usable endpoints, but none on this node.
    `health_checks` contains the changed health check node ports; a removed port has the value None.
    `triggered` contains the trigger times of changed slices, in seconds since 1970.
    """

    def __init__(
        self,
        node_name: str,
        behaviour: Behaviour,
        *,
        decide: Callable[..., Decision] = decide,
        render: Callable[..., PortEntries] = render,
        labels: NodeLabels | None = None,
    ) -> None:
        self.tables: dict[Family, Table] = {family: Table(family) for family in FAMILIES}
        self._node = Node(OwnNode(node_name))
        self._node_addresses: dict[Family, tuple[str, ...]] = dict.fromkeys(FAMILIES, ())
        self._labels, self._own_labels = labels or NodeLabels(), NO_LABELS
        self._keyed: dict[Name, frozenset[str]] = {}  # only Services that have topology keys
        self._behaviour = behaviour
        self._decide, self._render = decide, render
        self._services: dict[Name, _Service] = {}
        self._service_of: dict[Name, Name] = {}
        self._changed: dict[Name, None] = {}
        self.unreadable: dict[Name, Exception] = {}
        self.dropped: Counter[Dropped] = Counter()
        self.health_checks: dict[int, LocalEndpoints | None] = {}
        self.triggered: list[tuple[Family, float]] = []
        self._base_changed = False

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        """Store or remove an object. Raises `KeyError`, `TypeError` or `ValueError` if it is malformed."""
        match resource:
            case "endpointslices":
                self._receive_slice(obj, deleted=deleted)
            case "services":
                self._receive_service(obj, deleted=deleted)
            case "nodes":
                self._receive_node(obj, deleted=deleted)
            case "podlocators" if isinstance(self._labels, PodLocatorLabels):
                self._decide_again(self._labels.receive_locator(obj, deleted=deleted))

    def compute(self) -> bool:
        """Update the tables. Return True if the base rules have changed, so that all rules must be reloaded."""
        for name in self._changed:
            service = self._services[name]
            try:
                self._compute_service(name, service)
            except UNREADABLE as error:
                self.unreadable[name] = error
            if not service.ports and not service.slices:
                del self._services[name]
        self._changed.clear()
        base_changed, self._base_changed = self._base_changed, False
        return base_changed

    def ruleset(self, family: Family, pods: tuple[str, ...]) -> Ruleset:
        own = (*self._node.pod_cidrs, *(f"{each}/{32 if family == 'IPv4' else 128}" for each in self._node.addresses))
        return self.tables[family].ruleset(pods, tuple(each for each in own if objects.family_of(each) == family))

    def decisions(self) -> dict[str, Decision]:
        """Return all decisions by service port and IP family. Services whose slices cannot be read are left out."""
        found: dict[str, Decision] = {}
        for name, service in self._services.items():
            with suppress(*UNREADABLE):
                found |= {f"{port} {key[-1]}": decision for key, (port, decision) in self._decided(name, service)}
        return found

    def explain(self, namespace: str, name: str) -> str:
        place = self._node.place
        lines = [f"node {place.node}, zone {place.zone or '(none)'}"]
        service = self._services.get((namespace, name))
        if service is None or not service.ports:
            return f"{lines[0]}: Service {namespace}/{name} is not for this proxy, or does not exist"
        try:
            decided = dict(self._decided((namespace, name), service))
        except UNREADABLE as error:
            return f"{lines[0]}: slices of {namespace}/{name} cannot be read, so the rules are unchanged: {error}"
        for key, (port, decision) in decided.items():
            lines.append(f"{port} {key[-1]}, port {port.port} of {port.addresses}")
            lines += [f"  {reason}" for reason in decision.reasons]
            lines += [f"  conflict: {each} belongs to another Service" for each in self.tables[key[-1]].conflicts(key)]
        return "\n".join(lines)

    def _service(self, name: Name) -> _Service:
        self._changed[name] = None
        return self._services.setdefault(name, _Service())

    def _receive_slice(self, obj: Object, *, deleted: bool) -> None:
        metadata = obj["metadata"]
        name = (metadata["namespace"], metadata["name"])
        read = None if deleted else objects.read_slice(obj)
        before = self._service_of.pop(name, None)
        if before is not None and (read is None or before != read.service):
            self._service(before).slices.pop(name[1], None)
        if read is not None:
            self._service_of[name] = read.service
            slices = self._service(read.service).slices
            if (triggered := read_trigger_time(obj)) and slices.get(name[1]) != read:
                self.triggered.append((read.family, triggered))
            slices[name[1]] = read

    def _receive_service(self, obj: Object, *, deleted: bool) -> None:
        metadata = obj["metadata"]
        ports = {} if deleted else objects.service_ports(obj, self._behaviour)
        service = self._service((metadata["namespace"], metadata["name"]))
        service.ports = ports
        service.health_port = objects.health_check_port(obj) if ports else 0
        self._keyed.pop((metadata["namespace"], metadata["name"]), None)
        if ports and self._behaviour.topology_keys and (keys := objects.topology_keys(obj)):
            self._keyed[metadata["namespace"], metadata["name"]] = frozenset(keys)

    def _receive_node(self, obj: Object, *, deleted: bool) -> None:
        """Process a Node. If the proxy's own Node is deleted, the proxy keeps its last state, as kube-proxy does."""
        if self._behaviour.topology_keys:
            self._receive_labels(obj, deleted=deleted)
        if deleted or obj["metadata"]["name"] != self._node.place.node:
            return
        before, node = self._node, objects.read_node(obj)
        if node == before:
            return
        addresses = {family: objects.of_family(node.addresses, family) for family in FAMILIES}
        self._node, self._node_addresses = node, addresses
        self._changed.update(dict.fromkeys(self._services))
        if (before.addresses, before.pod_cidrs) != (self._node.addresses, self._node.pod_cidrs):
            self._base_changed = True

    def _receive_labels(self, node: Object, *, deleted: bool) -> None:
        if not (changed := self._labels.receive(node, deleted=deleted)):
            return
        if not deleted and node["metadata"]["name"] == self._node.place.node:
            self._own_labels = self._labels.of_node(self._node.place.node)
        self._decide_again(changed)

    def _decide_again(self, changed: AbstractSet[str]) -> None:
        """Mark the Services that use `changed` topology keys, so that `compute` makes new decisions for them."""
        self._changed.update(dict.fromkeys(name for name, keys in self._keyed.items() if keys & changed))

    def _compute_service(self, name: Name, service: _Service) -> None:
        decided = dict(self._decided(name, service))  # if one decision fails, no table changes
        for key, (port, decision) in decided.items():
            addresses = self._node_addresses[key[-1]]
            self.tables[key[-1]].put(key, self._render(port, decision, self._node.place.node, addresses))
        for key in service.decided.keys() - decided.keys():
            self.tables[key[-1]].put(key, NOTHING)
        service.decided = {key: port for key, (port, _) in decided.items()}
        self._count_dropped(service, decided)
        if service.health_port or service.checked:
            self._check_health(name, service)

    def _decided(self, name: Name, service: _Service) -> Iterator[tuple[PortKey, tuple[ServicePort, Decision]]]:
        for family, ports in service.ports.items():
            for port in ports:
                yield (*name, port.port_name, port.protocol, family), (port, self._decision(service, port, family))

    def _count_dropped(self, service: _Service, decided: Mapping[PortKey, tuple[ServicePort, Decision]]) -> None:
        dropped: set[Dropped] = set()
        for key, (port, decision) in decided.items():
            if port.internal_local and isinstance(decision.cluster_ip, Drop):
                dropped.add((key[-1], "internal"))
            if isinstance(decision.outside, Drop):
                dropped.add((key[-1], "external"))
        if dropped != service.dropped:
            self.dropped.subtract(service.dropped)
            self.dropped.update(dropped)
            service.dropped = frozenset(dropped)

    def _check_health(self, name: Name, service: _Service) -> None:
        """Count the local ready endpoints for the health check node port, and record the count if it changed."""
        before, node = service.checked, self._node.place.node
        ready: dict[Family, set[str]] = {family: set() for family in service.ports}
        for each in service.slices.values():
            if each.family in ready:
                ready[each.family] |= each.ready_on(node)
        counts = {family: len(addresses) for family, addresses in ready.items()}
        service.checked = (service.health_port, LocalEndpoints(*name, counts)) if service.health_port else None
        if service.checked == before:
            return
        if before is not None and not self._was_taken_over(before[0], name):
            self.health_checks[before[0]] = None
        if service.checked is not None:
            self.health_checks[service.health_port] = service.checked[1]

    def _was_taken_over(self, health_port: int, name: Name) -> bool:
        taken = self.health_checks.get(health_port)
        return taken is not None and (taken.namespace, taken.name) != name

    def _decision(self, service: _Service, port: ServicePort, family: Family) -> Decision:
        place, labels = self._node.place, None
        if port.topology_keys and self._behaviour.topology_keys:
            place, labels = replace(place, labels=self._own_labels), self._labels.of_endpoint
        return self._decide(port, _endpoints(service, port, family, labels), place, self._behaviour)


def _endpoints(
    service: _Service, port: ServicePort, family: Family, labels: Callable[[Mapping[str, Any]], Labels] | None
) -> Iterator[Endpoint]:
    key = (port.port_name, port.protocol)
    for each in service.slices.values():
        if each.family == family:
            yield from each.endpoints(key, labels)
