"""The JSONPath expressions of CustomResourceDefinitions, for printer columns, selectable fields and scale.

Expressions may contain fields (`.spec.host`, `.metadata.labels.a\\.b`, `['a.b']`), items (`[0]`, `[*]`) and filters by
equality (`[?(@.type=="Ready")]`). controller-gen and published CustomResourceDefinitions use nothing else.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

Step = Callable[[Any], list[Any]]

MAX_LETTERS = 1000
_FIELD = r"\.(?P<field>(?:[^.\[\]\\'\"\s]|\\.)+)|\['(?P<quoted>[^'\]]+)'\]"
_ITEMS = r"\[(?P<index>\d{1,9})\]|\[(?P<every>\*)\]"
_FILTER = r"\[\?\(\s*@(?P<left>(?:\.[\w/-]+)+)\s*==\s*(?P<right>\"[^\"]*\"|'[^']*'|true|false|\d{1,9})\s*\)\]"
_STEP = re.compile(f"{_FIELD}|{_ITEMS}|{_FILTER}")


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[Step, ...]:
    """Parse a JSONPath expression into steps. Raises `ValueError` if its syntax is not supported."""
    return tuple(map(_step, _matches(path, "a simple json path of fields, items and filters by equality")))


def find(obj: Any, path: str) -> list[Any]:
    found = [obj]
    for step in parse(path):
        found = [value for each in found for value in step(each)]
    return found


def fields(path: str) -> tuple[str, ...]:
    """Return the field names in a path like `.spec.replicas`. Raises `ValueError` if it has other steps."""
    names = [_name(each) for each in _matches(path, "a json path of fields")]
    if "" in names:
        raise ValueError("must be a json path of fields")
    return tuple(names)


def at(value: Any, names: Sequence[str]) -> Any:
    """Return the value at a path of field names inside `value`, or None if a field is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _matches(path: str, wanted: str) -> list[re.Match[str]]:
    found, position = [], 0
    while position < len(path) <= MAX_LETTERS and (match := _STEP.match(path, position)):
        found.append(match)
        position = match.end()
    if not found or position != len(path):
        raise ValueError(f"must be {wanted}")
    return found


def _name(match: re.Match[str]) -> str:
    """Return the field name of a step, or "" for other kinds of steps. Only unquoted names contain escapes."""
    return match["quoted"] or re.sub(r"\\(.)", r"\1", match["field"] or "")


def _step(match: re.Match[str]) -> Step:
    if name := _name(match):
        return lambda value: [value[name]] if isinstance(value, dict) and name in value else []
    if match["left"]:
        names, wanted = match["left"].split(".")[1:], match["right"].strip("\"'")
        return lambda value: [each for each in _items(value) if _shown(at(each, names)) == wanted]
    if match["every"]:
        return _items
    index = int(match["index"])
    return lambda value: value[index : index + 1] if isinstance(value, list) else []


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []


def _shown(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
