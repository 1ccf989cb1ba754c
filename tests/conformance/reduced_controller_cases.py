"""Remove from a controller's cases the conditions that trigger mutants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from reference.client import Object
from reference.endpointslice.labels import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE
from reference.endpointslice.node_level import NodeLevel
from reference.features import Features
from tests.conformance.controller_cases import (
    BY_NODE,
    CONTROL_PLANE,
    NEXT_ZONE,
    NODES,
    RESTART,
    SERVED,
    UNKNOWN,
    ZONE,
    ControllerCase,
)

Without = Callable[[ControllerCase], ControllerCase]
Done = tuple[str, str, Object]


def _each(change: Callable[[str, str, Object], Done | None]) -> Without:
    """Change or drop each action of a case."""
    return lambda case: replace(
        case, steps=[[new for one in step if (new := change(*one)) is not None] for step in case.steps]
    )


def _objects(resource: str, change: Callable[[Object], Object]) -> Without:
    return _each(lambda kind, which, obj: (kind, which, change(obj) if which == resource else obj))


def _no(*kinds: str, of: str) -> Without:
    return _each(lambda kind, which, obj: None if which == of and kind in kinds else (kind, which, obj))


def _spec(change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Without:
    return _objects("services", lambda obj: {**obj, "spec": {**change(obj["spec"])}})


def _bare(spec: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in names}


def _value(*values: str) -> Without:
    """Remove these values of trafficDistribution from all Services."""

    def changed(spec: Mapping[str, Any]) -> Mapping[str, Any]:
        return _bare(spec, "trafficDistribution") if spec.get("trafficDistribution") in values else spec

    return _spec(changed)


def _annotations(kept: Callable[[str, str], bool]) -> Without:
    def changed(obj: Object) -> Object:
        left = {key: value for key, value in obj["metadata"]["annotations"].items() if kept(key, value)}
        return {**obj, "metadata": {**obj["metadata"], "annotations": left}}

    return _objects("services", changed)


def _meta(resource: str, **changes: Any) -> Without:
    return _objects(resource, lambda obj: {**obj, "metadata": {**obj["metadata"], **changes}})


def _labels(obj: Object, change: Callable[[dict[str, str], str], Mapping[str, str]]) -> Object:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": change(dict(metadata["labels"]), metadata["name"])}}


def _status(resource: str, **changes: Any) -> Without:
    return _objects(resource, lambda obj: {**obj, "status": {**obj["status"], **changes}})


def _conditions(pod: Object) -> Object:
    ready = next(each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready")
    conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


def _several_zones(case: ControllerCase) -> ControllerCase:
    """Ensure that two zones always have eligible nodes."""
    extra = [
        (
            "ADDED",
            "nodes",
            {
                "metadata": {"name": f"{zone}9", "labels": {ZONE: zone}},
                "status": {"allocatable": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]},
            },
        )
        for zone in "yz"
    ]
    return replace(case, steps=[[*extra, *case.steps[0]], *case.steps[1:]])


def _nodes_stay(case: ControllerCase) -> ControllerCase:
    return _no("DELETED", of="nodes")(
        replace(
            case,
            steps=[
                [*case.steps[0], *_missing(case)],
                *[[each for each in step if each[:2] != ("ADDED", "nodes")] for step in case.steps[1:]],
            ],
        )
    )


def _missing(case: ControllerCase) -> list[Done]:
    there = {obj["metadata"]["name"] for _, resource, obj in case.steps[0] if resource == "nodes"}
    labels = {name: {ZONE: name[0]} for name in NODES}
    return [
        ("ADDED", "nodes", {"metadata": {"name": name, "labels": labels[name]}, "spec": {}, "status": {}})
        for name in NODES
        if name not in there
    ]


def _many_pods(case: ControllerCase) -> ControllerCase:
    """Add three pods that exist during the whole case."""
    pods = [
        (
            "ADDED",
            "pods",
            {
                "metadata": {"namespace": "default", "name": f"x{number}", "labels": {"app": "web"}},
                "spec": {
                    "nodeName": "a1",
                    "containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}],
                },
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "podIP": f"10.244.9.{number}",
                    "podIPs": [{"ip": f"10.244.9.{number}"}, {"ip": f"fd00:244:9::{number}"}],
                },
            },
        )
        for number in (1, 2, 3)
    ]
    return replace(case, steps=[[*case.steps[0], *pods], *case.steps[1:]])


def _empty(case: ControllerCase) -> ControllerCase:
    """Start with only Nodes, and never restart the controller."""
    later = [[each for each in step if each[0] != RESTART] for step in case.steps[1:]]
    nodes = [each for each in case.steps[0] if each[1] == "nodes"]
    return replace(case, steps=[nodes, [each for each in case.steps[0] if each[1] != "nodes"], *later])


def _one_port(case: ControllerCase) -> ControllerCase:
    return _spec(
        lambda spec: {
            **spec,
            "ports": [{**each, "targetPort": 8080} for each in spec["ports"] if each["name"] == "http"],
        }
    )(case)


def _one_family(case: ControllerCase) -> ControllerCase:
    return _spec(lambda spec: {**spec, "ipFamilies": ["IPv4"]})(case)


def _one_slice(case: ControllerCase) -> ControllerCase:
    return replace(_one_port(_one_family(case)), most=1000)


def _unasked(case: ControllerCase) -> ControllerCase:
    without = _annotations(lambda key, value: False)(_spec(lambda spec: _bare(spec, "trafficDistribution"))(case))
    return replace(without, node_level=NodeLevel())


CPU = {"Auto", "auto"}

WITHOUT: Mapping[str, Without] = {
    # Services
    "requests for hints": _unasked,
    "the field": _spec(lambda spec: _bare(spec, "trafficDistribution")),
    "no field": _spec(lambda spec: {"trafficDistribution": "PreferClose", **spec}),
    "PreferClose": _value("PreferClose"),
    "PreferSameNode": _value("PreferSameNode"),
    "PreferSameZone and PreferSameNode": _value("PreferSameZone", "PreferSameNode"),
    "values that count in metrics": _value("PreferClose", "PreferSameNode"),
    "values with a domain": _value(NEXT_ZONE, UNKNOWN),
    "heuristics": _value(NEXT_ZONE),
    "annotation": _annotations(lambda key, value: False),
    "annotation Auto": _annotations(lambda key, value: value not in CPU),
    "annotation auto": _annotations(lambda key, value: value != "auto"),
    "annotation Node": _annotations(lambda key, value: value != "Node"),
    "no annotation Node": _meta("services", annotations={TOPOLOGY_MODE: "Node"}),
    "annotation with the value of the field": _annotations(lambda key, value: value != "PreferClose"),
    "the older annotation": _annotations(lambda key, value: key != TOPOLOGY_AWARE_HINTS),
    "any Local": _spec(lambda spec: _bare(spec, "internalTrafficPolicy", "externalTrafficPolicy")),
    "publishNotReadyAddresses": _spec(lambda spec: _bare(spec, "publishNotReadyAddresses")),
    "IPv6": _one_family,
    "several ports": _one_port,
    "named ports": _spec(lambda spec: {**spec, "ports": [{**each, "targetPort": 8080} for each in spec["ports"]]}),
    "no selector": _spec(lambda spec: {**spec, "selector": {"app": "web"}}),
    "several slices": _one_slice,
    "more endpoints than fit": lambda case: replace(case, most=1000),
    "changes of Services": _no("MODIFIED", SERVED, of="services"),
    # pods
    "fewer than three endpoints": _many_pods,
    "endpoints that are not ready": lambda case: WITHOUT["terminating pods"](WITHOUT["unready pods"](case)),
    "unready pods": _status(
        "pods", conditions=[{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    ),
    "terminating pods": _objects("pods", lambda obj: {**obj, "metadata": _bare(obj["metadata"], "deletionTimestamp")}),
    "ended pods": _status("pods", phase="Running"),
    "pods that leave": lambda case: _no("DELETED", of="pods")(_meta("pods", labels={"app": "web"})(case)),
    "no endpoints": _many_pods,
    "containers that are ready before their pod": _objects("pods", _conditions),
    "DaemonSets": _meta("pods", ownerReferences=[]),
    "pods of others": _meta(
        "pods", ownerReferences=[{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]
    ),
    # nodes
    "nodes without zone": lambda case: _objects(
        "nodes", lambda obj: _labels(obj, lambda labels, name: {ZONE: name[0], **labels})
    )(_nodes_stay(case)),
    "nodes with a zone": _objects(
        "nodes", lambda obj: _labels(obj, lambda labels, name: {key: labels[key] for key in labels if key != ZONE})
    ),
    "missing nodes": _nodes_stay,
    "nodes of one zone": _several_zones,
    "nodes of the control plane": _objects(
        "nodes",
        lambda obj: _labels(obj, lambda labels, name: {key: labels[key] for key in labels if key != CONTROL_PLANE}),
    ),
    "nodes that are not ready": _status("nodes", conditions=[{"type": "Ready", "status": "True"}]),
    "CPU": _status("nodes", allocatable={"cpu": "1"}),
    "nodes without CPU": _objects(
        "nodes",
        lambda obj: {**obj, "status": {**obj["status"], "allocatable": obj["status"]["allocatable"] or {"cpu": "2"}}},
    ),
    "changes of nodes": _no("MODIFIED", of="nodes"),
    "added, removed or changed nodes": lambda case: replace(
        case, steps=[case.steps[0], *[[each for each in step if each[1] != "nodes"] for step in case.steps[1:]]]
    ),
    # others
    "slices of others": _no("ADDED", of="endpointslices"),
    "changes": lambda case: replace(case, steps=case.steps[:1]),
    "objects that already exist": _empty,
    "restarts": _each(lambda kind, which, obj: None if kind == RESTART else (kind, which, obj)),
    "outages": _each(lambda kind, which, obj: None if kind == "SYNCED" else (kind, which, obj)),
    "servers of another release": _no(SERVED, of="services"),
    "older releases": lambda case: replace(case, features=Features()),
    "newer releases": lambda case: replace(case, features=Features((1, 29))),
    "releases from 1.30 on": lambda case: replace(case, features=Features((1, 29))),
    "gate NodeLevelTopology": lambda case: replace(case, features=Features()),
    "gate NodeLevelTopology off": lambda case: replace(case, features=Features(gates=BY_NODE)),
    "manual": lambda case: replace(case, node_level=NodeLevel("automatic")),
    "opt-in": lambda case: replace(case, node_level=NodeLevel()) if case.node_level.approach == "opt-in" else case,
    "opt-out": lambda case: replace(case, node_level=NodeLevel()) if case.node_level.approach == "opt-out" else case,
    "a limit on missing nodes": lambda case: replace(case, node_level=replace(case.node_level, missing=None)),
    "a percentage": lambda case: replace(
        case,
        node_level=replace(
            case.node_level, missing=case.node_level.missing and replace(case.node_level.missing, percent=False)
        ),
    ),
    "a criterion of DaemonSets": lambda case: replace(case, node_level=replace(case.node_level, daemon_set=False)),
}
"""Maps the name of a condition to a function that removes the condition from a case."""
