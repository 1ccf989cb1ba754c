"""The schemas of custom resources: validation, defaults and pruning. jsonschema checks the generated cases."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from reference.apiserver.kinds import schemas
from reference.apiserver.kinds.schemas import Schema

Object = dict[str, Any]


def object_of(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


def errors_of(document: Object, value: Any) -> list[str]:
    return [str(each) for each in Schema(document).validate(value)]


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("document", "value", "said"),
    [
        (TEXT, 1, 'x: Invalid value: "integer": x in body must be of type string: "integer"'),
        (NUMBER, True, 'x: Invalid value: "boolean": x in body must be of type integer: "boolean"'),
        (TEXT, None, 'x: Invalid value: "null": x in body must be of type string: "null"'),
        ({**NUMBER, "maximum": 3}, 4, "x: Invalid value: 4: x in body should be less than or equal to 3"),
        (
            {**NUMBER, "minimum": 3, "exclusiveMinimum": True},
            3,
            "x: Invalid value: 3: x in body should be greater than 3",
        ),
        (
            {**NUMBER, "format": "int32"},
            1 << 31,
            'x: Invalid value: 2147483648: x in body must be of type int32: "integer"',
        ),
        ({**TEXT, "maxLength": 2}, "äöü", "x: Too long: may not be more than 2 bytes"),
        ({**TEXT, "minLength": 2}, "ä", 'x: Invalid value: "ä": x in body should be at least 2 chars long'),
        ({**TEXT, "pattern": "^a$"}, "b", "x: Invalid value: \"b\": x in body should match '^a$'"),
        ({**TEXT, "enum": ["a", "b"]}, "c", 'x: Unsupported value: "c": supported values: "a", "b"'),
        ({**TEXT, "format": "ipv4"}, "::1", 'x: Invalid value: "::1": x in body must be of type ipv4: "::1"'),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], "x: Too many: 2: must have at most 1 item"),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "b", "a"],
            'x[2]: Duplicate value: "a"',
        ),
        (
            {"type": "array", "items": TEXT},
            ["a", 1],
            'x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer"',
        ),
        ({**object_of(), "required": ["a"]}, {}, "x.a: Required value"),
        (
            {**object_of(a=TEXT), "not": {"required": ["a"]}},
            {"a": ""},
            '<nil>: Invalid value: "": "x" must not validate the schema (not)',
        ),
    ],
)  # fmt: skip
def test_errors_have_the_texts_of_kubernetes(document: Object, value: Any, said: str) -> None:
    assert errors_of(object_of(x=document), {"x": value}) == [said]


@pytest.mark.parametrize(
    ("format_", "right", "wrong"),
    [
        ("date-time", "2026-01-02T03:04:05Z", "2026-01-02"),
        ("date", "2026-01-02", "02.01.2026"),
        ("ipv6", "fe80::1", "10.0.0.1"),
        ("cidr", "10.0.0.1/8", "10.0.0.1"),
        ("byte", "YQ==", "?"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
    ],
)
def test_formats_of_texts(format_: str, right: str, wrong: str) -> None:
    document = {"type": "string", "format": format_}
    assert (errors_of(document, right), len(errors_of(document, wrong))) == ([], 1)


def test_format_that_kubernetes_does_not_know_is_ignored() -> None:
    assert errors_of({"type": "string", "format": "moon"}, "x") == []


def test_pruning_keeps_what_is_specified_free_or_identity() -> None:
    document = object_of(
        a=object_of(b=TEXT),
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"c": object_of()}},
        map={"type": "object", "additionalProperties": object_of(d=TEXT)},
        list={"type": "array", "items": object_of(e=TEXT)},
        any={"type": "object", "additionalProperties": True},
        pod={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": object_of()}},
    )
    obj = {
        "apiVersion": "x", "kind": "y", "metadata": {"z": 1}, "more": 1,
        "a": {"b": "", "c": 1},
        "free": {"x": {"y": 1}, "c": {"no": 1}},
        "map": {"k": {"d": "", "no": 1}},
        "list": [{"e": ""}, {"no": 1}],
        "any": {"x": {"y": 1}},
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"no": 1}, "no": 1},
    }  # fmt: skip
    removed = ["a.c", "free.c.no", "list[1].no", "map.k.no", "more", "pod.no", "pod.spec.no"]
    assert sorted(Schema(document).prune(obj)) == removed
    assert obj == {
        "apiVersion": "x", "kind": "y", "metadata": {"z": 1},
        "a": {"b": ""},
        "free": {"x": {"y": 1}, "c": {}},
        "map": {"k": {"d": ""}},
        "list": [{"e": ""}, {}],
        "any": {"x": {"y": 1}},
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}},
    }  # fmt: skip


def test_defaults_are_set_from_the_outside_to_the_inside() -> None:
    document = object_of(
        a={**object_of(b={**NUMBER, "default": 1}), "default": {}},
        list={"type": "array", "items": object_of(c={**TEXT, "default": "x"})},
        map={"type": "object", "additionalProperties": object_of(d={**TEXT, "default": "y"})},
        null={**TEXT, "default": "z"},
        nullable={**TEXT, "default": "z", "nullable": True},
    )
    obj: Object = {"list": [{}, {"c": "own"}], "map": {"k": {}}, "null": None, "nullable": None}
    Schema(document).default(obj)
    assert obj == {
        "a": {"b": 1},
        "list": [{"c": "x"}, {"c": "own"}],
        "map": {"k": {"d": "y"}},
        "null": "z",
        "nullable": None,
    }


LEAVES: st.SearchStrategy[Object] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "maxLength": st.integers(0, 3),
            "minLength": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "b+$", "^(a|b)*$"]),
            "enum": st.lists(st.text("ab", max_size=2), min_size=1, max_size=3, unique=True),
            "nullable": st.booleans(),
            "default": st.text("ab", max_size=2),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("integer")},
        optional={
            "maximum": st.integers(-2, 5),
            "minimum": st.integers(-2, 5),
            "exclusiveMaximum": st.booleans(),
            "exclusiveMinimum": st.booleans(),
            "multipleOf": st.integers(1, 3),
            "nullable": st.booleans(),
            "default": st.integers(-2, 5),
        },
    ),
    st.just({"type": "boolean"}),
    st.just({"x-kubernetes-int-or-string": True}),
)
JUNCTORS = st.lists(
    st.fixed_dictionaries({"required": st.lists(st.sampled_from("ab"), max_size=2, unique=True)}), min_size=1
)


def _nested(inner: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    sizes = {"maxItems": st.integers(0, 3), "minItems": st.integers(0, 2)}
    properties = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    names = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
    junctors = dict.fromkeys(("allOf", "anyOf", "oneOf"), JUNCTORS) | {"not": JUNCTORS.map(lambda some: some[0])}
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional=sizes),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": properties},
            optional={"required": names, "nullable": st.booleans(), **junctors},
        ),
        st.fixed_dictionaries(
            {"type": st.just("object"), "additionalProperties": inner}, optional={"maxProperties": st.integers(0, 3)}
        ),
    )


DOCUMENTS = st.recursive(LEAVES, _nested, max_leaves=8)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 6), st.sampled_from([0.5, 2.5]), st.text("ab", max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)),
    max_leaves=12,
)


def _as_draft4(document: Any) -> Any:
    """Translate a structural schema for jsonschema. A null that is allowed meets no other demand."""
    if isinstance(document, list):
        return [_as_draft4(each) for each in document]
    if not isinstance(document, dict):
        return document
    found = {name: _as_draft4(each) for name, each in document.items() if name not in {"nullable", "enum", "required"}}
    found |= {name: document[name] for name in ("enum", "required") if document.get(name)}
    for bound in ("exclusiveMaximum", "exclusiveMinimum"):
        if bound in found and bound[9:].lower() not in found:
            del found[bound]
    if found.pop("x-kubernetes-int-or-string", False):
        found["type"] = ["integer", "string"]
    return {"anyOf": [{"type": "null"}, found]} if document.get("nullable") else found


@settings(max_examples=300)
@given(DOCUMENTS, VALUES)
def test_verdict_is_that_of_jsonschema(document: Object, value: Any) -> None:
    expected = Draft4Validator(_as_draft4(document)).is_valid(value)
    assert (not errors_of(document, value)) == expected, json.dumps(document)


@settings(max_examples=200)
@given(DOCUMENTS.map(lambda each: object_of(a=each)), VALUES)
def test_pruning_and_defaulting_again_change_nothing(document: Object, value: Any) -> None:
    schema, obj = Schema(document), {"a": value}
    schema.prune(obj)
    schema.default(obj)
    once = copy.deepcopy(obj)
    assert schema.prune(obj) == []
    schema.default(obj)
    assert obj == once


@settings(max_examples=200)
@given(DOCUMENTS.map(lambda each: object_of(a=each)), VALUES)
def test_pruning_removes_no_valid_field_and_adds_nothing(document: Object, value: Any) -> None:
    obj = {"a": value}
    removed = Schema(document).prune(obj)
    if not removed:
        assert obj == {"a": value}
    assert (not errors_of(document, value)) <= (not errors_of(document, obj["a"])) or removed


def test_validation_that_takes_too_many_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    branches = [{"minLength": each} for each in range(200)]
    document = {"type": "array", "items": {"type": "string", "allOf": branches}}
    (refused,) = errors_of(document, ["x" * 300] * 10_000)
    assert "takes more than 200000 steps" in refused


def test_pattern_of_exponential_time_takes_linear_time() -> None:
    document = {"type": "string", "pattern": "^([-a-zA-Z0-9_]+[.]?)+$"}
    assert len(errors_of(document, "a" * 100_000 + "!")) == 1


def test_patterns_that_take_too_long_are_refused() -> None:
    document = {"type": "array", "items": {"type": "string", "pattern": "([ab]*a[ab]{90}){9}c"}}
    (refused,) = errors_of(document, ["ab" * 10_000] * 50)
    assert "patterns of its schema takes too long" in refused


def test_errors_of_one_object_are_bounded() -> None:
    document = {"type": "array", "items": {"type": "string", "pattern": "x{900}", "enum": ["y" * 2000] * 100}}
    found = errors_of(document, ["z" * 50] * 1500)
    assert (len(found), sum(map(len, found)) < 20_000_000) == (1000, True)


def test_defaults_of_one_object_are_bounded() -> None:
    document = {"type": "array", "items": object_of(a={"type": "string", "default": "x" * 10_000})}
    value: list[Object] = [{} for _ in range(10_000)]
    Schema(document).default(value)
    assert sum("a" in each for each in value) * 10_000 <= schemas.MAX_DEFAULT_BYTES
