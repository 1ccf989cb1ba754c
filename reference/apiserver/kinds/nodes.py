"""Nodes. The zone of a Node is in its label `topology.kubernetes.io/zone`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from reference.apiserver.kinds import columns, errors, names
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import (
    ANY,
    BOOLEAN,
    CONDITION,
    OTHERS,
    QUANTITIES,
    STRING,
    TIME,
    Shape,
    fields,
    of_object,
)
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ROLE_PREFIX = "node-role.kubernetes.io/"

_SPEC: Shape = {
    **fields(STRING, "podCIDR", "providerID"),
    "podCIDRs": [STRING],
    "unschedulable": BOOLEAN,
    "taints": [{"key": STRING, "value": STRING, "effect": STRING, "timeAdded": TIME}],
    OTHERS: ANY,
}
_STATUS: Shape = {
    "addresses": [{"type": STRING, "address": STRING}],
    "conditions": [CONDITION],
    **fields(QUANTITIES, "allocatable", "capacity"),
    "nodeInfo": {"kubeletVersion": STRING, OTHERS: ANY},
    OTHERS: ANY,
}


def _shown_status(node: Object) -> str:
    conditions = {each.get("type"): each.get("status") for each in node.get("status", {}).get("conditions") or []}
    word = {None: "Unknown", "True": "Ready"}.get(conditions.get("Ready"), "NotReady")
    return f"{word},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else word


def _roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return columns.listed(sorted(role for role in roles | {labels.get("kubernetes.io/role", "")} if role))


def _address(kind: str) -> columns.Cell:
    def cell(node: Object) -> str:
        every = node.get("status", {}).get("addresses") or []
        return next((str(each.get("address") or "") for each in every if each.get("type") == kind), columns.NONE)

    return cell


def _info(name: str, missing: str) -> columns.Cell:
    return lambda node: node.get("status", {}).get("nodeInfo", {}).get(name) or missing


_TABLE = (
    columns.NAME,
    columns.text("Status", "Whether the node is ready.", _shown_status),
    columns.text("Roles", "Roles from the node's labels.", _roles),
    columns.AGE,
    columns.text("Version", "Version of the kubelet.", _info("kubeletVersion", "")),
    columns.text("Internal-IP", "Address inside the cluster.", _address("InternalIP"), wide=True),
    columns.text("External-IP", "Address outside the cluster.", _address("ExternalIP"), wide=True),
    columns.text("OS-Image", "Operating system.", _info("osImage", columns.UNKNOWN), wide=True),
    columns.text("Kernel-Version", "Kernel.", _info("kernelVersion", columns.UNKNOWN), wide=True),
    columns.text("Container-Runtime", "Runtime.", _info("containerRuntimeVersion", columns.UNKNOWN), wide=True),
)


class Nodes(Strategy):
    """The strategy of Nodes. A kubelet registers its Node with a status, so a create request may contain a status."""

    resource = Resource("", "v1", "Node", "nodes", "node", ("no",), namespaced=False, has_status=True)
    shape = of_object(spec=_SPEC, status=_STATUS)
    selectable_fields: ClassVar = {
        "spec.unschedulable": lambda obj: str(bool(obj.get("spec", {}).get("unschedulable"))).lower(),
    }
    table = _TABLE

    def default(self, obj: Object) -> None:
        spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_for_create(self, obj: Object, features: Features) -> None:
        """Keep the status that the client sent."""

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        taints, status = (obj.get("spec") or {}).get("taints") or [], obj.get("status") or {}
        return [*super().validate(obj, features), *_validate_taints(taints), *_validate_status(status)]

    def validate_status_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        return [*super().validate_status_update(new, old, features), *_validate_status(new.get("status") or {})]


def _validate_taints(taints: list[Mapping[str, Any]]) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path, key, effect = f"spec.taints[{index}]", taint.get("key") or "", taint.get("effect") or ""
        yield from errors.violations(f"{path}.key", key, names.qualified_name)
        value = taint.get("value") or ""
        yield from errors.violations(f"{path}.value", value, names.label_value)
        yield from errors.choice(f"{path}.effect", effect, _TAINT_EFFECTS)
        if (key, effect) in seen:
            yield errors.duplicate(path, dict(taint))
        seen.add((key, effect))


def _validate_status(status: Mapping[str, Any]) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(status.get("addresses") or []):
        key = (each.get("type", ""), each.get("address", ""))
        if key in seen:
            yield errors.duplicate(f"status.addresses[{index}]", dict(each))
        seen.add(key)
    for name in ("capacity", "allocatable"):
        yield from _validate_quantities(status.get(name) or {}, f"status.{name}")


_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_SYNTAX = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _validate_quantities(amounts: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        match = _QUANTITY.fullmatch(str(amount))
        if match is None:
            yield errors.invalid(f"{path}[{name}]", amount, _SYNTAX)
        elif match[1] == "-" and float(match[2]):
            yield errors.invalid(f"{path}[{name}]", amount, "must be greater than or equal to 0")
