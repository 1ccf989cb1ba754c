"""The OpenAPI schemas of custom resources: validation (with the messages of Kubernetes), defaults and pruning.

Clients may be hostile, so the work for one object is limited: the number of schema nodes that are compared with its
values, the size of its defaults, and the work of matching patterns. Patterns have the syntax of Go (RE2), and matching
takes linear time.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from typing import Any

import orjson

from reference.apiserver.kinds import errors
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import Path, dotted, is_time
from reference.apiserver.merge_rules import ATOMIC, ListRule, ListRules

Document = Mapping[str, Any]

MAX_STEPS = 200_000
"""The maximum number of schema nodes that are compared with the values of one object."""

MAX_DEFAULT_BYTES = 1536 * 1024
"""The maximum size of the defaults of one object. Larger objects could not be stored anyway."""

MAX_PATTERN_WORK = 100_000_000
"""The maximum work of matching patterns for one object. Each match adds string length times RE2 instructions."""

_SHOWN = 1000  # the maximum number of errors of one object, and of characters of a value or message
EMBEDDED = ("apiVersion", "kind", "metadata")
"""The fields that every object has, even if the schema does not mention them."""


class TooCostlyError(Exception):
    """The validation of an object exceeds MAX_STEPS or MAX_PATTERN_WORK."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """Compile a pattern, with at most 256 KB of memory. Raises `ValueError`."""
    import re2  # noqa: PLC0415  only for clusters with custom resources

    options = re2.Options()
    options.log_errors, options.max_mem = False, 1 << 18
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(str(error.args[0].decode() if isinstance(error.args[0], bytes) else error)) from None


class Schema:
    """One compiled schema. `document` must be a structural schema, in which one place describes each value."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._root = _SchemaNode(document)

    def validate(self, value: Any, path: str = "", work: "ValidationRun | None" = None) -> list[FieldError]:
        """Return the errors in `value`, whose field path is `path`. Calls with the same `work` share limits."""
        work = work or ValidationRun()
        before = len(work.found)
        try:
            work.validate(self._root, value, [path] if path else [])
        except TooCostlyError as error:
            return [errors.forbidden(path, str(error))]
        return work.found[before:]

    def prune(self, obj: Any) -> list[str]:
        """Remove the fields that the schema does not specify, and return their paths."""
        unknown: list[str] = []
        _prune(self._root, obj, [], unknown, keep=EMBEDDED)
        return unknown

    def default(self, obj: Any) -> None:
        """Set the defaults. A null is replaced if the field has a default and may not be null."""
        _default(self._root, obj, [MAX_DEFAULT_BYTES])

    def list_rules(self) -> ListRules:
        """Return the rules with which server-side apply merges lists and replaces whole objects, by field path."""
        return dict(_list_rules(self.document, ()))


class _SchemaNode:
    __slots__ = (
        "additional", "defaults", "document", "enum", "has_defaults", "items", "junctors", "not_supported",
        "nullable", "pattern", "preserves", "properties", "types",
    )  # fmt: skip

    def __init__(self, document: Document) -> None:
        additional, items = document.get("additionalProperties"), document.get("items")
        self.document = document
        self.properties = {name: _SchemaNode(each) for name, each in (document.get("properties") or {}).items()}
        self.additional = _SchemaNode(additional) if isinstance(additional, dict) else bool(additional)
        self.items = _SchemaNode(items) if items else None
        self.junctors = [
            (name, [_SchemaNode(each) for each in (given if isinstance(given, list) else [given])])
            for name in ("allOf", "anyOf", "oneOf", "not")
            if (given := document.get(name))
        ]
        both = ("integer", "string") if document.get("x-kubernetes-int-or-string") else ()
        self.types = both or ((document["type"],) if document.get("type") else ())
        self.nullable = bool(document.get("nullable"))
        self.preserves = bool(document.get("x-kubernetes-preserve-unknown-fields"))
        self.pattern = compiled(document["pattern"]) if document.get("pattern") else None
        enum = document.get("enum")
        self.enum = frozenset(map(_canonical, enum)) if enum else None
        supported = [each if isinstance(each, str) else _canonical(each).decode() for each in (enum or ())[:_SHOWN]]
        error = errors.not_supported("", "", supported)
        self.not_supported = replace(error, detail=error.detail[:_SHOWN])
        self.defaults = {
            name: orjson.dumps(each["default"])
            for name, each in (document.get("properties") or {}).items()
            if each.get("default") is not None
        }
        below = [
            *self.properties.values(),
            *(each for each in (self.additional, self.items) if isinstance(each, _SchemaNode)),
        ]
        self.has_defaults: bool = bool(self.defaults) or any(each.has_defaults for each in below)


