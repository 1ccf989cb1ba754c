"""Reads single values of a recipe. Each function raises `UsageError`, which names the key and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from harness.errors import UsageError
from harness.recipes.filling import PLACEHOLDER

LONG = 100
"""The most letters of a name, and of a wrong value in an error."""

_LONGEST_FILE = 200  # bytes of a file's name; the evidence puts the node's before it
_LONGEST_PATTERN = 1000
_WORDS = {str: "a text", int: "a whole number"}

T = TypeVar("T", str, int)


def insist(given: Mapping[Any, Any], key: str, where: str) -> None:
    """Raise `UsageError` if a key has no value."""
    if not given.get(key):
        raise UsageError(f"key {where}{key} is missing")


def refuse_unknown(given: Mapping[Any, Any], allowed: tuple[str, ...], where: str) -> None:
    """Raise `UsageError` for a key that is not allowed, with the one that may have been meant."""
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(str(key)[:LONG], allowed, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"{where}unknown key {shown(key)}; {hint}allowed: {', '.join(allowed)}")


def single(value: Any, allowed: tuple[str, ...], where: str, *, want: str) -> tuple[str, Any]:
    """Return the one key of a mapping, and its value; `want` says in an error what it is to be."""
    if not isinstance(value, dict) or len(value) != 1:
        raise UsageError(f"{where}want {want}")
    refuse_unknown(value, allowed, where)
    ((key, given),) = value.items()
    return key, given


def as_text(value: Any, key: str) -> str:
    """Return a text; a number stands for its digits."""
    if isinstance(value, (dict, list)) or value is None:
        raise UsageError(f"key {key}: want one text, not {shown(value)}")
    if "\0" in str(value):
        raise UsageError(f"key {key}: {shown(value)} has a NUL, which no program takes")
    return str(value)


def one_of(allowed: tuple[str, ...], value: Any, key: str) -> str:
    """Return a text that is one of those allowed."""
    said = as_text(value, key)
    if said not in allowed:
        raise UsageError(f"key {key}: {shown(said)}; allowed: {', '.join(allowed)}")
    return said


def some_of(allowed: tuple[str, ...], value: Any, key: str) -> tuple[str, ...]:
    """Return a list of texts that are all allowed."""
    names = as_texts(value, key)
    for number, name in enumerate(names):
        one_of(allowed, name, f"{key}[{number}]")
    return names


def as_line(value: Any, key: str) -> str:
    """Return a text that can be printed on a line."""
    said = as_text(value, key)
    if not said.isprintable() or len(said) > LONG:
        raise UsageError(f"key {key}: {shown(said)}: want at most {LONG} letters that can be printed")
    return said


def as_name(value: Any, key: str) -> str:
    """Return a name that a file can be called by."""
    said = as_line(value, key)
    if not said.strip() or "/" in said:
        raise UsageError(f"key {key}: {shown(said)}: want a name without /; files of the evidence are named for it")
    return said


def as_texts(value: Any, key: str, *, some: bool = False) -> tuple[str, ...]:
    """Return a list of lines; with `some` at least one."""
    if not isinstance(value, list) or any(isinstance(each, (dict, list)) for each in value):
        raise UsageError(f"key {key}: want a list of texts, not {shown(value)}")
    if some and not value:
        raise UsageError(f"key {key}: want at least one")
    return tuple(as_line(each, f"{key}[{number}]") for number, each in enumerate(value))


def shown(value: Any) -> str:
    """Return a wrong value for an error, on one line."""
    text = repr(value) if isinstance(value, str) else str(value)
    return ascii(text[:LONG]) if not text.isprintable() else text if len(text) <= LONG else f"{text[:LONG]}…"


def as_template(text: str, key: str, allowed: Mapping[str, str]) -> str:
    """Return a text whose placeholders are all allowed."""
    for found in PLACEHOLDER.finditer(text):
        if found[1] is not None and found[1] not in allowed:
            names = ", ".join(f"{{{name}}}" for name in allowed)
            raise UsageError(f"key {key}: unknown placeholder {{{found[1]}}}; allowed: {names}; {{{{ for a brace")
    return text


def as_mapping(value: Any, key: str) -> tuple[tuple[str, str], ...]:
    """Return texts by name, in order."""
    if not isinstance(value, dict):
        raise UsageError(f"key {key}: want a mapping of names to texts, not {shown(value)}")
    for name in value:
        if not name or not name.isprintable() or len(name) > LONG:
            raise UsageError(f"key {key}: {shown(name)} is no name: want 1 to {LONG} letters that can be printed")
    return tuple((name, as_text(text, f"{key}.{name}")) for name, text in value.items())


def as_templates(value: Any, key: str, allowed: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return texts by name, whose placeholders are all allowed."""
    return tuple((name, as_template(text, f"{key}.{name}", allowed)) for name, text in as_mapping(value, key))


def as_command(value: Any, key: str, allowed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of a command, whose placeholders are all allowed."""
    if not isinstance(value, list) or not value:
        raise UsageError(f"key {key}: want a list of texts, not {shown(value)}")
    parts = [(f"{key}[{number}]", each) for number, each in enumerate(value)]
    command = tuple(as_template(as_text(each, where), where, allowed) for where, each in parts)
    if not command[0]:
        raise UsageError(f"key {key}[0]: want the name of a program")
    return command


def as_environment(value: Any, key: str, allowed: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return variables, whose placeholders are all allowed."""
    named = as_templates(value, key, allowed)
    for name, _ in named:
        if "=" in name:
            raise UsageError(f"key {key}: {name!r} has a =, which no variable's name has")
    return named


def as_files(value: Any, key: str, allowed: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the contents of files by name, whose placeholders are all allowed."""
    named = as_templates(value, key, allowed)
    for name, _ in named:
        if "/" in name or name in (".", "..") or len(name.encode()) > _LONGEST_FILE:
            raise UsageError(f"key {key}: {name!r} is not a plain file name of up to {_LONGEST_FILE} bytes")
    return named


def as_seconds(value: Any, key: str) -> float:
    """Return a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 600:
        raise UsageError(f"key {key}: want seconds from 0 to 600, not {shown(value)}")
    return float(value)


def field_of(given: Mapping[str, Any], key: str, default: T, kind: type[T], where: str) -> T:
    """Return a value of a kind, or else the default."""
    value = given.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{where}{key}: want {_WORDS[kind]}, not {shown(value)}")
    return value


def number_of(given: Mapping[str, Any], key: str, allowed: range, where: str, *, default: int = 0) -> int:
    """Return a whole number of a range, or else the default."""
    number = field_of(given, key, default, int, where)
    if number not in allowed:
        raise UsageError(f"{where}{key}: want a number from {allowed[0]} to {allowed[-1]}, not {shown(number)}")
    return number


def url_path_of(given: Mapping[str, Any], default: str, where: str) -> str:
    """Return the path of a URL, or else the default."""
    path = field_of(given, "path", default, str, where)
    if not re.fullmatch(r"/[!-~]{0,999}", path):
        raise UsageError(f"{where}path: want / and more of a URL in ASCII, without spaces, not {shown(path)}")
    return path


def as_pattern(value: Any, where: str) -> str:
    """Return a regular expression that can be compiled."""
    said = as_text(value, f"{where.removeprefix('key ')}log")
    if len(said) > _LONGEST_PATTERN:
        raise UsageError(f"{where}log: a regular expression has at most {_LONGEST_PATTERN:,} letters")
    import regex  # noqa: PLC0415  only for recipes that read a log

    try:
        regex.compile(said, regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise UsageError(f"{where}log: {shown(said)} is not a regular expression: {error}") from None
    return said
