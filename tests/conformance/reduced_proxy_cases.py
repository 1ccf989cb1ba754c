"""Remove from a proxy's cases the conditions that trigger mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from reference.client import Event, Object
from reference.features import Features
from tests.conformance.proxy_cases import OWN, ZONE, ProxyCase

Without = Callable[[ProxyCase], ProxyCase]


def _events(change: Callable[[Event], Event | None]) -> Without:
    """Change or drop each event of a case."""

    def without(case: ProxyCase) -> ProxyCase:
        steps = [[new for each in step if (new := change(each)) is not None] for step in case.steps]
        return replace(case, steps=steps)

    return without


def _objects(resource: str, change: Callable[[Object], Object]) -> Without:
    return _events(lambda event: replace(event, object=change(event.object)) if event.resource == resource else event)


def _spec(**changes: Any) -> Without:
    return _objects("services", lambda obj: {**obj, "spec": {**obj["spec"], **changes}})


def _endpoints(change: Callable[[Object], Object | None]) -> Without:
    def changed(obj: Object) -> Object:
        return {**obj, "endpoints": [new for each in obj["endpoints"] if (new := change(each)) is not None]}

    return _objects("endpointslices", changed)


def _hints(change: Callable[[Mapping[str, Any], Object], Mapping[str, Any]]) -> Without:
    return _endpoints(lambda each: {**each, "hints": change(each.get("hints") or {}, each)})


def _no(resource: str, kind: str, *, of: Callable[[str], bool] = lambda _: True) -> Without:
    """Drop the events of this kind."""
    return _events(
        lambda event: (
            None if (event.resource, event.type) == (resource, kind) and of(event.object["metadata"]["name"]) else event
        )
    )


def _no_deletes(resource: str) -> Without:
    """Drop deletions, and creations of objects that already exist."""

    def without(case: ProxyCase) -> ProxyCase:
        there: set[str] = set()

        def kept(event: Event) -> Event | None:
            if event.resource != resource:
                return event
            name = event.object["metadata"]["name"]
            if event.type == "DELETED" or (event.type == "ADDED" and name in there):
                return None
            there.add(name)
            return event

        return _events(kept)(case)

    return without


def _feature(change: Callable[[Features], Features]) -> Without:
    return lambda case: replace(case, features=change(case.features))


def _gate(name: str, *, on: bool) -> Without:
    def changed(features: Features) -> Features:
        others = {gate: value for gate, value in features.gates.items() if gate != name}
        return replace(features, gates={**others, name: True} if on else others)

    return _feature(changed)


def _stays(case: ProxyCase) -> ProxyCase:
    """Keep the set of endpoints constant.

    Each version of a slice also contains the endpoints of its other versions, marked as unusable.
    """
    pools: dict[str, dict[str, Object]] = {}
    for step in case.steps:
        for event in step:
            if event.resource == "endpointslices":
                pool = pools.setdefault(event.object["metadata"]["name"], {})
                pool.update({each["addresses"][0]: each for each in event.object["endpoints"]})
    unusable = {"ready": False, "serving": False, "terminating": True}

    def filled(obj: Object) -> Object:
        there = {each["addresses"][0] for each in obj["endpoints"]}
        pool = pools[obj["metadata"]["name"]]
        others = [{**each, "conditions": unusable} for address, each in pool.items() if address not in there]
        return {**obj, "endpoints": [*obj["endpoints"], *others]}

    return _objects("endpointslices", filled)(case)


def _one_slice(case: ProxyCase) -> ProxyCase:
    return _events(
        lambda event: (
            None if event.resource == "endpointslices" and event.object["metadata"]["name"].endswith("-1") else event
        )
    )(case)


def _one_port(obj: Object) -> Object:
    return {**obj, "ports": [each for each in obj["ports"] if each["name"] == "http"]}


def _one_family(event: Event) -> Event | None:
    match event:
        case Event(resource="endpointslices", object={"addressType": "IPv6"}):
            return None
        case Event(kind, "services", obj):
            spec = {**obj["spec"], "clusterIPs": obj["spec"]["clusterIPs"][:1]}
            return Event(kind, "services", {**obj, "spec": spec})
    return event


WITHOUT: Mapping[str, Without] = {
    # endpoints
    "hints": _hints(lambda hints, _: {}),
    "zone hints": _hints(lambda hints, _: {kind: names for kind, names in hints.items() if kind != "forZones"}),
    "node hints": _hints(lambda hints, _: {kind: names for kind, names in hints.items() if kind != "forNodes"}),
    "hints for other zones than their own": _hints(
        lambda hints, each: {**hints, **({"forZones": [{"name": each["zone"]}]} if "forZones" in hints else {})}
    ),
    "hints for other nodes than their own": _hints(
        lambda hints, each: {**hints, **({"forNodes": [{"name": each["nodeName"]}]} if "forNodes" in hints else {})}
    ),
    "several hints": _hints(lambda hints, _: {kind: names[:1] for kind, names in hints.items()}),
    "hints that change": _hints(lambda hints, each: {"forZones": [{"name": "ab"[len(each["addresses"][0]) % 2]}]}),
    "unhinted endpoints": _endpoints(
        lambda each: each if {"forZones", "forNodes"} <= (each.get("hints") or {}).keys() else None
    ),
    "unknown readiness": _endpoints(lambda each: {**each, "conditions": {"ready": True, **each["conditions"]}}),
    "unknown serving": _endpoints(lambda each: {**each, "conditions": {"serving": True, **each["conditions"]}}),
    "terminating endpoints": _endpoints(lambda each: None if each["conditions"].get("terminating") else each),
    "endpoints on the own node": _endpoints(lambda each: {**each, "nodeName": "b1"}),
    "endpoints on other nodes": _endpoints(lambda each: {**each, "nodeName": OWN}),
    "several slices": _one_slice,
    "added or removed endpoints": _stays,
    # Services
    "internal Local": _spec(internalTrafficPolicy="Cluster"),
    "external Local": _spec(externalTrafficPolicy="Cluster"),
    "affinity": _spec(sessionAffinity="None"),
    "node ports": _objects(
        "services",
        lambda obj: {
            **obj,
            "spec": {**obj["spec"], "ports": [{**each, "nodePort": 0} for each in obj["spec"]["ports"]]},
        },
    ),
    "load balancer IPs": _objects("services", lambda obj: {**obj, "status": {}}),
    "external IPs": _spec(externalIPs=[]),
    "the field": _spec(trafficDistribution=None),
    "no field": _spec(trafficDistribution="PreferClose"),
    "annotation": _objects("services", lambda obj: {**obj, "metadata": {**obj["metadata"], "annotations": {}}}),
    "topology keys": _spec(topologyKeys=[]),
    "no topology keys": _spec(topologyKeys=[ZONE]),
    "several topology keys": _objects(
        "services",
        lambda obj: {**obj, "spec": {**obj["spec"], "topologyKeys": (obj["spec"].get("topologyKeys") or [])[:1]}},
    ),
    "UDP": _objects("services", lambda obj: {**obj, "spec": _one_port(obj["spec"])}),
    "several ports": lambda case: _objects("endpointslices", _one_port)(
        _objects("services", lambda obj: {**obj, "spec": _one_port(obj["spec"])})(case)
    ),
    "IPv6": _events(_one_family),
    "several Services": _events(
        lambda event: None if event.resource == "services" and event.object["metadata"]["name"] == "api" else event
    ),
    # changes
    "changes": lambda case: replace(case, steps=case.steps[:1]),
    "changes of slices": _no("endpointslices", "MODIFIED"),
    "changes of Services": _no("services", "MODIFIED"),
    "changes of the node": _no("nodes", "MODIFIED", of=lambda name: name == OWN),
    "changes of other nodes": _no("nodes", "MODIFIED", of=lambda name: name != OWN),
    "deletes of Services": _no_deletes("services"),
    "deletes of slices": _no_deletes("endpointslices"),
    "objects that already exist": lambda case: replace(
        case,
        steps=[
            [each for each in case.steps[0] if each.resource in {"nodes", ""}],
            [each for each in case.steps[0] if each.resource not in {"nodes", ""}],
            *case.steps[1:],
        ],
    ),
    "an outage": lambda case: replace(
        case, steps=[case.steps[0], *([each for each in step if each.type != "SYNCED"] for step in case.steps[1:])]
    ),
    "a node that is being deleted": _objects("nodes", lambda obj: {**obj, "spec": {}}),
    # releases
    "older releases": _feature(lambda features: Features()),
    "newer releases": _feature(lambda features: Features((1, 29))),
    "releases with the annotation": _feature(
        lambda features: replace(
            features,
            version=(1, 37),
            gates={gate: on for gate, on in features.gates.items() if gate == "ServiceTopology"},
        )
    ),
    "gate of topologyKeys": _gate("ServiceTopology", on=False),
    "disabled gate of topologyKeys": _gate("ServiceTopology", on=True),
    "gate NodeLevelTopology": _gate("NodeLevelTopology", on=False),
}
"""Maps the name of a condition to a function that removes the condition from a case."""
