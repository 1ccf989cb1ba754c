"""OpenAPI documents of all served kinds. kubectl uses them to validate manifests and explain fields.

`tests/reference/apiserver/models_table.py` generates `models.json`, the fields, types and descriptions of the models of
the `kubernetes` package, which are generated from Kubernetes' OpenAPI document.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import orjson

from reference.apiserver import media, patches, status
from reference.apiserver.kinds import Strategy, versioned_fields
from reference.apiserver.kinds.custom_resources import CustomResources
from reference.apiserver.kinds.schemas import EMBEDDED, Schema
from reference.apiserver.merge_rules import ListRule, list_rules
from reference.apiserver.operations import Operation, ServedKind, of_resource, of_server, type_of
from reference.apiserver.registry import Registry
from reference.client import Object
from reference.features import Version

_PLAIN: dict[str, Object] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": {},
}
_GVK = "x-kubernetes-group-version-kind"
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_LIST = re.compile(r"list\[(.*)\]", re.IGNORECASE)
_MAP = re.compile(r"dict[(\[]str, (.*)[)\]]", re.IGNORECASE)
_ACTIONS = frozenset({"patch", "put", "post"})  # methods whose x-kubernetes-action is the method
_LONGEST_KEY = {"api": 2, "apis": 3}  # the number of path parts in the key of an OpenAPI v3 document

Release = tuple[Version, frozenset[str]]
"""A Kubernetes version, and the gates that were set explicitly although this version no longer has them."""

_LOST: Mapping[str, Mapping[tuple[str, ...], Object]] = {
    "Service": {
        ("spec", "topologyKeys"): {
            "type": "array",
            "items": {"type": "string"},
            "description": (
                "topologyKeys are labels of nodes, in order of preference, at most 16. The first key decides for which "
                "an endpoint is on a node with the same value as the client's node: only such endpoints are used. When "
                'there is none for any key, connections fail; the last key may be "*", which every endpoint meets. May '
                "not be used together with externalTrafficPolicy Local. Only with the ServiceTopology feature gate."
            ),
        }
    }
}
"""The schemas of removed fields (see `versioned_fields`) that the models no longer contain, by kind and path."""


def document(registry: Registry, path: str) -> bytes:
    """Return the JSON at /openapi/v2 (definitions only, for kubectl before 1.27), /openapi/v3 or /openapi/v3/PREFIX."""
    served = tuple(_served(registry.strategies.values()))
    release = registry.features.version, registry.features.asked_for
    match path.strip("/").split("/"):
        case ["openapi", "v2"]:
            return _v2(served, release)
        case ["openapi", "v3"]:
            return orjson.dumps({"paths": {key: {"serverRelativeURL": f"/openapi/v3/{key}"} for key in _paths(served)}})
        case ["openapi", "v3", *rest] if (key := "/".join(rest)) in _paths(served):
            return _v3(served, key, release)
    raise status.no_such_path()


def _served(strategies: Iterable[Strategy]) -> Iterator[ServedKind]:
    for strategy in strategies:
        for place, rules in strategy.group_versions:
            schema = rules.schema if isinstance(rules, CustomResources) else None
            yield ServedKind(rules.resource, place.group, place.version, rules.scale is not None, schema)


@lru_cache(maxsize=8)
def _v2(served: tuple[ServedKind, ...], release: Release) -> bytes:
    models = _Models(served, release, complete=False)
    document = {"swagger": "2.0", "info": _info(release), "paths": {}, "definitions": models.definitions}
    return orjson.dumps(document)


@lru_cache(maxsize=64)
def _v3(served: tuple[ServedKind, ...], key: str, release: Release) -> bytes:
    models = _Models(tuple(each for each in served if each.prefix == key), release)
    paths = {
        path: {each.method: _operation(each, models) for each in operations}
        for path, operations in _paths(served)[key].items()
    }
    components = {"schemas": models.definitions}
    return orjson.dumps({"openapi": "3.0.0", "info": _info(release), "paths": paths, "components": components})


def _info(release: Release) -> Object:
    return {"title": "Kubernetes", "version": "v{}.{}.0".format(*release[0])}


@lru_cache(maxsize=8)
def _paths(served: tuple[ServedKind, ...]) -> Mapping[str, Mapping[str, list[Operation]]]:
    """Return the operations, grouped by OpenAPI 3 document and then by path."""
    prefixes = dict.fromkeys(each.prefix for each in served)
    found: dict[str, dict[str, list[Operation]]] = {each: {} for each in prefixes}
    of_kinds = (each for of in served for each in of_resource(of))
    for each in (*of_kinds, *of_server([f"/{each}" for each in prefixes])):
        parts = each.path.strip("/").split("/")
        key = "/".join(parts[: _LONGEST_KEY.get(parts[0], 1)])
        found.setdefault(key, {}).setdefault(each.path, []).append(each)
    return found


def _operation(operation: Operation, models: "_Models") -> Object:
    schema = models.body(operation)
    places = [(name, "path") for name in operation.in_path] + [(name, "query") for name in operation.query]
    parameters = [
        {"name": name, "in": place, "schema": {"type": type_of(name)}} | ({"required": True} if place == "path" else {})
        for name, place in places
    ]
    answer = models.of_kind(operation.of) if operation.of and operation.returns_object else None
    content = {"content": {media.JSON: {"schema": answer}}} if answer else {}
    made = {
        **_identity(operation),
        "parameters": parameters,
        "responses": {str(operation.code): {"description": "OK", **content}},
    }
    if schema is not None:
        # A JSON patch is a list of operations. All other patches are objects.
        several: Object = {"type": "array", "items": {"type": "object"}}
        bodies = {each: {"schema": several if each == patches.JSON else schema} for each in _media_of(operation)}
        made["requestBody"] = {"content": bodies, "required": operation.body not in {"DeleteOptions", "any"}}
    return made


def _identity(operation: Operation) -> Object:
    if (of := operation.of) is None:
        called = "".join(part.strip("{}").title() for part in re.split(r"[/.]", operation.path))
        return {"description": f"{operation.action} {operation.path}", "operationId": f"{operation.action}{called}"}
    scope = "Namespaced" if "namespace" in operation.in_path else ""
    path = "WithPath" if "path" in operation.in_path else ""
    group = of.group.title().replace(".", "") or "Core"
    # kubectl validates pods at the server only if each PATCH of this kind has the parameter fieldValidation.
    gvk = {**of.gvk, "kind": "PodProxyOptions"} if operation.body == "any" else of.gvk
    return {
        "description": f"{operation.action} the specified {of.resource.kind}",
        "operationId": f"{operation.action}{group}{of.version.title()}{scope}{of.resource.kind}{path}",
        "x-kubernetes-action": operation.method if operation.method in _ACTIONS else operation.action,
        _GVK: gvk,
    }


def _media_of(operation: Operation) -> tuple[str, ...]:
    if operation.body == "patch" and operation.of is not None:
        return patches.types_of(operation.of.resource)
    return ("*/*",) if operation.body == "any" else (media.JSON,)


@cache
def models_by_name() -> Mapping[str, Any]:
    """Return the models of built-in kinds, by name: the description, and the type and description of each field."""
    found: Mapping[str, Any] = orjson.loads(files("reference.apiserver").joinpath("models.json").read_bytes())
    return found


class _Models:
    """Definitions from the `kubernetes` package's models, adapted to the fields of the served release."""

    def __init__(self, served: tuple[ServedKind, ...], release: Release, *, complete: bool = True) -> None:
        """`complete` selects OpenAPI 3 with full schemas of custom resources, instead of OpenAPI 2."""
        self._release, self._complete = release, complete
        self._definitions = "#/components/schemas/" if complete else "#/definitions/"
        self._models = models_by_name()
        self.definitions: dict[str, Object] = {}
        for each in served:
            self._add_kind(each)

    def of_kind(self, of: ServedKind) -> Object:
        model = None if of.schema is not None else _model_name(self._models, of)
        return {"$ref": self._definitions + (_unknown(of) if model is None else _name(model))}

    def body(self, operation: Operation) -> Object | None:
        match operation.body:
            case "":
                return None
            case "any":
                return {}
            case "patch":
                return {"type": "object"}
            case "object":
                assert operation.of is not None
                return self.of_kind(operation.of)
            case kind:
                self._add(f"V1{kind}")
                return {"$ref": self._definitions + _name(f"V1{kind}")}

    def _add_kind(self, served: ServedKind) -> None:
        if served.schema is not None:
            self._add_custom(served, served.schema)
            return
        model = _model_name(self._models, served)
        if model is None:  # a kind that the package does not know, so any fields are allowed
            self.definitions[_unknown(served)] = {_GVK: [served.gvk], "type": "object", _PRESERVES: True}
            return
        self._add(model)
        self.definitions[_name(model)][_GVK] = [served.gvk]
        for path, rule in list_rules(served.resource.kind).items():
            if path[-1] in (properties := self._properties_around(model, path)):
                properties[path[-1]] |= _extensions(rule)
        for path, schema in _LOST.get(served.resource.kind, {}).items():
            self._properties_around(model, path)[path[-1]] = schema
        for path in versioned_fields.absent(served.resource.kind, *self._release):
            self._properties_around(model, path).pop(path[-1], None)

    def _add_custom(self, served: ServedKind, schema: Schema) -> None:
        """In OpenAPI 2, which has fewer keywords, describe a custom resource as a free-form object."""
        self._add("V1ObjectMeta")
        metadata = {"$ref": self._definitions + _name("V1ObjectMeta")}
        identity = {each: metadata if each == "metadata" else {"type": "string"} for each in EMBEDDED}
        described: Object = {_PRESERVES: True}
        if self._complete:
            described = {**schema.document, "properties": {**schema.document.get("properties", {}), **identity}}
        self.definitions[_unknown(served)] = {"type": "object", **described, _GVK: [served.gvk]}

    def _add(self, model: str) -> None:
        if _name(model) in self.definitions:
            return
        definition: Object = {"type": "object"}
        self.definitions[_name(model)] = definition  # first, as models refer to themselves
        type_ = self._models[model]
        definition["description"] = type_["description"]
        definition["properties"] = {
            field: self._described(self._schema(written), description)
            for field, (written, description) in type_["fields"].items()
        }

    def _described(self, schema: Object, description: str) -> Object:
        """In OpenAPI 3, `$ref` must be the only key, so `allOf` wraps it."""
        if self._complete and "$ref" in schema:
            schema = {"allOf": [schema]}
        return {**schema, "description": description}

    def _schema(self, written: str) -> Object:
        if match := _LIST.fullmatch(written):
            return {"type": "array", "items": self._schema(match[1])}
        if match := _MAP.fullmatch(written):
            return {"type": "object", "additionalProperties": self._schema(match[1])}
        if written in self._models:
            self._add(written)
            return {"$ref": self._definitions + _name(written)}
        return dict(_PLAIN.get(written, {}))

    def _properties_around(self, model: str, path: tuple[str, ...]) -> Object:
        """Return the properties of the type that has the last field of `path`, or {} if the path has unknown fields."""
        for field in path[:-1]:
            inner = re.search(r"V\d\w+", self._type_of(model, field))
            if inner is None:
                return {}
            model = inner[0]
        properties: Object = self.definitions.get(_name(model), {}).get("properties", {})
        return properties

    def _type_of(self, model: str, field: str) -> str:
        return str(self._models[model]["fields"].get(field, [""])[0])


def _extensions(rule: ListRule) -> Object:
    if not rule.merge_key and not rule.map_keys:
        return {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
    found: Object = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(rule.map_keys)}
    if rule.merge_key:
        found["x-kubernetes-patch-merge-key"] = rule.merge_key
        found["x-kubernetes-patch-strategy"] = "merge,retainKeys" if rule.retain_keys else "merge"
    return found


def _model_name(models: Mapping[str, Any], served: ServedKind) -> str | None:
    version = served.version.title()
    group = served.group.partition(".")[0].title()
    prefixes = {"": "Core", "events.k8s.io": "Events"}
    name = f"{version}{served.resource.kind}"
    known = (name, prefixes.get(served.group, group) + name)
    return next((each for each in known if each in models), None)


def _unknown(served: ServedKind) -> str:
    return f"{served.group or 'core'}.{served.version}.{served.resource.kind}"


def _name(model: str) -> str:
    return f"io.k8s.{model}"
