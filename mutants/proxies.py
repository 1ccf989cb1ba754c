"""Proxies that misread objects or remember old data, while each single decision is correct.

A reading fault is a `State` that reads objects differently. A memory fault is a `State` that keeps old data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.mutant import NO_ANSWER, REACHED, REFUSED, Mutant
from mutants.wrong_decisions import DecisionInput, deciding, without_hints
from reference.client import Object
from reference.proxy import ServiceProxy
from reference.proxy.decision import Decision, Drop, Forward, ServicePort
from reference.proxy.objects import Slice, family_of, read_slice
from reference.proxy.state import State

Name = tuple[str, str]

MUTANTS: list[Mutant] = []


def _register(name: str, sentence: str, provenance: str, symptom: str, **parts: Any) -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, symptom, proxy=partial(ServiceProxy, **parts)))


# Misread objects

ReadEndpoint = Callable[[Object], Object]


class _EditedEndpoints(State):
    """Modifies each endpoint of a slice."""

    def __init__(self, *arguments: Any, read: ReadEndpoint) -> None:
        super().__init__(*arguments)
        self._read = read

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "endpointslices" and not deleted:
            obj = {**obj, "endpoints": [self._read(each) for each in obj.get("endpoints") or ()]}
        super().receive(resource, obj, deleted=deleted)


def _misread(
    name: str, sentence: str, provenance: str = "", *, symptom: str = REACHED
) -> Callable[[ReadEndpoint], ReadEndpoint]:
    def register(read: ReadEndpoint) -> ReadEndpoint:
        _register(name, sentence, provenance, symptom, state=partial(_EditedEndpoints, read=read))
        return read

    return register


@_misread(
    "zone-of-the-endpoint-instead-of-hint",
    "The proxy uses the zone of an endpoint instead of its hint.",
    "Envoy Gateway",
)
def zone_of_the_endpoint_instead_of_hint(endpoint: Object) -> Object:
    hints = endpoint.get("hints") or {}
    own = [{"name": endpoint.get("zone", "")}]
    return _hinted(endpoint, {**hints, "forZones": own} if hints.get("forZones") else hints)


@_misread(
    "node-of-the-endpoint-instead-of-hint",
    "The proxy uses the node of an endpoint instead of its hint.",
    "Cilium, spring 2026",
)
def node_of_the_endpoint_instead_of_hint(endpoint: Object) -> Object:
    hints = endpoint.get("hints") or {}
    own = [{"name": endpoint.get("nodeName", "")}]
    return _hinted(endpoint, {**hints, "forNodes": own} if hints.get("forNodes") else hints)


@_misread("first-hint-only", "The proxy uses only the first hint of a list.")
def first_hint_only(endpoint: Object) -> Object:
    return _hinted(endpoint, {kind: names[:1] for kind, names in (endpoint.get("hints") or {}).items()})


@_misread(
    "unknown-readiness-means-not-ready",
    "The proxy treats an endpoint without a ready condition as not ready.",
    "kube-router, ingress-nginx#9550",
    symptom=REFUSED,
)
def unknown_readiness_means_not_ready(endpoint: Object) -> Object:
    return {**endpoint, "conditions": {"ready": False, **(endpoint.get("conditions") or {})}}


@_misread(
    "unknown-serving-means-no", "The proxy treats a terminating endpoint without a serving condition as not serving."
)
def unknown_serving_means_no(endpoint: Object) -> Object:
    return {**endpoint, "conditions": {"serving": False, **(endpoint.get("conditions") or {})}}


@_misread(
    "ready-endpoints-that-terminate-are-unused",
    "The proxy sends no traffic to endpoints that are both ready and terminating.",
    "cilium#18241",
    symptom=REACHED,
)
def ready_endpoints_that_terminate_are_unused(endpoint: Object) -> Object:
    conditions = endpoint.get("conditions") or {}
    if not (conditions.get("ready") and conditions.get("terminating")):
        return endpoint
    return {**endpoint, "conditions": {**conditions, "ready": False, "serving": False}}


def _hinted(endpoint: Object, hints: Mapping[str, Any]) -> Object:
    return {**endpoint, "hints": dict(hints)}


# Missed or remembered events


def _wrong_state(
    name: str, sentence: str, provenance: str = "", *, symptom: str = REACHED
) -> Callable[[type[State]], type[State]]:
    def register(state: type[State]) -> type[State]:
        _register(name, sentence, provenance, symptom, state=state)
        return state

    return register


@_wrong_state(
    "ignores-node-updates",
    "The proxy reads its Node once and ignores changes to its labels.",
    "kubernetes#90521, Calico eBPF",
)
class _IgnoresNodeUpdates(State):
    _known = False

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "nodes" and obj["metadata"]["name"] == self._node.place.node:
            if self._known:
                return
            self._known = True
        super().receive(resource, obj, deleted=deleted)


class _RemembersObjects(State):
    """Remembers the last version of each object. kube-apiserver writes null in a slice without endpoints."""

    def __init__(self, *arguments: Any, **parts: Any) -> None:
        super().__init__(*arguments, **parts)
        self.last: dict[tuple[str, Name], Object] = {}

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "endpointslices":
            obj = {**obj, "endpoints": obj.get("endpoints") or []}
        key = resource, _name(obj)
        before = self.last.get(key)
        self.last[key] = obj
        self.process(resource, obj, before, deleted=deleted)
        if deleted:
            del self.last[key]

    def process(self, resource: str, obj: Object, before: Object | None, *, deleted: bool) -> None:
        """Process an object; `before` is its previous version."""
        super().receive(resource, obj, deleted=deleted)


def _name(obj: Object) -> Name:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@_wrong_state(
    "hints-outlive-their-removal", "The proxy still follows hints that were removed from a slice.", "linkerd PR#10925"
)
class _KeepsRemovedHints(_RemembersObjects):
    def process(self, resource: str, obj: Object, before: Object | None, *, deleted: bool) -> None:
        if resource == "endpointslices" and before is not None:
            known = {each["addresses"][0]: each.get("hints") for each in before["endpoints"]}
            kept = [{"hints": known.get(each["addresses"][0]), **each} for each in obj["endpoints"]]
            obj = self.last[resource, _name(obj)] = {**obj, "endpoints": kept}
        super().process(resource, obj, before, deleted=deleted)


@_wrong_state("ignores-external-local", "The proxy ignores externalTrafficPolicy Local.", "antrea#3295")
class _IgnoresExternalLocal(State):
    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "services":
            obj = {**obj, "spec": {**obj["spec"], "externalTrafficPolicy": "Cluster"}}
        super().receive(resource, obj, deleted=deleted)


@_wrong_state("ignores-service-deletes", "The rules of a deleted Service remain.", "antrea#4713")
class _IgnoresServiceDeletes(State):
    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if not (resource == "services" and deleted):
            super().receive(resource, obj, deleted=deleted)


@_wrong_state("ignores-service-updates", "The proxy ignores changes to an existing Service.", "antrea#4845")
class _IgnoresServiceUpdates(_RemembersObjects):
    def process(self, resource: str, obj: Object, before: Object | None, *, deleted: bool) -> None:
        if resource != "services" or before is None or deleted:
            super().process(resource, obj, before, deleted=deleted)


@_wrong_state("ignores-slice-deletes", "The endpoints of a deleted slice remain.", "linkerd#10370")
class _IgnoresSliceDeletes(State):
    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if not (resource == "endpointslices" and deleted):
            super().receive(resource, obj, deleted=deleted)


@_wrong_state(
    "keeps-removed-endpoints", "The proxy still uses endpoints that are removed from a slice.", "kubernetes#99299"
)
class _KeepsRemovedEndpoints(_RemembersObjects):
    def process(self, resource: str, obj: Object, before: Object | None, *, deleted: bool) -> None:
        if resource == "endpointslices" and before is not None:
            present = {each["addresses"][0] for each in obj["endpoints"]}
            gone = [each for each in before["endpoints"] if each["addresses"][0] not in present]
            obj = self.last[resource, _name(obj)] = {**obj, "endpoints": [*obj["endpoints"], *gone]}
        super().process(resource, obj, before, deleted=deleted)


@_wrong_state(
    "ignores-new-endpoints",
    "The proxy does not use endpoints that are added to a slice later.",
    "linkerd#12427",
    symptom="never reached|was refused",
)
class _IgnoresNewEndpoints(_RemembersObjects):
    def process(self, resource: str, obj: Object, before: Object | None, *, deleted: bool) -> None:
        if resource == "endpointslices" and before is not None:
            known = {each["addresses"][0] for each in before["endpoints"]}
            old = [each for each in obj["endpoints"] if each["addresses"][0] in known]
            obj = self.last[resource, _name(obj)] = {**obj, "endpoints": old}
        super().process(resource, obj, before, deleted=deleted)


@_wrong_state("one-update-late", "A change to a slice takes effect only when the next change arrives.")
class _IsOneUpdateBehind(_RemembersObjects):
    def process(self, resource: str, obj: Object, before: Object | None, *, deleted: bool) -> None:
        late = resource == "endpointslices" and before is not None and not deleted
        super().process(resource, before if late and before is not None else obj, before, deleted=deleted)


# Decisions with too much or too little data


class _KnowsAllSlices(_RemembersObjects):
    """Makes decisions with access to all slices and Services."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, decide=deciding(self.wrong))

    def wrong(self, asked: DecisionInput) -> Decision:
        """Return the wrong decision."""
        return asked.answer()

    def others(self, port: ServicePort, *, family: bool) -> list[frozenset[str]]:
        """Return the zone hints of ready endpoints at the Service's other ports, or at this one in the other family."""
        mine, own = (port.port_name, port.protocol), family_of(port.cluster_ips[0])
        found = []
        for read in self.slices_of(port):
            if (read.family != own) is family:
                for key in read.numbers:
                    if (key == mine) is family:
                        found += [each.zone_hints for each in read.endpoints(key) if each.ready]
        return found

    def slices_of(self, port: ServicePort) -> list[Slice]:
        """Return the slices of a Service, in both IP families."""
        read = [read_slice(obj) for (resource, _), obj in self.last.items() if resource == "endpointslices"]
        return [each for each in read if each is not None and each.service == (port.namespace, port.name)]


