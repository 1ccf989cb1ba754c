"""OpenAPI documents of the served kinds: what kubectl needs to check a manifest and to explain a field.

Fields, types and descriptions are read from the models of the `kubernetes` package, which were made from Kubernetes'
own document; merge keys come from `schema`. Importing the models takes about half a second, so it happens when a client
first asks.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import orjson

from reference.apiserver import media, openapi_proto, status
from reference.apiserver.kinds import Resource, Strategy, View, releases
from reference.apiserver.registry import Registry
from reference.apiserver.schema import ListRule, list_rules
from reference.client import Object
from reference.features import Version

_PROTO_V2 = "proto-openapi.spec.v2"
_PLAIN: dict[str, Object] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": {},
}
_GVK = "x-kubernetes-group-version-kind"
_LIST = re.compile(r"list\[(.*)\]", re.IGNORECASE)
_MAP = re.compile(r"dict[(\[]str, (.*)[)\]]", re.IGNORECASE)
_importing = threading.Lock()

Release = tuple[Version, frozenset[str]]
"""A version, and the gates that are asked for although it does not have them any more."""

_LOST: Mapping[str, Mapping[tuple[str, ...], Object]] = {
    "Service": {
        ("spec", "topologyKeys"): {
            "type": "array",
            "items": {"type": "string"},
            "description": (
                "topologyKeys are labels of nodes, in order of preference, at most 16. The first key decides for which "
                "an endpoint is on a node with the same value as the client's node: only such endpoints are used. When "
                'there is none for any key, connections fail; the last key may be "*", which every endpoint meets. May '
                "not be used together with externalTrafficPolicy Local. Only with feature gate ServiceTopology."
            ),
        }
    }
}
"""Fields that releases had once and the models have no longer, by kind and path."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as bytes, with its media type."""

    body: bytes
    content_type: str = media.JSON


@dataclass(frozen=True, slots=True)
class Served:
    """A kind under one of its groups and versions."""

    resource: Resource
    group: str
    version: str

    @property
    def gvk(self) -> Object:
        return {"group": self.group, "kind": self.resource.kind, "version": self.version}

    @property
    def prefix(self) -> str:
        return f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"


def document(registry: Registry, path: str, accept: str) -> Document:
    """The document at /openapi/v2, /openapi/v3 or /openapi/v3/PREFIX. Slow at first: not for the event loop."""
    served = tuple(_served(registry.strategies.values()))
    release = registry.features.version, registry.features.asked_for
    with _importing:  # the first import of the models by two threads at once is no good
        match path.strip("/").split("/"):
            case ["openapi", "v2"] if _PROTO_V2 in accept:
                return Document(_v2_proto(served, release), f"application/com.github.{_PROTO_V2}.v1.0+protobuf")
            case ["openapi", "v2"]:
                return Document(_v2_json(served, release))
            case ["openapi", "v3"]:
                return Document(_v3_index(served))
            case ["openapi", "v3", *rest]:
                prefix = "/".join(rest)
                chosen = tuple(each for each in served if each.prefix == prefix)
                if chosen:
                    return Document(_v3_json(chosen, release))
    raise status.no_such_path()


def _served(strategies: Any) -> Iterator[Served]:
    strategy: Strategy
    for strategy in strategies:
        places: tuple[Resource | View, ...] = (strategy.resource, *strategy.views)
        for place in places:
            yield Served(strategy.resource, place.group, place.version)


@lru_cache(maxsize=8)
def _v2_json(served: tuple[Served, ...], release: Release) -> bytes:
    return orjson.dumps(_v2(served, release))


@lru_cache(maxsize=8)
def _v2_proto(served: tuple[Served, ...], release: Release) -> bytes:
    return openapi_proto.encode(_v2(served, release))


def _v2(served: tuple[Served, ...], release: Release) -> Object:
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v{}.{}.0".format(*release[0])},
        "paths": dict(_paths(served, lambda name: {"name": name, "in": "query", "type": "string"})),
        "definitions": _Models(served, release).definitions,
    }


def _v3_index(served: tuple[Served, ...]) -> bytes:
    paths = {each.prefix: {"serverRelativeURL": f"/openapi/v3/{each.prefix}"} for each in served}
    return orjson.dumps({"paths": paths})


@lru_cache(maxsize=64)
def _v3_json(served: tuple[Served, ...], release: Release) -> bytes:
    paths = dict(_paths(served, lambda name: {"name": name, "in": "query", "schema": {"type": "string"}}))
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v{}.{}.0".format(*release[0])},
        "paths": paths,
        "components": {"schemas": _Models(served, release).definitions},
    }
    return orjson.dumps(_as_v3(document))


def _as_v3(value: Any) -> Any:
    """References of version 2 as version 3 has them: elsewhere, and inside `allOf` beside a description."""
    if isinstance(value, list):
        return [_as_v3(each) for each in value]
    if not isinstance(value, dict):
        return value
    converted = {key: _as_v3(each) for key, each in value.items() if key != "$ref"}
    if "$ref" in value:
        reference = {"$ref": value["$ref"].replace("#/definitions/", "#/components/schemas/")}
        return {**converted, "allOf": [reference]} if converted else reference
    return converted


