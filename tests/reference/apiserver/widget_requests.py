"""A small CustomResourceDefinition that uses all features that this server supports, and requests about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/example.com"
WIDGETS = f"{GROUP}/v1/namespaces/default/widgets"
BETA = f"{GROUP}/v1beta1/namespaces/default/widgets"

SPEC: Object = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
        "replicas": {"type": "integer", "default": 1},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "half": {"type": "number", "multipleOf": 0.5},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "when": {"type": "string", "format": "date-time"},
        "address": {"type": "string", "format": "ipv4"},
        "network": {"type": "string", "format": "cidr"},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "maybe": {"type": "string", "nullable": True},
        "chosen": {"type": "string", "default": "x"},
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "minProperties": 1,
            "maxProperties": 2,
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"type": "string", "default": "plain"},
                    "value": {"type": "string"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "kind"],
        },
        "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "plain": {"type": "array", "items": {"type": "string"}},
        "whole": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "x-kubernetes-map-type": "atomic",
        },
        "one": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "some": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            "not": {"required": ["a", "b"]},
        },
        "inner": {"type": "object", "default": {}, "properties": {"level": {"type": "integer", "default": 3}}},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
STATUS: Object = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "phase": {"type": "string"},
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}


def definition() -> Object:
    """Return a private copy of the definition."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": "The color."},
            {"name": "Names", "type": "string", "jsonPath": ".spec.names", "priority": 1},
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "First", "type": "string", "jsonPath": ".spec.items[*].value"},
            {"name": "When", "type": "date", "jsonPath": ".spec.when"},
        ],
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    beta = {**version, "name": "v1beta1", "storage": False, "deprecated": True}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"], "categories": ["all"]},
        "versions": [version, beta],
    }
    made: Object = json.loads(  # no part is shared by the versions
        json.dumps(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.com"},
                "spec": spec,
            }
        )
    )
    return made


