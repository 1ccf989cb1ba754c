"""Read YAML values into dataclasses, and fill in the placeholders of templates.

The field types and each `Rule` restrict the values. Each error names the key, the invalid value and the allowed values.
msgspec's errors lack this information, and pydantic needs 10 MB of memory and 0.1 s in each process.
"""

import dataclasses
import difflib
import enum
import re
import typing
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from harness.errors import UsageError

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")  # matches a doubled brace, or a name in braces, which is the group

LONG = 100  # maximum length of a name, and of an invalid value in an error message

_LONGEST_FILE = 200  # maximum length of a file name in bytes; evidence adds the node's name as a prefix
_LONGEST_PATTERN = 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """A restriction in addition to the type. `check` returns whether a value is valid, or an error message."""

    want: str
    check: Callable[[Any], bool | str] = bool


@dataclass(frozen=True, slots=True)
class ExactlyOneKey:
    """A mapping with exactly one key, from `kinds`. If its dataclass has a single field, the value is that field's."""

    kinds: Mapping[str, type]


class FieldMark(enum.Enum):
    """A marker for a type in `Annotated`: either a string with placeholders, or a value that is already parsed."""

    TEMPLATE = enum.auto()
    READ = enum.auto()


def one_of(*allowed: str) -> Rule:
    return Rule("a string", lambda text: text in allowed or f"; {_near(text, allowed)}allowed: {', '.join(allowed)}")


def _near(given: object, allowed: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(given)[:LONG], allowed, n=1)
    return f"did you mean {near[0]}? " if near else ""


def _is_pattern(text: str) -> bool | str:
    if len(text) > _LONGEST_PATTERN:
        return f" is longer than {_LONGEST_PATTERN:,} characters"
    try:
        compiled(text)
    except ValueError as error:
        return f" is not a regular expression: {error}"
    return True


def compiled(pattern: str) -> Any:
    """Compile a regular expression that is matched against lines of a log. RE2 matches in linear time, without
    backtracking. Raises `ValueError`.
    """
    import re2  # noqa: PLC0415  only for recipes that read a log

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(f"(?m){pattern}", options)
    except re2.error as error:
        raise ValueError(str(error.args[0].decode() if isinstance(error.args[0], bytes) else error)) from None


def _is_file_name(name: str) -> bool | str:
    plain = "/" not in name and name not in (".", "..") and len(name.encode()) <= _LONGEST_FILE
    return plain or f" is not a plain file name of up to {_LONGEST_FILE} bytes"


Text = Annotated[str, Rule("a string without NUL", lambda text: "\0" not in text)]
Line = Annotated[
    Text, Rule(f"at most {LONG} printable characters", lambda line: line.isprintable() and len(line) <= LONG)
]
Name = Annotated[
    Line,
    Rule("a name without /, which can be part of a file name", lambda name: bool(name.strip()) and "/" not in name),
]
Key = Annotated[Line, Rule(f"a name of 1 to {LONG} printable characters")]
Variable = Annotated[Key, Rule("the name of a variable, without =", lambda name: "=" not in name)]
FileName = Annotated[Key, Rule("a file name", _is_file_name)]
Template = Annotated[Text, FieldMark.TEMPLATE]
Command = Annotated[
    tuple[Template, ...],
    Rule(
        "a list of strings", lambda parts: bool(parts) and (bool(parts[0]) or ": the first string must name a program")
    ),
]
Pattern = Annotated[Text, Rule("a regular expression", _is_pattern)]
PatternTemplate = Annotated[
    Template, Rule("a regular expression", lambda text: _is_pattern(fill(text, defaultdict(lambda: "x"))))
]
Seconds = Annotated[float, Rule("seconds from 0 to 600", lambda seconds: 0 <= seconds <= 600)]
Port = Annotated[int, Rule("a number from 1 to 65535", lambda port: 0 < port < 65536)]
HttpCode = Annotated[int, Rule("a number from 100 to 599", lambda code: 100 <= code < 600)]
UrlPath = Annotated[
    str,
    Rule("a URL path: / and ASCII characters without spaces", lambda path: bool(re.fullmatch(r"/[!-~]{0,999}", path))),
]

_WORDS: Mapping[Any, str] = {str: "a string", int: "a whole number", float: "a number", tuple: "a list of strings"}