@_wrong_state(
    "judges-each-slice", "The proxy checks each slice separately for endpoints without hints.", "ingress-nginx"
)
class _JudgesEachSlice(_KnowsAllSlices):
    def wrong(self, asked: DecisionInput) -> Decision:
        own = asked.port.port_name, asked.port.protocol
        slices = [{each.address for each in found.endpoints(own)} for found in self.slices_of(asked.port)]
        parts = [[each for each in asked.ready if each.address in addresses] for addresses in slices]
        unhinted = [one for each in parts for one in each if not all(other.zone_hints for other in each)]
        hinted = [one for each in parts for one in each if all(other.zone_hints for other in each)]
        zone = asked.place.zone
        every = [each._replace(zone_hints=frozenset({zone})) for each in asked.ready]
        followed = asked.answer(port=replace(asked.port, internal_local=False), endpoints=every).mode
        if not unhinted or not hinted or followed != "PreferSameZone":
            return asked.answer()
        near = [each for each in hinted if zone in each.zone_hints]
        return asked.instead(Forward((*near, *unhinted), "slice by slice"))


@_wrong_state(
    "judges-all-ports-together",
    "If another port has a nearby endpoint, a port without a nearby endpoint does not fall back.",
    "cilium#45214",
    symptom=NO_ANSWER,
)
class _JudgesAllPortsTogether(_KnowsAllSlices):
    def wrong(self, asked: DecisionInput) -> Decision:
        near = any(asked.place.zone in zones for zones in self.others(asked.port, family=False))
        mine = any(asked.place.zone in each.zone_hints for each in asked.ready)
        right = asked.answer()
        return asked.instead(Drop("a nearby endpoint of another port")) if near and not (mine or right.mode) else right


