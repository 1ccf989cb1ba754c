"""The rules for schemas of CustomResourceDefinitions, which must be structural, as in Kubernetes."""

from collections.abc import Iterator, Mapping
from typing import Any

from reference.apiserver.kinds import errors, schemas
from reference.apiserver.kinds.errors import FieldError

MAX_NODES = 20_000
"""The maximum number of nested schemas in a schema. Published CustomResourceDefinitions have at most 1,700."""

MAX_INSTRUCTIONS = 20_000
"""The maximum size of a schema's patterns: RE2 instructions, plus 100 per pattern. Published CRDs need up to 3,000."""

MAX_PATTERN_LETTERS = 4096

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_ANY = (dict, list, str, bool, int, float)
_KEYWORDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("type", "format", "description", "title", "pattern", "$ref", "$schema", "id"), (str,)),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), (str,)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), (int, float)),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), (int,)),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems"), (bool,)),
    **dict.fromkeys(
        [f"x-kubernetes-{each}" for each in ("int-or-string", "preserve-unknown-fields", "embedded-resource")], (bool,)
    ),
    **dict.fromkeys(("enum", "allOf", "anyOf", "oneOf", "required", "x-kubernetes-list-map-keys"), (list,)),
    **dict.fromkeys(("properties", "patternProperties", "definitions", "dependencies", "externalDocs"), (dict,)),
    **dict.fromkeys(("default", "example"), _ANY),
    "not": (dict,),
    "items": (dict, list),
    "additionalProperties": (dict, bool),
    "additionalItems": (dict, bool),
    "x-kubernetes-validations": (list,),
}
_REFUSED = (
    "$ref", "$schema", "id", "additionalItems", "patternProperties", "definitions", "dependencies",
)  # fmt: skip
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")
_NOT_IN_JUNCTORS = (
    "description", "default", "title", "additionalProperties", "nullable", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-map-type",
)  # fmt: skip


def conform(document: Any, path: str) -> list[str]:
    """Remove nulls and unknown keywords. Return the unknown keywords' paths. Raises `ValueError` for wrong types."""
    unknown: list[str] = []
    waiting: list[tuple[Any, str]] = [(document, path)]
    count = 0
    while waiting:
        schema, place = waiting.pop()
        count += 1
        if count > MAX_NODES:
            raise ValueError(f"{path} has more than {MAX_NODES} schemas")
        if not isinstance(schema, dict):
            raise ValueError(f"json: cannot unmarshal into Go struct field {place} of type JSONSchemaProps")
        for name, value in list(schema.items()):
            wanted = _KEYWORDS.get(name)
            if wanted is None:
                unknown.append(f"{place}.{name}")
            elif value is not None and type(value) not in wanted:
                raise ValueError(f"json: cannot unmarshal into Go struct field {place}.{name} of type JSONSchemaProps")
            if wanted is None or value is None:
                del schema[name]
        for name in ("required", "x-kubernetes-list-map-keys"):
            if not all(isinstance(each, str) for each in schema.get(name) or ()):
                raise ValueError(f"json: cannot unmarshal into Go struct field {place}.{name} of type string")
        waiting += _within(schema, place)
    return unknown


def _within(schema: Mapping[str, Any], path: str) -> Iterator[tuple[Any, str]]:
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            yield schema[name], f"{path}.{name}"
    for name in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(schema.get(name) or ()):
            yield each, f"{path}.{name}[{index}]"
    for name, each in (schema.get("properties") or {}).items():
        yield each, f"{path}.properties[{name}]"


def validate(document: Mapping[str, Any], path: str) -> list[FieldError]:
    """Return the errors in a schema that has passed `conform`."""
    if document.get("type") != "object":
        said = "must be object at the root"
        given = document.get("type")
        return [errors.invalid(f"{path}.type", given, said) if given else errors.required(f"{path}.type", said)]
    if "metadata" in document.get("properties", {}):
        allowed, place = {"name", "generateName"}, f"{path}.properties[metadata]"
        if set(document["properties"]["metadata"].get("properties") or ()) - allowed:
            return [errors.forbidden(place, "must not specify anything other than name and generateName")]
    found = list(_patterns(document, path)) or list(_validate(document, path))
    return found or list(_defaults(document, path, schemas.ValidationRun()))


def rules_in(document: Mapping[str, Any]) -> bool:
    """Return whether a schema contains CEL rules, which this server does not evaluate."""
    return bool(document.get("x-kubernetes-validations")) or any(rules_in(each) for each, _ in _within(document, ""))


