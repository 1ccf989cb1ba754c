"""Read untrusted YAML, and reject ambiguous or very large documents, with the line of the error.

Values are built from the parser's events. PyYAML's own constructor is recursive and crashes the process on a hundred
kilobytes of brackets, uses the last of two equal keys, and expands aliases without limit. Values are those of JSON:
numbers with colons (`10:20`) and dates stay texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.errors import UsageError
from harness.model.files import MEGABYTE, content, shown

MAX_DEPTH = 40
MAX_VALUES = 100_000
MAX_DOCUMENTS = 100
MAX_ALIASED = 10_000
"""The largest numbers of values: a report of the whole suite has some 15,000 values and no alias."""

_DIGITS = 100  # characters of the longest number
_PREFIX = "tag:yaml.org,2002:"
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _RefusedError(Exception):
    def __init__(self, why: str, mark: Any) -> None:
        super().__init__(f"{why}, in line {mark.line + 1}, column {mark.column + 1}")


def read(path: str | Path, *, what: str, most: int = MEGABYTE) -> Any:
    """Read a YAML file of up to `most` bytes. Raises `UsageError` with `what` it is, its path and the fault."""
    return parse(content(path, what=what, most=most), f"{what} {shown(path)}")


def read_all(path: str | Path, *, what: str, most: int = MEGABYTE) -> list[Any]:
    """Read all documents of a YAML file that are not empty. Raises like `read`."""
    values = _parse(content(path, what=what, most=most), f"{what} {shown(path)}", documents=MAX_DOCUMENTS)
    return [value for value in values if value is not None]


def parse(data: str | bytes, where: str) -> Any:
    """Return the value of a YAML document; None if it is empty. Raises `UsageError` that starts with `where`."""
    return next(iter(_parse(data, where, documents=1)), None)


def _parse(data: str | bytes, where: str, *, documents: int) -> list[Any]:
    try:
        text = data.decode() if isinstance(data, bytes) else data
        return _Builder(documents).values(_events(text))
    except _RefusedError as error:
        raise UsageError(f"{where}: {error}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise UsageError(f"{where}: is not YAML: {' '.join(str(error).split())}") from None


def _events(text: str) -> Iterator[Any]:
    loader = _PARSER(text)
    try:
        yield from iter(loader.get_event, None)
    finally:
        loader.dispose()


@dataclass(slots=True)
class _Open:
    """A list or mapping that has not ended."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    before: int  # the number of values before it
    key: str | None = None  # the key whose value comes next

    def take(self, value: Any, mark: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is not None:
            self.value[self.key] = value
            self.key = None
        elif not isinstance(value, str):
            raise _RefusedError("a key must be a string", mark)
        elif value in self.value:
            raise _RefusedError(f"duplicate key {value[:100]!r}", mark)
        else:
            self.key = value


class _Builder:
    """Builds the values of documents from events, without recursion."""

    def __init__(self, documents: int) -> None:
        """Accept up to `documents` documents."""
        self._most = documents
        self._roots: list[Any] = []
        self._open: list[_Open] = []
        self._named: dict[str, tuple[Any, int]] = {}  # by anchor: the value, and the number of values in it
        self._number = 0
        self._aliased = 0
        self._plain: dict[str, Any] = {}  # the values of plain scalars
        self._scalars: Any = yaml.SafeLoader("")

    def values(self, events: Iterator[Any]) -> list[Any]:
        for event in events:
            self._see(event)
        return self._roots

    def _see(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._take(self._scalar(event), 1, event.start_mark, event.anchor)
            case yaml.DocumentStartEvent():
                if len(self._roots) == self._most:
                    more = "one document" if self._most == 1 else f"{self._most} documents"
                    raise _RefusedError(f"it has more than {more}", event.start_mark)
                self._named = {}  # anchors are local to their document
            case yaml.AliasEvent():
                if event.anchor not in self._named:
                    raise _RefusedError(f"alias *{event.anchor} has no anchor before it", event.start_mark)
                value, number = self._named[event.anchor]
                self._aliased += number
                if self._aliased > MAX_ALIASED:
                    raise _RefusedError(f"aliases expand to more than {MAX_ALIASED:,} values", event.start_mark)
                self._take(value, number, event.start_mark)
            case yaml.CollectionStartEvent():
                _of_json(event, "seq", "map")
                if len(self._open) >= MAX_DEPTH:
                    raise _RefusedError(f"it is nested more than {MAX_DEPTH} deep", event.start_mark)
                begun: list[Any] | dict[str, Any] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
                self._open.append(_Open(begun, event.anchor, self._number))
            case yaml.CollectionEndEvent():
                ended = self._open.pop()
                self._take(ended.value, 1, event.start_mark, ended.anchor, since=ended.before)

    def _take(self, value: Any, number: int, mark: Any, anchor: str | None = None, *, since: int | None = None) -> None:
        before = self._number if since is None else since
        self._number += number
        if self._number > MAX_VALUES:
            raise _RefusedError(f"it has more than {MAX_VALUES:,} values", mark)
        if anchor is not None:
            self._named[anchor] = value, self._number - before
        if self._open:
            self._open[-1].take(value, mark)
        else:
            self._roots.append(value)

    def _scalar(self, event: Any) -> Any:
        if not event.implicit[0] or event.tag is not None:
            return self._new_scalar(event)
        if event.value not in self._plain:
            self._plain[event.value] = self._new_scalar(event)
        return self._plain[event.value]

    def _new_scalar(self, event: Any) -> Any:
        text: str = event.value
        _encodable(text, event.start_mark)
        _of_json(event, "str", "int", "float", "bool", "null")
        tag = event.tag or self._scalars.resolve(yaml.ScalarNode, text, event.implicit)
        kind = tag.removeprefix(_PREFIX)
        if kind == "merge":
            raise _RefusedError("merge keys (<<) are not supported", event.start_mark)
        if kind not in ("int", "float", "bool", "null") or ":" in text:
            return text
        if len(text) > _DIGITS:
            raise _RefusedError(f"a number has more than {_DIGITS} digits", event.start_mark)
        try:
            value = getattr(self._scalars, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
        except (KeyError, ValueError):
            raise _RefusedError(f"{text[:50]!r} is not a valid {kind}", event.start_mark) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise _RefusedError(f"a number is {value}", event.start_mark)
        return value


def _encodable(text: str, mark: Any) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _RefusedError("a string has half of a surrogate pair", mark) from None


def _of_json(event: Any, *kinds: str) -> None:
    """Reject tags of values that JSON does not support."""
    if event.tag is not None and event.tag not in ("!", *(_PREFIX + each for each in kinds)):
        raise _RefusedError(f"tag {event.tag[:50]!r} is not supported", event.start_mark)