@dataclass(slots=True)
class ValidationRun:
    found: list[FieldError] = field(default_factory=list)
    steps: int = 0
    pattern_work: int = 0

    def validate(self, node: _SchemaNode, value: Any, path: Path) -> None:
        self._spend(1)
        if len(self.found) >= _SHOWN:
            return
        if value is None and node.nullable:
            return
        if node.types and not any(_IS[each](value) for each in node.types):
            got = _type_of(value)
            self._add(errors.wrong_type(dotted(path), got, ",".join(node.types), got))
        elif isinstance(value, str):
            self._text(node, value, path)
        elif isinstance(value, dict):
            self._object(node, value, path)
        elif isinstance(value, list):
            self._array(node, value, path)
        elif type(value) in {int, float}:
            self._number(node.document, value, path)
        if node.enum is not None and _canonical(value) not in node.enum:
            self._add(replace(node.not_supported, field=dotted(path), value=_short(value)))
        for name, nodes in node.junctors:
            self._junctor(name, nodes, value, path)

    def _text(self, node: _SchemaNode, value: str, path: Path) -> None:
        document = node.document
        most, least = document.get("maxLength"), document.get("minLength")
        if most is not None and len(value) > most:
            self._add(errors.too_long(dotted(path), most))
        if least is not None and len(value) < least:
            self._invalid(path, value, f"in body should be at least {least} chars long")
        if node.pattern is not None and not self._matches(node.pattern, value):
            self._invalid(path, value, f"in body should match '{document['pattern']}'")
        if (check := FORMATS.get(document.get("format", ""))) and not check(value):
            self._add(errors.wrong_type(dotted(path), _short(value), document["format"], _short(value)))

    def _matches(self, program: Any, value: str) -> bool:
        self.pattern_work += (len(value) + 1) * program.programsize
        if self.pattern_work > MAX_PATTERN_WORK:
            raise TooCostlyError("matching the strings of this object with the patterns of its schema takes too long")
        return program.search(value) is not None

    def _number(self, document: Document, value: float, path: Path) -> None:
        most, least, factor = (document.get(name) for name in ("maximum", "minimum", "multipleOf"))
        if most is not None and (value >= most if document.get("exclusiveMaximum") else value > most):
            equal = "" if document.get("exclusiveMaximum") else " or equal to"
            self._invalid(path, value, f"in body should be less than{equal} {most}")
        if least is not None and (value <= least if document.get("exclusiveMinimum") else value < least):
            equal = "" if document.get("exclusiveMinimum") else " or equal to"
            self._invalid(path, value, f"in body should be greater than{equal} {least}")
        if factor and value % factor:
            self._invalid(path, value, f"in body should be a multiple of {factor}")
        limit = {"int32": 1 << 31, "int64": 1 << 63}.get(document.get("format", ""))
        if limit and not -limit <= value < limit:
            self._add(errors.wrong_type(dotted(path), value, document["format"], _type_of(value)))

    def _object(self, node: _SchemaNode, value: dict[str, Any], path: Path) -> None:
        document = node.document
        required = document.get("required") or ()
        self._spend(len(required) // 8)
        for name in required:
            below = node.properties.get(name)
            if name not in value or (value[name] is None and below is not None and not below.nullable and below.types):
                self._add(errors.required(dotted([*path, name])))
        if document.get("x-kubernetes-embedded-resource"):
            for name in ("apiVersion", "kind"):
                if not value.get(name):
                    self._add(errors.required(dotted([*path, name])))
        self._count(document, "Properties", value, path)
        additional = node.additional if isinstance(node.additional, _SchemaNode) else None
        for name, each in value.items():
            below = node.properties.get(name) or additional
            if below is not None and not (each is None and name in required):
                path.append(name)
                self.validate(below, each, path)
                path.pop()

    def _array(self, node: _SchemaNode, value: list[Any], path: Path) -> None:
        self._count(node.document, "Items", value, path)
        if node.items is not None:
            for index, each in enumerate(value):
                path.append(index)
                self.validate(node.items, each, path)
                path.pop()
        kind, keys = node.document.get("x-kubernetes-list-type"), node.document.get("x-kubernetes-list-map-keys") or ()
        if kind not in {"set", "map"}:
            return
        seen: set[bytes] = set()
        self._spend(len(value) * (1 + len(keys)))
        for index, each in enumerate(value):
            known = (
                {key: each[key] for key in sorted(keys) if key in each}
                if kind == "map" and isinstance(each, dict)
                else each
            )
            identity = _canonical(known)
            if identity in seen:
                self._add(errors.duplicate(dotted([*path, index]), _short(known)))
            seen.add(identity)

    def _count(self, document: Document, what: str, value: Any, path: Path) -> None:
        most, least = document.get(f"max{what}"), document.get(f"min{what}")
        if most is not None and len(value) > most:
            self._add(errors.too_many(dotted(path), len(value), most))
        if least is not None and len(value) < least:
            self._invalid(path, len(value), f"in body should have at least {least} {what.lower()}")

    def _junctor(self, name: str, nodes: list[_SchemaNode], value: Any, path: Path) -> None:
        outside, results = self.found, []
        for node in nodes:
            self.found = []
            self.validate(node, value, path)
            results.append(self.found)
            if name == "anyOf" and not self.found:
                break
        self.found = outside
        valid = sum(not each for each in results)
        wrong = {
            "allOf": valid < len(nodes) and "must validate all the schemas (allOf)",
            "anyOf": not valid and "must validate at least one schema (anyOf)",
            "oneOf": valid != 1
            and "must validate one and only one schema (oneOf). Found "
            + (f"{valid} valid alternatives" if valid else "none valid"),
            "not": valid and "must not validate the schema (not)",
        }[name]
        if wrong:
            self._add(errors.invalid("<nil>", "", f'"{dotted(path)}" {wrong}'))
            for each in min((each for each in results if each), key=len, default=[]):
                self._add(each)

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise TooCostlyError(f"validation with the schema takes more than {MAX_STEPS} steps")

    def _invalid(self, path: Path, value: Any, said: str) -> None:
        self._add(errors.invalid(dotted(path), _short(value), f"{dotted(path)} {said[:_SHOWN]}"))

    def _add(self, error: FieldError) -> None:
        if len(self.found) < _SHOWN:
            self.found.append(error)


def _prune(node: _SchemaNode, value: Any, path: Path, unknown: list[str], keep: tuple[str, ...] = ()) -> None:
    if isinstance(value, list) and node.items is not None:
        for index, each in enumerate(value):
            if isinstance(each, dict | list):
                _prune(node.items, each, [*path, index], unknown)
    if not isinstance(value, dict):
        return
    if node.document.get("x-kubernetes-embedded-resource"):
        keep = EMBEDDED
    for name in list(value):
        below = node.properties.get(name) or node.additional
        if isinstance(below, _SchemaNode):
            if isinstance(value[name], dict | list) and not (name == "metadata" and keep):
                _prune(below, value[name], [*path, name], unknown)
        elif not below and not node.preserves and name not in keep:
            unknown.append(dotted([*path, name]))
            del value[name]


def _default(node: _SchemaNode, value: Any, left: list[int]) -> None:
    """Set defaults of at most `left[0]` bytes, and subtract their size from `left[0]`."""
    if not node.has_defaults:
        return
    if isinstance(value, list) and node.items is not None:
        for each in value:
            _default(node.items, each, left)
    if not isinstance(value, dict):
        return
    for name, text in node.defaults.items():
        null = name in value and value[name] is None and not node.properties[name].nullable
        if name in value and not null:
            continue
        left[0] -= len(text)
        if left[0] < 0:
            return
        value[name] = orjson.loads(text)
    for name, each in value.items():
        below = node.properties.get(name) or node.additional
        if isinstance(below, _SchemaNode):
            _default(below, each, left)


def _list_rules(document: Document, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ListRule]]:
    items, properties = document.get("items") or {}, document.get("properties") or {}
    match document.get("x-kubernetes-list-type"):
        case "set":
            yield names, ListRule()
        case "map":
            keys = tuple(document["x-kubernetes-list-map-keys"])
            known = {key: (items.get("properties") or {}).get(key, {}).get("default") for key in keys}
            yield names, ListRule("", keys, defaults=tuple((key, each) for key, each in known.items() if each))
    if names and document.get("x-kubernetes-map-type") == "atomic":
        yield names, ATOMIC
    elif document.get("type") == "array" and document.get("x-kubernetes-list-type") in {"set", "map"}:
        yield from _list_rules({**items, "x-kubernetes-map-type": ""}, names)
    else:
        for name, each in properties.items():
            if names or name not in EMBEDDED:
                yield from _list_rules(each, (*names, name))


_IS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: type(value) in {int, float},
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
}
_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def _type_of(value: Any) -> str:
    return _NAMES.get(type(value), "null")


def _parses(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": is_time,
    "date": _parses(date.fromisoformat),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": lambda text: "/" in text and _parses(ipaddress.ip_interface)(text),
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
}
"""The string formats that are validated. As in Kubernetes, unknown formats are ignored."""


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _short(value: Any) -> Any:
    """Return a value for an error message: shorten a long string, and replace a large object or list with its type."""
    if isinstance(value, str):
        return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
    return _type_of(value) if isinstance(value, dict | list) and len(_canonical(value)) > _SHOWN else value
