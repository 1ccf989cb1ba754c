"""The JSONPath expressions of CustomResourceDefinitions, for printer columns, selectable fields and scale.

Supported are fields (`.spec.host`, `.metadata.labels.a\\.b`, `['a.b']`), items (`[0]`, `[*]`) and filters by equality
(`[?(@.type=="Ready")]`), which is all that controller-gen and the published definitions use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
    """Return the steps of a path. Raises `ValueError` if the path is not supported."""
    steps, position = [], 0
    while position < len(path) <= MAX_LETTERS:
        match = _STEP.match(path, position)
        if match is None:
            break
        steps.append(_step(match))
        position = match.end()
    if not steps or position != len(path):
        raise ValueError("must be a simple json path of fields, items and filters by equality")
    return tuple(steps)


def find(obj: Any, path: str) -> list[Any]:
    """Return the values at a path."""
    found = [obj]
    for step in parse(path):
        found = [value for each in found for value in step(each)]
    return found


def fields(path: str) -> tuple[str, ...]:
    """Return the names in a path of fields only (`.spec.replicas`). Raises `ValueError` for all other paths."""
    names = [match["field"] or match["quoted"] for match in _STEP.finditer(path)]
    if not names or None in names or "".join(match[0] for match in _STEP.finditer(path)) != path:
        raise ValueError("must be a json path of fields")
    return tuple(re.sub(r"\\(.)", r"\1", each) for each in names)


def _step(match: re.Match[str]) -> Step:
    if name := match["field"] or match["quoted"]:
        return _field(re.sub(r"\\(.)", r"\1", name) if match["field"] else name)
    if match["left"]:
        names, wanted = match["left"].split(".")[1:], match["right"].strip("\"'")
        return lambda value: [each for each in _items(value) if _shown(each, names) == wanted]
    if match["every"]:
        return _items
    index = int(match["index"])
    return lambda value: value[index : index + 1] if isinstance(value, list) else []


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []


def _shown(value: Any, names: list[str]) -> str | None:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