@_wrong_state(
    "judges-both-families-together",
    "Endpoints without hints in one IP family disable hints in the other family.",
    "cilium#45214",
)
class _JudgesBothFamiliesTogether(_KnowsAllSlices):
    def wrong(self, asked: DecisionInput) -> Decision:
        hinted = all(self.others(asked.port, family=True))
        return asked.answer(endpoints=asked.endpoints if hinted else without_hints(asked.endpoints))


@_wrong_state(
    "hints-need-the-field",
    "The proxy follows hints only on Services that set trafficDistribution.",
    "Cilium, cilium#25283",
)
class _HintsNeedDistribution(_KnowsAllSlices):
    def wrong(self, asked: DecisionInput) -> Decision:
        asks = _distribution(self, asked.port)
        return asked.answer(endpoints=asked.endpoints if asks else without_hints(asked.endpoints))


@_wrong_state(
    "field-without-hints",
    "Traffic to a Service that sets trafficDistribution stays in the zone even without hints.",
    "Envoy Gateway",
)
class _DistributionWithoutHints(_KnowsAllSlices):
    def wrong(self, asked: DecisionInput) -> Decision:
        if not _distribution(self, asked.port) or any(each.zone_hints for each in asked.ready):
            return asked.answer()
        invented = [each._replace(zone_hints=frozenset({each.node[:1]})) for each in asked.endpoints]
        return asked.answer(endpoints=invented)


