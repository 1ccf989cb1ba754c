"""Components that are wrong only for many objects, or for fields and pods that no requirement mentions.

Each fault shows only with the random values in `draw`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import Filter, ProxyOfAllNodes, Sink, controller_hearing, proxy_hearing, rewriting
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, WRITTEN, Mutant
from mutants.wrong_decisions import DecisionInput, proxy_deciding, without_hints
from mutants.wrong_plans import Pods, rewritten, without
from reference.apiserver.kinds.services import Services
from reference.client import Event, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.features import Features
from reference.proxy import ServiceProxy
from reference.proxy.decision import Decision, Forward, ServicePort
from reference.proxy.ruleset import PortEntries, render
from reference.proxy.state import State

MUTANTS: list[Mutant] = []

_ANY = f"{REACHED}|{REFUSED}|{NO_ANSWER}"


def _proxy(name: str, sentence: str, draw: str, proxy: Callable[..., ServiceProxy], provenance: str = "") -> None:
    MUTANTS.append(Mutant(name, sentence, provenance, _ANY, draw=draw, proxy=proxy))


def _decides(
    name: str, sentence: str, draw: str, provenance: str = ""
) -> Callable[[Callable[[DecisionInput], Any]], None]:
    return lambda wrong: _proxy(name, sentence, draw, proxy_deciding(wrong), provenance)


def _rereads(name: str, sentence: str, draw: str) -> Callable[[Callable[[Object], Object]], None]:
    """Create a mutant from a function that changes the slices that a proxy receives."""

    def register(read: Callable[[Object], Object]) -> None:
        def rewrite(event: Event) -> Event:
            if event.type == "SYNCED" or event.resource != "endpointslices":
                return event
            return Event(event.type, event.resource, read(event.object))

        _proxy(name, sentence, draw, proxy_hearing(rewriting(rewrite)))

    return register


def _each_endpoint(slice_: Object, change: Callable[[Object], Object]) -> Object:
    return {**slice_, "endpoints": [change(each) for each in slice_.get("endpoints") or ()]}


# Numbers


class _ServesLastTenPorts(State):
    def _decided(self, name: Any, service: Any) -> Iterator[Any]:
        ports = {family: known[-10:] for family, known in service.ports.items()}
        return super()._decided(name, replace(service, ports=ports))


_proxy(
    "ten-ports-of-a-service",
    "The proxy serves only the last ten ports of a Service.",
    "ports=twelve",
    partial(ServiceProxy, state=_ServesLastTenPorts),
)


class _ReadsTwoSlices(State):
    def _decision(self, service: Any, *others: Any) -> Any:
        first = dict(list(service.slices.items())[:2])
        return super()._decision(replace(service, slices=first), *others)


_proxy(
    "two-slices-of-a-service",
    "The proxy uses only the first two slices of a Service.",
    "slices=several",
    partial(ServiceProxy, state=_ReadsTwoSlices),
)


@_decides(
    "hundred-endpoints-of-a-service",
    "The proxy uses only the last hundred endpoints of a Service.",
    "endpoints=many",
)
def hundred_endpoints_of_a_service(asked: DecisionInput) -> Any:
    return asked.answer(endpoints=asked.endpoints[-100:])


@_decides(
    "ignores-hints-in-a-panic",
    "The proxy ignores hints if fewer than half of the endpoints are ready.",
    "endpoints=unready",
    "Envoy, panic threshold",
)
def ignores_hints_in_a_panic(asked: DecisionInput) -> Any:
    panics = 2 * len(asked.ready) < len(asked.endpoints)
    return asked.answer(endpoints=without_hints(asked.endpoints)) if panics else asked.answer()


@_rereads("four-hints-of-an-endpoint", "The proxy reads only the first four hints of a list.", "hints=eight")
def four_hints_of_an_endpoint(slice_: Object) -> Object:
    def shortened(endpoint: Object) -> Object:
        return {**endpoint, "hints": {kind: each[:4] for kind, each in (endpoint.get("hints") or {}).items()}}

    return _each_endpoint(slice_, shortened)


@_rereads("unknown-hints-void-a-list", "The proxy ignores hints with a zone that it does not know.", "hints=two")
def unknown_hints_void_a_list(slice_: Object) -> Object:
    def known(endpoint: Object) -> Object:
        names = [each["name"] for kind in (endpoint.get("hints") or {}).values() for each in kind]
        return {**endpoint, "hints": {}} if any(name.startswith("nowhere") for name in names) else endpoint

    return _each_endpoint(slice_, known)


class _ServesTwoHundredServices(State):
    def _receive_service(self, obj: Object, *, deleted: bool) -> None:
        name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if deleted or name in self._services or len(self._services) < 200:
            super()._receive_service(obj, deleted=deleted)


_proxy(
    "two-hundred-services",
    "The proxy serves at most two hundred Services.",
    "neighbours=crowd",
    partial(ServiceProxy, state=_ServesTwoHundredServices),
)


def _first_changes(sink: Sink) -> Sink:
    seen: Counter[str] = Counter()

    def receive(event: Event) -> None:
        if event.type != "SYNCED" and event.resource == "endpointslices":
            seen[event.object["metadata"]["uid"]] += 1
            if seen[event.object["metadata"]["uid"]] > 150:
                return
        sink(event)

    return receive


_proxy(
    "hundred-and-fifty-changes-of-a-slice",
    "The proxy ignores all changes to a slice after the first 150.",
    "history=busy",
    proxy_hearing(_first_changes),
)


# Fields


@_rereads(
    "no-hints-at-several-addresses",
    "The proxy ignores the hints of endpoints that have several addresses.",
    "addresses=several",
)
def no_hints_at_several_addresses(slice_: Object) -> Object:
    return _each_endpoint(slice_, lambda each: {**each, "hints": {}} if len(each["addresses"]) > 1 else each)


@_rereads("zoned-endpoints-need-a-node", "The proxy ignores endpoints with a zone and no node.", "addresses=nowhere")
def zoned_endpoints_need_a_node(slice_: Object) -> Object:
    endpoints = slice_.get("endpoints") or ()
    return {**slice_, "endpoints": [each for each in endpoints if "zone" not in each or each.get("nodeName")]}


@_rereads(
    "slices-of-other-owners",
    "The proxy ignores the endpoints of slices that have an owner of a kind other than Service.",
    "extras=newer",
)
def slices_of_other_owners(slice_: Object) -> Object:
    owners = {each["kind"] for each in slice_["metadata"].get("ownerReferences") or ()}
    return {**slice_, "endpoints": []} if owners - {"Service"} else slice_


class _DropsDistributionWithPolicy(Services):
    def decode(self, obj: Object, features: Features) -> list[str]:
        spec = obj.get("spec") or {}
        if "internalTrafficPolicy" in spec and "clusterIP" not in spec:
            spec.pop("trafficDistribution", None)
        return super().decode(obj, features)


MUTANTS.append(
    Mutant(
        "distribution-or-policy",
        "The API server removes trafficDistribution from a new Service whose internalTrafficPolicy is written.",
        symptom=WRITTEN,
        draw="policies=written",
        kinds=lambda: (_DropsDistributionWithPolicy(),),
    )
)


# Pods


def _misplans(name: str, sentence: str, draw: str, plan: Callable[..., SlicePlan]) -> None:
    controller = partial(EndpointSliceController, plan=plan)
    MUTANTS.append(Mutant(name, sentence, "", WRITTEN, draw=draw, controller=controller))


def _plans(name: str, sentence: str, draw: str, judged: Callable[[list[Object]], list[Object]]) -> None:
    def plan(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
        return plan_service(service, judged(list(pods)), *others, **options)

    _misplans(name, sentence, draw, plan)


def _without_reused_addresses(pods: list[Object]) -> list[Object]:
    ended = [each for each in pods if each["status"].get("phase") in {"Failed", "Succeeded"}]
    taken = {each["status"].get("podIP") for each in ended}
    return [each for each in pods if each in ended or each["status"].get("podIP") not in taken]


_plans(
    "ended-pods-keep-their-addresses",
    "A pod with the address of a pod that has ended is not an endpoint.",
    "pods=reused",
    _without_reused_addresses,
)


def _init_containers_first(pods: list[Object]) -> list[Object]:
    return [
        {**pod, "spec": {**spec, "containers": [*(spec.get("initContainers") or ()), *spec["containers"]]}}
        for pod in pods
        for spec in [pod["spec"]]
    ]


_plans(
    "init-containers-name-ports",
    "The controller looks for named target ports in init containers first.",
    "pods=sidecars",
    _init_containers_first,
)


def _container_ports(pod: Object) -> list[Object]:
    return [port for each in pod["spec"]["containers"] for port in each.get("ports") or ()]


def _named_targets(service: Object) -> set[str]:
    return {port["targetPort"] for port in service["spec"].get("ports") or () if isinstance(port["targetPort"], str)}


def _node_hints_in_one_slice(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    selected = list(pods)
    first = {port["containerPort"] for pod in selected[:1] for port in _container_ports(pod)}

    def changed(each: Object) -> Object:
        if not _named_targets(service) or any(port["port"] in first for port in each["ports"]):
            return each
        return _each_endpoint(each, lambda one: {**one, "hints": without(one.get("hints") or {}, "forNodes")})

    return rewritten(plan_service(service, selected, *others, **options), changed)


_misplans(
    "node-hints-for-the-first-port-numbers",
    "Only pods whose named target ports have the same numbers as those of the first pod get node hints.",
    "targets=named",
    _node_hints_in_one_slice,
)


def _all_pods_need_the_ports(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    selected, wanted = list(pods), _named_targets(service)
    complete = all(wanted <= {port["name"] for port in _container_ports(pod)} for pod in selected)
    return plan_service(service, selected if complete else [], *others, **options)


_misplans(
    "pod-without-named-ports-empties-a-service",
    "If a pod lacks a named target port, its Service has no endpoints.",
    "targets=lacking",
    _all_pods_need_the_ports,
)


def _selector_needs_values(service: Object, pods: Pods, *others: Any, **options: Any) -> SlicePlan:
    has_values = all((service["spec"].get("selector") or {}).values())
    return plan_service(service, list(pods) if has_values else [], *others, **options)


_misplans(
    "selectors-need-values",
    "A selector with an empty value selects no pod.",
    "labels=empty",
    _selector_needs_values,
)


def _of_pods(change: Callable[[Object, Object], Object]) -> Filter:
    """Return a filter that changes pods whose labels are not their first labels. `change` also gets the first form."""

    def through(sink: Sink) -> Sink:
        first: dict[str, Object] = {}

        def filtered(event: Event) -> None:
            if event.type in ("ADDED", "MODIFIED") and event.resource == "pods":
                before = first.setdefault(event.object["metadata"]["uid"], event.object)
                if before["metadata"].get("labels") != event.object["metadata"].get("labels"):
                    event = Event(event.type, event.resource, change(event.object, before))
            sink(event)

        return filtered

    return through


def _without_node(pod: Object, _: Object) -> Object:
    return {**pod, "spec": without(pod["spec"], "nodeName")}


def _keeps_labels(pod: Object, before: Object) -> Object:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())
    labels = before["metadata"].get("labels")
    return pod if ready else {**pod, "metadata": {**pod["metadata"], "labels": labels}}


for _name, _sentence, _draw, _change in (
    (
        "relabelled-pods-lose-their-node",
        "Pods whose labels have changed have no node and no zone.",
        "labels=changed",
        _without_node,
    ),
    (
        "labels-of-unready-pods-are-read-once",
        "The controller ignores changed labels of pods that are not ready.",
        "labels=removed",
        _keeps_labels,
    ),
):
    MUTANTS.append(Mutant(_name, _sentence, "", WRITTEN, draw=_draw, controller=controller_hearing(_of_pods(_change))))


def _without_leaving_hosts(sink: Sink) -> Sink:
    """Remove terminating endpoints whose address is a node's."""
    addresses: set[str] = set()

    def filtered(event: Event) -> None:
        if event.type != "SYNCED" and event.resource == "nodes":
            addresses.update(each["address"] for each in event.object["status"].get("addresses") or ())
        elif event.type != "SYNCED" and event.resource == "endpointslices":
            kept = [
                each
                for each in event.object.get("endpoints") or ()
                if not (each["conditions"].get("terminating") and addresses.intersection(each["addresses"]))
            ]
            event = Event(event.type, event.resource, {**event.object, "endpoints": kept})
        sink(event)

    return filtered


_proxy(
    "terminating-pods-on-the-host-network-are-gone",
    "The proxy does not use terminating endpoints that have the address of a node.",
    "pods=host",
    proxy_hearing(_without_leaving_hosts, ProxyOfAllNodes),
)


def _without_leaving_at_external_ips(
    port: ServicePort, decision: Decision, node: str, addresses: Sequence[str]
) -> PortEntries:
    leaving = isinstance(decision.cluster_ip, Forward) and any(
        each.terminating for each in decision.cluster_ip.endpoints
    )
    return render(replace(port, external_ips=()) if leaving else port, decision, node, addresses)


_proxy(
    "no-terminating-endpoints-at-external-ips",
    "The proxy uses terminating endpoints at all addresses except external IPs.",
    "address=external-ip",
    partial(ServiceProxy, state=partial(State, render=_without_leaving_at_external_ips)),
)