def widget(name: str = "one", /, **spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


@dataclass(frozen=True, slots=True)
class WidgetRequest:
    """A request, and whether its error messages are compared as well."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"


def invalid() -> Iterator[Object]:
    """Yield specs that the schema refuses."""
    yield {"size": 0}
    yield {"size": 11}
    yield {"size": "1"}
    yield {"size": None}
    yield {"ratio": 0}
    yield {"half": 0.7}
    yield {"color": "blue"}
    yield {"color": 1}
    yield {"name": "x"}
    yield {"name": "UP"}
    yield {"name": "abcdef"}
    yield {"when": "yesterday"}
    yield {"address": "::1"}
    yield {"network": "10.0.0.0"}
    yield {"port": True}
    yield {"maybe": 1}
    yield {"labels": {}}
    yield {"labels": {"a": "b", "c": "d", "e": "f"}}
    yield {"labels": {"a": 1}}
    yield {"items": []}
    yield {"items": [{"name": str(each)} for each in range(4)]}
    yield {"items": [{"value": "x"}]}
    yield {"items": [{"name": "a"}, {"name": "a"}]}
    yield {"items": {}}
    yield {"names": ["a", "a"]}
    yield {"one": {}}
    yield {"one": {"a": "x", "b": "y"}}
    yield {"some": {}}
    yield {"some": {"a": "x", "b": "y"}}
    yield {"template": {}}


def valid() -> Iterator[Object]:
    yield {}
    yield {"unknown": 1, "inner": {"more": 1}, "free": {"any": [1, None]}, "labels": {"a": "b"}}
    yield {"port": 80, "maybe": None, "chosen": None, "ratio": 1.5}
    yield {"port": "http", "items": [{"name": "a"}, {"name": "a", "kind": "b", "no": 1}], "names": ["a", "b"]}
    yield {"one": {"a": "x"}, "some": {"b": "y"}, "when": "2026-01-01T00:00:00Z", "network": "10.0.0.1/8"}
    yield {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"x": 1}}}


APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def requests() -> list[WidgetRequest]:
    """Return requests, each of which comes after those before it."""
    found = [WidgetRequest("POST", WIDGETS, widget(f"invalid-{index}", **each)) for index, each in enumerate(invalid())]
    found += [WidgetRequest("POST", WIDGETS, widget(f"valid-{index}", **each)) for index, each in enumerate(valid())]
    one = f"{WIDGETS}/one"
    strict = f"{WIDGETS}?fieldValidation=Strict"
    merge, json_patch = "application/merge-patch+json", "application/json-patch+json"
    of_beta = {**widget("two"), "apiVersion": "example.com/v1beta1"}
    items = [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    found += [
        WidgetRequest("POST", strict, widget("strict", unknown=1)),
        WidgetRequest("POST", WIDGETS, {**widget(), "status": {"phase": "dropped"}}),
        WidgetRequest("POST", WIDGETS, widget()),
        WidgetRequest("POST", WIDGETS, {**widget("three"), "apiVersion": "example.com/v1beta1"}),
        WidgetRequest(
            "POST", WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "three"}}
        ),
        WidgetRequest("POST", WIDGETS, widget("Not_A_Name")),
        WidgetRequest("GET", one),
        WidgetRequest("GET", f"{BETA}/one"),
        WidgetRequest("POST", BETA, of_beta),
        WidgetRequest("GET", f"{WIDGETS}/two"),
        WidgetRequest("PATCH", f"{BETA}/two", {"spec": {"size": 2}}, merge),
        WidgetRequest("GET", f"{WIDGETS}/none"),
        WidgetRequest("PATCH", one, {"spec": {"size": 2}}, merge),
        WidgetRequest("PATCH", one, {"spec": {"size": 0}}, merge),
        WidgetRequest("PATCH", one, {"spec": {"color": None}}, merge),
        WidgetRequest("PATCH", one, [{"op": "replace", "path": "/spec/size", "value": 3}], json_patch),
        WidgetRequest("PATCH", one, {"spec": {"size": 2}}, "application/strategic-merge-patch+json"),
        WidgetRequest(
            "PATCH", f"{one}/status", {"status": {"replicas": 2, "selector": "a=b"}, "spec": {"size": 9}}, merge
        ),
        WidgetRequest("PATCH", f"{one}/status", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "x"}}, merge),
        WidgetRequest("PATCH", f"{one}/status", {"status": {"conditions": [{"status": "True"}]}}, merge),
        WidgetRequest(
            "PATCH", f"{one}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, merge
        ),
        WidgetRequest("PATCH", one, {"status": {"phase": "kept"}}, merge),
        WidgetRequest("GET", f"{one}/scale"),
        WidgetRequest("PATCH", f"{one}/scale", {"spec": {"replicas": 5}}, merge),
        WidgetRequest("PATCH", f"{one}/scale", {"spec": {"replicas": -1}}, merge),
        WidgetRequest("GET", one),
        WidgetRequest("GET", f"{WIDGETS}?fieldSelector=spec.color%3Dred%2Cmetadata.name%3Done"),
        WidgetRequest("GET", f"{WIDGETS}?fieldSelector=spec.size%3D1"),
        WidgetRequest("GET", WIDGETS, accept=TABLE),
        WidgetRequest("GET", f"{BETA}/one", accept=TABLE),
        WidgetRequest("PATCH", f"{WIDGETS}/applied?fieldManager=a", widget("applied", items=items, names=["a"]), APPLY),
        WidgetRequest(
            "PATCH", f"{WIDGETS}/applied?fieldManager=b", widget("applied", items=items[:1], names=["b"]), APPLY
        ),
        WidgetRequest("PATCH", f"{WIDGETS}/applied?fieldManager=b", widget("applied", size=2), APPLY),
        WidgetRequest("PATCH", f"{WIDGETS}/applied?fieldManager=b&force=true", widget("applied", size=2), APPLY),
        WidgetRequest("PATCH", f"{WIDGETS}/applied?fieldManager=c", widget("applied", size=2, whole={"a": "x"}), APPLY),
        WidgetRequest("PATCH", f"{WIDGETS}/applied?fieldManager=c", widget("applied", size=2, whole={"b": "y"}), APPLY),
        WidgetRequest("PATCH", f"{WIDGETS}/applied?fieldManager=a", widget("applied", size=2, items=items[1:]), APPLY),
        WidgetRequest("PATCH", f"{BETA}/beta?fieldManager=a", {**of_beta, "metadata": {"name": "beta"}}, APPLY),
        WidgetRequest("DELETE", f"{WIDGETS}/two"),
        WidgetRequest("DELETE", f"{WIDGETS}/two"),
        WidgetRequest("GET", f"{GROUP}/v1/namespaces/none/widgets"),
        WidgetRequest("POST", f"{GROUP}/v1/namespaces/none/widgets", widget()),
        WidgetRequest("GET", "/apis/example.com"),
        WidgetRequest("GET", "/apis/example.com/v1"),
        WidgetRequest("GET", "/apis/example.com/v1beta1"),
    ]
    return found


def wrong_definitions() -> Iterator[tuple[str, Object]]:
    """Yield definitions that are refused, with the name of their error."""

    def changed(path: str, value: Any, *, remove: bool = False) -> Object:
        made: Any = definition()
        node, *parts = made, *path.split("/")
        for each in parts[:-1]:
            node = node[int(each) if isinstance(node, list) else each]
        if remove:
            del node[parts[-1]]
        else:
            node[parts[-1]] = value
        return made  # type: ignore[no-any-return]

    schema = "spec/versions/0/schema/openAPIV3Schema"
    size = f"{schema}/properties/spec/properties/size"
    yield "name", changed("metadata/name", "gadgets.example.com")
    yield "group", changed("spec/group", "")
    yield "scope", changed("spec/scope", "Everywhere")
    yield "kind", changed("spec/names/kind", "a b")
    yield "storage", changed("spec/versions/1/storage", True)
    yield "version", changed("spec/versions/1/name", "v1")
    yield "schema", changed("spec/versions/0/schema", {})
    yield "preserve", changed("spec/preserveUnknownFields", True)
    yield "column", changed("spec/versions/0/additionalPrinterColumns/0/type", "thing")
    yield "scale", changed("spec/versions/0/subresources/scale/specReplicasPath", "")
    yield "root", changed(f"{schema}/type", "string")
    yield "untyped", changed(size, {"minimum": 1})
    yield "type", changed(size, {"type": "float"})
    yield "unique", changed(size, {"type": "array", "items": {"type": "string"}, "uniqueItems": True})
    yield "no items", changed(size, {"type": "array"})
    yield (
        "both",
        changed(
            size,
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
        ),
    )
    yield "pattern", changed(size, {"type": "string", "pattern": "("})
    yield "lookahead", changed(size, {"type": "string", "pattern": "(?=a)"})
    yield "default", changed(size, {"type": "integer", "default": "x"})
    yield "junctor type", changed(size, {"type": "integer", "anyOf": [{"type": "integer"}]})
    yield "junctor default", changed(size, {"type": "integer", "anyOf": [{"default": 1}]})
    yield "list type", changed(size, {"type": "string", "x-kubernetes-list-type": "set"})
    yield "no keys", changed(size, {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})
    yield (
        "metadata",
        changed(f"{schema}/properties/metadata", {"type": "object", "properties": {"labels": {"type": "object"}}}),
    )