def _distribution(state: _RemembersObjects, port: ServicePort) -> str:
    return str(state.last["services", (port.namespace, port.name)]["spec"].get("trafficDistribution") or "")


def _which(port: ServicePort) -> tuple[str, ...]:
    """Return the key of a port of a Service in one IP family."""
    return port.namespace, port.name, port.port_name, port.protocol, *port.cluster_ips


@_wrong_state(
    "never-returns-to-hints",
    "Once a Service has fallen back, to the zone or to all endpoints, the proxy ignores its hints.",
)
class _NeverReturnsToHints(_KnowsAllSlices):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._fallen: set[tuple[str, ...]] = set()

    def wrong(self, asked: DecisionInput) -> Decision:
        name = _which(asked.port)
        if name in self._fallen:
            return asked.answer(endpoints=without_hints(asked.endpoints))
        right = asked.answer()
        left_node = right.mode == "PreferSameZone" and all(each.node_hints for each in asked.ready)
        if asked.ready and (left_node or not right.mode):
            self._fallen.add(name)
        return right


@_wrong_state(
    "never-returns-to-zone-hints",
    "Once a Service has had no endpoint hinted for the zone, the proxy ignores its zone hints.",
)
class _NeverReturnsToZoneHints(_KnowsAllSlices):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._fallen: set[tuple[str, ...]] = set()

    def wrong(self, asked: DecisionInput) -> Decision:
        name = _which(asked.port)
        hinted = asked.ready and all(each.zone_hints for each in asked.ready)
        if hinted and not any(asked.place.zone in each.zone_hints for each in asked.ready):
            self._fallen.add(name)
        unhinted = without_hints(asked.endpoints, nodes=False)
        return asked.answer(endpoints=unhinted if name in self._fallen else asked.endpoints)


@_wrong_state("zone-remembered-by-services", "The proxy uses a new zone label of the node only for new Services.")
class _RemembersZonePerService(_KnowsAllSlices):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._zones: dict[Name, str] = {}

    def process(self, resource: str, obj: Object, before: Object | None, *, deleted: bool) -> None:
        if resource == "services" and deleted:
            self._zones.pop(_name(obj), None)
        super().process(resource, obj, before, deleted=deleted)

    def wrong(self, asked: DecisionInput) -> Decision:
        zone = self._zones.setdefault((asked.port.namespace, asked.port.name), asked.place.zone)
        return asked.answer(place=replace(asked.place, zone=zone))