def _paths(served: tuple[Served, ...], parameter: Any) -> Iterator[tuple[str, Object]]:
    """One PATCH an object: kubectl looks there for what parameters a server knows."""
    parameters = [parameter(name) for name in ("dryRun", "fieldManager", "fieldValidation", "force")]
    for each in served:
        scope = "namespaces/{namespace}/" if each.resource.namespaced else ""
        operation = {
            "description": f"partially update the specified {each.resource.kind}",
            "operationId": f"patch{each.group.title().replace('.', '')}{each.version.title()}{each.resource.kind}",
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            _GVK: each.gvk,
        }
        yield f"/{each.prefix}/{scope}{each.resource.plural}/{{name}}", {"patch": operation}


class _Models:
    """Definitions from the client's models: those of the served kinds, and all that they refer to.

    The models are those of a new release: what it lost is added, and what the served one does not have is left out.
    """

    def __init__(self, served: tuple[Served, ...], release: Release) -> None:
        self._release = release
        self._models = import_module("kubernetes.client.models")
        self.definitions: dict[str, Object] = {}
        for each in served:
            self._add_kind(each)

    def _add_kind(self, served: Served) -> None:
        model = _model_name(self._models, served)
        if model is None:  # a kind that the package does not know: anything goes
            name = f"{served.group or 'core'}.{served.version}.{served.resource.kind}"
            self.definitions[name] = {
                _GVK: [served.gvk],
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
            return
        self._add(model)
        self.definitions[_name(model)][_GVK] = [served.gvk]
        for path, rule in list_rules(served.resource.kind).items():
            if path[-1] in (properties := self._beside(model, path)):
                properties[path[-1]] |= _extensions(rule)
        for path, schema in _LOST.get(served.resource.kind, {}).items():
            self._beside(model, path)[path[-1]] = schema
        for path in releases.absent(served.resource.kind, *self._release):
            self._beside(model, path).pop(path[-1], None)

    def _add(self, model: str) -> None:
        if _name(model) in self.definitions:
            return
        definition: Object = {"type": "object"}
        self.definitions[_name(model)] = definition  # first, as models refer to themselves
        type_ = getattr(self._models, model)
        definition["description"] = _first_paragraph(type_.__doc__)
        definition["properties"] = {
            type_.attribute_map[attribute]: {
                **self._schema(written),
                "description": _description(type_, attribute),
            }
            for attribute, written in type_.openapi_types.items()
        }

    def _schema(self, written: str) -> Object:
        if match := _LIST.fullmatch(written):
            return {"type": "array", "items": self._schema(match[1])}
        if match := _MAP.fullmatch(written):
            return {"type": "object", "additionalProperties": self._schema(match[1])}
        if hasattr(self._models, written):
            self._add(written)
            return {"$ref": f"#/definitions/{_name(written)}"}
        return dict(_PLAIN.get(written, {}))

    def _beside(self, model: str, path: tuple[str, ...]) -> Object:
        """The properties among which is the one that `path` leads to; paths through unknown fields lead nowhere."""
        for field in path[:-1]:
            inner = re.search(r"V\d\w+", self._type_of(model, field))
            if inner is None:
                return {}
            model = inner[0]
        properties: Object = self.definitions.get(_name(model), {}).get("properties", {})
        return properties

    def _type_of(self, model: str, field: str) -> str:
        type_ = getattr(self._models, model)
        attributes = {json: attribute for attribute, json in type_.attribute_map.items()}
        return str(type_.openapi_types.get(attributes.get(field, ""), ""))


def _extensions(rule: ListRule) -> Object:
    if not rule.merge_key and not rule.map_keys:
        return {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
    found: Object = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(rule.map_keys)}
    if rule.merge_key:
        found["x-kubernetes-patch-merge-key"] = rule.merge_key
        found["x-kubernetes-patch-strategy"] = "merge,retainKeys" if rule.retain_keys else "merge"
    return found


def _model_name(models: Any, served: Served) -> str | None:
    version = served.version.title()
    group = served.group.partition(".")[0].title()
    prefixes = {"": "Core", "events.k8s.io": "Events"}
    for name in (
        f"{version}{served.resource.kind}",
        f"{prefixes.get(served.group, group)}{version}{served.resource.kind}",
    ):
        if hasattr(models, name):
            return name
    return None


def _name(model: str) -> str:
    return f"io.k8s.{model}"


def _description(type_: Any, attribute: str) -> str:
    fields = getattr(type_, "model_fields", None)  # models of client 35 and newer
    if fields is not None:
        return getattr(fields.get(attribute), "description", None) or ""
    written = (
        getattr(getattr(type_, attribute), "__doc__", None) or ""
    )  # "Gets the X of this Y.\n\n  description\n\n :return:"
    parts = re.split(r"\n\s*\n", written)
    return re.sub(r"\s*# noqa.*", "", parts[1]).strip() if len(parts) > 1 else ""


def _first_paragraph(text: str | None) -> str:
    return re.split(r"\n\s*\n", (text or "").strip())[0]
