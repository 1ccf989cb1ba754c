"""Reads YAML of others: what is ambiguous, or larger than any report, is refused, and by name."""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.errors import UsageError

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 40
MAX_VALUES = 5_000_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Strict(_LOADER):  # type: ignore[misc]  # chosen when this runs
    """Refuses a key that stands in a mapping twice; other readers would take the first or the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if not isinstance(name, str):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", key.start_mark)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {name!r} stands there twice", key.start_mark)
            seen.add(name)
        return dict(super().construct_mapping(node, deep=deep))


def read(path: Path, *, what: str) -> Any:
    """Read a YAML file. Raises `UsageError` that names `what` it is, the file and the fault."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{what} {path}: is no ordinary file")
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{what} {path}: has more than {MAX_BYTES // 2**20} MiB")
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_Strict)  # noqa: S506 - a safe one
    except OSError as error:
        raise UsageError(f"{what} {path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{what} {path}: is not YAML: {' '.join(str(error).split())}") from None
    for number, (place, each) in enumerate(_values(value, ())):
        fault = ""
        if number > MAX_VALUES:
            fault = f"has more than {MAX_VALUES:,} values"
        elif len(place) > MAX_DEPTH:
            fault = f"is nested more than {MAX_DEPTH} deep"
        elif isinstance(each, float) and not math.isfinite(each):
            fault = f"a number is {each}"
        if fault:
            raise UsageError(f"{what} {path}: {fault}, at {'.'.join(map(str, place))[:80] or 'its top'}")
    return value


def _values(value: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield each value with its place, one level deeper than is allowed at most: aliases make endless ones."""
    yield place, value
    if len(place) <= MAX_DEPTH:
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in inside:
            yield from _values(each, (*place, key))