def read(value: Any, kind: Any, where: str, allowed: Mapping[str, str] | None = None) -> Any:
    """Convert the YAML value at key `where`. `allowed` are the placeholders of templates. Raises `UsageError`."""
    allowed = allowed or {}
    marks = getattr(kind, "__metadata__", ())
    base = kind.__origin__ if marks else kind
    origin, arguments = typing.get_origin(base) or base, typing.get_args(base)
    rules = [each for each in marks if isinstance(each, Rule)]
    if FieldMark.READ in marks:
        return value
    for each in marks:
        if isinstance(each, ExactlyOneKey):
            name, given = one_key(value, tuple(each.kinds), where)
            return _read_value_of(given, each.kinds[name], f"{where}.{name}", allowed)
    if dataclasses.is_dataclass(origin):
        return _read_object(value, origin, where, allowed)
    if origin is tuple and typing.get_origin(arguments[0]) is tuple:
        return _read_pairs(value, typing.get_args(arguments[0]), where, allowed)
    takes: Any = {str: (str, int, float, object), float: (int, float), tuple: list}.get(origin, origin)
    unfit = value is None or isinstance(value, (dict, list) if origin is str else (dict, bool))
    if unfit or not isinstance(value, takes):
        want = _WORDS[origin] if origin in (str, int) or not rules else rules[-1].want
        raise UsageError(f"key {where}: expected {want}, not {shown(value)}")
    if origin is tuple:
        found: Any = tuple(read(each, arguments[0], f"{where}[{n}]", allowed) for n, each in enumerate(value))
    else:
        found = origin(value)
    if FieldMark.TEMPLATE in marks:
        _refuse_unknown_placeholder(found, where, allowed)
    for rule in rules:
        holds = rule.check(found)
        if holds is not True:
            said = f"{shown(value)}{holds}" if holds else f"expected {rule.want}, not {shown(value)}"
            raise UsageError(f"key {where}: {said}")
    return found


def _read_object(value: Any, kind: Any, where: str, allowed: Mapping[str, str]) -> Any:
    prefix = f"key {where}: " if where else ""
    if not isinstance(value, dict):
        raise UsageError(f"{prefix}expected a mapping of keys to values, not {shown(value)}")
    fields = dataclasses.fields(kind)
    refuse_unknown(value, [each.name for each in fields], prefix)
    for each in fields:
        optional = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
        if not optional and value.get(each.name) in (None, "", [], {}):
            raise UsageError(f"key {_below(where, each.name)} is missing")
    hints = typing.get_type_hints(kind, include_extras=True)
    return kind(**{name: read(each, hints[name], _below(where, name), allowed) for name, each in value.items()})


def _read_value_of(value: Any, kind: Any, where: str, allowed: Mapping[str, str]) -> Any:
    """Convert a value to the dataclass `kind`. If `kind` has a single field, the value is that field's value."""
    fields = dataclasses.fields(kind)
    if len(fields) > 1:
        return _read_object(value, kind, where, allowed)
    hints = typing.get_type_hints(kind, include_extras=True)
    return kind(read(value, hints[fields[0].name], where, allowed))


def _read_pairs(value: Any, kinds: Sequence[Any], where: str, allowed: Mapping[str, str]) -> Any:
    if not isinstance(value, dict):
        raise UsageError(f"key {where}: expected a mapping of names to strings, not {shown(value)}")
    name_kind, text_kind = kinds
    return tuple(
        (read(name, name_kind, where), read(text, text_kind, f"{where}.{name}", allowed))
        for name, text in value.items()
    )


def _below(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def refuse_unknown(given: Mapping[Any, Any], allowed: Sequence[str], prefix: str) -> None:
    for key in given:
        if key not in allowed:
            raise UsageError(f"{prefix}unknown key {shown(key)}; {_near(key, allowed)}allowed: {', '.join(allowed)}")


def one_key(value: Any, allowed: Sequence[str], where: str) -> tuple[str, Any]:
    if not isinstance(value, dict) or len(value) != 1:
        raise UsageError(f"key {where}: expected {' or '.join(allowed)}, not {shown(value)}")
    refuse_unknown(value, allowed, f"key {where}: ")
    ((key, given),) = value.items()
    return key, given


def shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return ascii(text[:LONG]) if not text.isprintable() else text if len(text) <= LONG else f"{text[:LONG]}…"


def _refuse_unknown_placeholder(text: str, where: str, allowed: Mapping[str, str]) -> None:
    for found in PLACEHOLDER.finditer(text):
        if found[1] is not None and found[1] not in allowed:
            names = ", ".join(f"{{{name}}}" for name in allowed)
            raise UsageError(
                f"key {where}: unknown placeholder {{{found[1]}}}; allowed: {names}; write {{{{ for a brace"
            )


def fill(template: str, values: Mapping[str, str]) -> str:

    def value(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else values[found[1]]

    return PLACEHOLDER.sub(value, template)


def fill_known(text: str, values: Mapping[str, str]) -> str:
    """Fill in only the placeholders in `values`, because a manifest may contain other braces, for example in JSON."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1] or "", found[0]), text)