def _validate(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    kind, free = schema.get("type", ""), schema.get("x-kubernetes-preserve-unknown-fields")
    either = schema.get("x-kubernetes-int-or-string")
    if not kind and not free and not either:
        yield errors.required(f"{path}.type", "must not be empty for specified object fields")
    if kind and kind not in _TYPES:
        yield errors.not_supported(f"{path}.type", kind, _TYPES)
    if kind and either:
        yield errors.invalid(f"{path}.type", kind, "must be empty if x-kubernetes-int-or-string is true")
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        yield errors.invalid(f"{path}.type", kind, "must be object if x-kubernetes-embedded-resource is true")
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        yield errors.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are exclusive")
    if kind == "array" and not isinstance(schema.get("items"), list) and not schema.get("items"):
        yield errors.required(f"{path}.items", "must be specified")
    yield from _lists(schema, path)
    yield from _common(schema, path)
    for each, place in _junctors(schema, path):
        yield from _inside(each, place, typed=bool(either))
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _validate(schema[name], f"{path}.{name}")
    for name, each in (schema.get("properties") or {}).items():
        yield from _validate(each, f"{path}.properties[{name}]")


def _junctors(schema: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    yield from _within({name: schema[name] for name in _JUNCTORS if name in schema}, path)


def _common(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name in _REFUSED:
        if schema.get(name):
            yield errors.forbidden(f"{path}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        yield errors.forbidden(f"{path}.uniqueItems", "uniqueItems cannot be set to true")
    if isinstance(schema.get("items"), list):
        yield errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("additionalProperties") is False:
        yield errors.forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false")


def _patterns(document: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the error for the first pattern that is invalid or makes the patterns of the schema too large."""
    waiting, known, size = [(document, path)], set(), 0
    while waiting:
        schema, place = waiting.pop()
        waiting += _within(schema, place)
        pattern = schema.get("pattern")
        if not pattern or pattern in known:
            continue
        known.add(pattern)
        try:
            if len(pattern) <= MAX_PATTERN_LETTERS:
                size += schemas.compiled(pattern).programsize + 100
        except ValueError as error:
            said = f"must be a valid regular expression, but isn't: {error}"
            yield errors.invalid(f"{place}.pattern", pattern[:100], said[:1000])
            return
        if size > MAX_INSTRUCTIONS or len(pattern) > MAX_PATTERN_LETTERS:
            yield errors.forbidden(f"{place}.pattern", "the patterns of this schema are too large")
            return


def _lists(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if kind and kind not in {"atomic", "map", "set"}:
        yield errors.not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    if kind and schema.get("type") != "array":
        yield errors.invalid(f"{path}.type", schema.get("type") or "", "must be array if x-kubernetes-list-type is set")
    if kind == "map" and not keys:
        said = "must not be empty if x-kubernetes-list-type is map"
        yield errors.required(f"{path}.x-kubernetes-list-map-keys", said)
    items = schema.get("items")
    known = (items.get("properties") or {}) if isinstance(items, dict) else {}
    for index, each in enumerate(keys):
        if each not in known:
            said = "must be the name of a property of the items"
            yield errors.invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", each, said)
    way = schema.get("x-kubernetes-map-type")
    if way and way not in {"atomic", "granular"}:
        yield errors.not_supported(f"{path}.x-kubernetes-map-type", way, ("atomic", "granular"))


def _inside(schema: Mapping[str, Any], path: str, *, typed: bool = False) -> Iterator[FieldError]:
    """Yield the errors in a schema within `allOf`, `anyOf`, `oneOf` or `not`, which may only restrict values."""
    free = typed and set(schema) == {"type"} and schema["type"] in {"integer", "string"}  # one type of an int-or-string
    for name in (*_NOT_IN_JUNCTORS, "type"):
        if schema.get(name) and not free:
            yield errors.forbidden(f"{path}.{name}", "must be empty to be structural")
    yield from _common(schema, path)
    for each, place in _within(schema, path):
        yield from _inside(each, place, typed=typed and "properties" not in schema)


def _defaults(schema: Mapping[str, Any], path: str, work: schemas.ValidationRun) -> Iterator[FieldError]:
    for below, place in _within(schema, path):
        if "default" in below:
            yield from schemas.Schema(below).validate(below["default"], f"{place}.default", work)
        yield from _defaults(below, place, work)
