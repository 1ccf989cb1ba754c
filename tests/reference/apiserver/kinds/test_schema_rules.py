"""Which schemas and JSONPath expressions a CustomResourceDefinition may have."""

from __future__ import annotations

from typing import Any

import pytest

from reference.apiserver.kinds import json_paths, schema_rules

Object = dict[str, Any]


def with_field(schema: Any) -> Object:
    return {"type": "object", "properties": {"x": schema}}


def errors_of(schema: Any) -> list[str]:
    document = with_field(schema)
    schema_rules.conform(document, "s")
    return [str(each).removeprefix("s.properties[x]") for each in schema_rules.validate(document, "s")]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "x"},
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {}]},
        {"type": "object", "oneOf": [{"required": ["a"]}, {"not": {"anyOf": [{"required": ["b"]}]}}]},
        {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 1}}},
        {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'"}]},
    ],
)  # fmt: skip
def test_structural_schemas_are_accepted(schema: Object) -> None:
    assert errors_of(schema) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, ".type: Required value: must not be empty for specified object fields"),
        ({"type": "array"}, ".items: Required value: must be specified"),
        ({"type": "string", "$ref": "#/y"}, ".$ref: Forbidden: $ref is not supported"),
        ({"type": "object", "definitions": {"a": {}}}, ".definitions: Forbidden: definitions is not supported"),
        ({"type": "object", "not": {"type": "object"}}, ".not.type: Forbidden: must be empty to be structural"),
        (
            {"type": "object", "not": {"properties": {"a": {"default": 1}}}},
            ".not.properties[a].default: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "integer", "default": "1"},
            '.default: Invalid value: "string": s.properties[x].default in body must be of type integer: "string"',
        ),
        ({"type": "string", "pattern": "x" * 5000}, ".pattern: Forbidden: the patterns of this schema are too large"),
    ],
)  # fmt: skip
def test_other_schemas_are_refused(schema: Object, said: str) -> None:
    assert errors_of(schema) == [said]


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "(a{1000}){1000}", "(\\pL|\\pN){900}", "\\1"])
def test_patterns_that_go_does_not_know_or_that_are_too_large_are_refused(pattern: str) -> None:
    (said,) = errors_of({"type": "string", "pattern": pattern})
    assert said.startswith((".pattern: Invalid value", ".pattern: Forbidden"))


def test_patterns_of_a_schema_are_bounded_together() -> None:
    many = {f"p{index}": {"type": "string", "pattern": f"a{{900}}{index}"} for index in range(100)}
    (said,) = errors_of({"type": "object", "properties": many})
    assert said.endswith("the patterns of this schema are too large")


def test_number_of_schemas_is_bounded() -> None:
    many = {f"p{index}": {"type": "string"} for index in range(schema_rules.MAX_NODES)}
    with pytest.raises(ValueError, match="has more than 20000 schemas"):
        schema_rules.conform(with_field({"type": "object", "properties": many}), "s")


def test_defaults_of_a_schema_may_cost_as_much_as_one_object() -> None:
    branches = [{"minLength": each} for each in range(100)]
    item = {"type": "array", "items": {"type": "string", "allOf": branches}, "default": ["x" * 200] * 300}
    said = errors_of({"type": "object", "properties": {f"p{index}": item for index in range(60)}})
    assert said[0].endswith("takes more than 200000 steps")


def test_unknown_keywords_are_removed_and_named() -> None:
    document = with_field({"type": "string", "const": "a", "title": None})
    assert schema_rules.conform(document, "s") == ["s.properties[x].const"]
    assert document == with_field({"type": "string"})


@pytest.mark.parametrize(
    "schema",
    [
        1,
        {"type": 1},
        {"properties": []},
        {"required": [1]},
        {"maxLength": True},
        {"maxItems": False},
        {"maximum": False},
        {"multipleOf": True},
        {"allOf": [1]},
        {"not": []},
    ],
)
def test_keyword_of_a_wrong_type_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="cannot unmarshal"):
        schema_rules.conform(with_field(schema), "s")


OBJ = {
    "a": {
        "b.c": "dotted",
        "list": [{"t": "x", "v": 1}, {"t": "y", "v": 2, "ok": True}],
        "map": {"k": {"t": "y", "v": 3}},
    }
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b\\.c", ["dotted"]),
        (".a['b.c']", ["dotted"]),
        (".a.list[1].v", [2]),
        (".a.list[9].v", []),
        (".a.list[*].v", [1, 2]),
        ('.a.list[?(@.t=="y")].v', [2]),
        (".a.list[?(@.t=='z')].v", []),
        (".a.list[?(@.v==1)].t", ["x"]),
        (".a.list[?(@.ok==true)].t", ["y"]),
        (".a.none.deeper", []),
        (".a.list.v", []),
    ],
)
def test_json_paths_find_values(path: str, found: list[Any]) -> None:
    assert json_paths.find(OBJ, path) == found


@pytest.mark.parametrize("path", ["", "a", ".a[", ".a[-1]", ".a[0:1]", "..a", ".a[?(@.b>1)]", ".a" * 1000, "{.a}"])
def test_other_json_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="json path"):
        json_paths.parse(path)


def test_paths_of_scale_have_fields_only() -> None:
    assert json_paths.fields(".spec.a\\.b") == ("spec", "a.b")
    assert json_paths.fields(".spec['a\\.b']") == ("spec", "a\\.b")
    with pytest.raises(ValueError, match="json path of fields"):
        json_paths.fields(".spec.list[0]")
