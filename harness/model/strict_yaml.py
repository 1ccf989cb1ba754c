"""Read untrusted YAML. Ambiguous and very large documents are rejected, with the line of the error. Values are built
from the parser's events. PyYAML's own constructor is recursive and crashes the process on 100 kB of brackets, uses the
last of two equal keys, and expands aliases without limit. Values are those of JSON: numbers with colons (`10:20`) and
dates remain strings.
"""

import contextlib
import itertools
import math
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.errors import UsageError
from harness.model.files import MEGABYTE, content, shown

MAX_DEPTH = 40
MAX_VALUES = 100_000
MAX_DOCUMENTS = 100
MAX_ALIASED = 10_000
"""The limits of one file. A report of the whole suite has about 15,000 values and no alias."""

_DIGITS = 100  # maximum number of characters of a number
_PREFIX = "tag:yaml.org,2002:"
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _InvalidYamlError(Exception):
    def __init__(self, why: str, mark: Any) -> None:
        super().__init__(f"{why}, in line {mark.line + 1}, column {mark.column + 1}")


def read(path: str | Path, *, what: str, most: int = MEGABYTE) -> Any:
    """Read a YAML file of up to `most` bytes. Raises `UsageError` with `what` (the kind of file), path and error."""
    return parse(content(path, what=what, most=most), f"{what} {shown(path)}")


def read_all(path: str | Path, *, what: str, most: int = MEGABYTE) -> list[Any]:
    values = _parse(content(path, what=what, most=most), f"{what} {shown(path)}", documents=MAX_DOCUMENTS)
    return [value for value in values if value is not None]


def parse(data: str | bytes, where: str) -> Any:
    """Return the value of a YAML document, or None if it is empty. Errors (`UsageError`) begin with `where`."""
    return next(iter(_parse(data, where, documents=1)), None)


def _parse(data: str | bytes, where: str, *, documents: int) -> list[Any]:
    try:
        text = data.decode() if isinstance(data, bytes) else data
        with contextlib.closing(_events(text)) as events:
            return _Reader(events).documents(documents)
    except _InvalidYamlError as error:
        raise UsageError(f"{where}: {error}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise UsageError(f"{where}: is not YAML: {' '.join(str(error).split())}") from None


def _events(text: str) -> Generator[Any]:
    loader = _PARSER(text)
    try:
        yield from iter(loader.get_event, None)
    finally:
        loader.dispose()


class _Reader:
    """Reads the values of documents from events. The recursion is no deeper than `MAX_DEPTH`."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._named: dict[str, tuple[Any, int]] = {}  # by anchor: the value, and the number of values in it
        self._number = 0
        self._aliased = 0
        self._plain: dict[str, Any] = {}  # the values of plain scalars
        self._scalars: Any = yaml.SafeLoader("")

    def documents(self, most: int) -> list[Any]:
        found: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if len(found) == most:
                    more = "one document" if most == 1 else f"{most} documents"
                    raise _InvalidYamlError(f"the text has more than {more}", event.start_mark)
                self._named = {}  # anchors are local to their document
                found.append(self._value(next(self._events), 0))
        return found

    def _value(self, event: Any, depth: int) -> Any:
        before = self._number
        self._count(1, event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        value = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event, depth)
        if event.anchor is not None:
            self._named[event.anchor] = value, self._number - before
        return value

    def _count(self, number: int, event: Any) -> None:
        self._number += number
        if self._number > MAX_VALUES:
            raise _InvalidYamlError(f"the text has more than {MAX_VALUES:,} values", event.start_mark)

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._named:
            raise _InvalidYamlError(f"alias *{event.anchor} has no anchor before it", event.start_mark)
        value, number = self._named[event.anchor]
        self._aliased += number
        if self._aliased > MAX_ALIASED:
            raise _InvalidYamlError(f"aliases expand to more than {MAX_ALIASED:,} values", event.start_mark)
        self._count(number - 1, event)
        return value

    def _collection(self, event: Any, depth: int) -> list[Any] | dict[str, Any]:
        _of_json(event, "seq", "map")
        if depth >= MAX_DEPTH:
            raise _InvalidYamlError(f"collections are nested more than {MAX_DEPTH} levels deep", event.start_mark)
        items = itertools.takewhile(lambda each: not isinstance(each, yaml.CollectionEndEvent), self._events)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(each, depth + 1) for each in items]
        found: dict[str, Any] = {}
        for each in items:
            key = self._value(each, depth + 1)
            if not isinstance(key, str):
                raise _InvalidYamlError("a key must be a string", each.start_mark)
            if key in found:
                raise _InvalidYamlError(f"duplicate key {key[:100]!r}", each.start_mark)
            found[key] = self._value(next(self._events), depth + 1)
        return found

    def _scalar(self, event: Any) -> Any:
        if not event.implicit[0] or event.tag is not None:
            return self._new_scalar(event)
        if event.value not in self._plain:
            self._plain[event.value] = self._new_scalar(event)
        return self._plain[event.value]

    def _new_scalar(self, event: Any) -> Any:
        text: str = event.value
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _InvalidYamlError("a string has an unpaired surrogate", event.start_mark) from None
        _of_json(event, "str", "int", "float", "bool", "null")
        tag = event.tag or self._scalars.resolve(yaml.ScalarNode, text, event.implicit)
        kind = tag.removeprefix(_PREFIX)
        if kind == "merge":
            raise _InvalidYamlError("merge keys (<<) are not supported", event.start_mark)
        if kind not in ("int", "float", "bool", "null") or ":" in text:
            return text
        if len(text) > _DIGITS:
            raise _InvalidYamlError(f"a number has more than {_DIGITS} digits", event.start_mark)
        try:
            value = getattr(self._scalars, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
        except (KeyError, ValueError):
            raise _InvalidYamlError(f"{text[:50]!r} is not a valid {kind}", event.start_mark) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise _InvalidYamlError(f"a number is {value}", event.start_mark)
        return value


def _of_json(event: Any, *kinds: str) -> None:
    if event.tag is not None and event.tag not in ("!", *(_PREFIX + each for each in kinds)):
        raise _InvalidYamlError(f"tag {event.tag[:50]!r} is not supported", event.start_mark)
