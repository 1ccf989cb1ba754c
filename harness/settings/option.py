"""One option of a run, with its names and the conversion of its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UsageError
from harness.settings.parsing import LONG

ENVIRONMENT_PREFIX = "TRAFFICDIST_"

LONGEST = 4096
"""The maximum length of a value."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, with its name in each source. `kind` is "value", "list" (repeatable, or comma-separated) or "flag".

    `group` is the heading in `--help`. `allowed` lists all values if there are few. `backends` lists the backends that
    use the option, and () means all; other backends reject the option. If `on_command_line` is false, only an options
    file or the environment can set the option, and `trafficdist run` does not offer it.
    """

    name: str
    help: str
    kind: str = "value"
    metavar: str = "TEXT"
    default: Any = None
    check: Callable[[str], Any] = field(default=str)
    allowed: tuple[str, ...] = ()
    group: str = ""
    backends: tuple[str, ...] = ()
    on_command_line: bool = True

    @property
    def key(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")

    @property
    def environment(self) -> str:
        """The name of the corresponding environment variable."""
        return ENVIRONMENT_PREFIX + self.key.upper()

    def convert(self, value: Any, place: str) -> Any:
        """Validate and convert a value. Raises `UsageError` that names `place`, the source of the value."""
        try:
            if self.kind == "flag":
                return _flag(value)
            if self.kind == "list":
                return tuple(dict.fromkeys(self._checked(part) for part in _parts(value)))
            if isinstance(value, (dict, list)):
                raise UsageError(f"expected one value, not {str(value)[:LONG]}")
            return self._checked(str(value))
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None

    def _checked(self, text: str) -> Any:
        if len(text) > LONGEST:
            raise UsageError(f"has {len(text):,} characters, more than {LONGEST:,}: {text[:LONG]!r}…")
        if odd := [each for each in text if not each.isprintable()]:
            raise UsageError(f"{text[:LONG]!r} has a character that is not printable: {odd[0]!r}")
        value = self.check(text)
        if self.allowed and value not in self.allowed:
            raise UsageError(f"unknown value {text[:LONG]!r}; allowed: {', '.join(self.allowed)}")
        return value


def _parts(value: Any) -> list[str]:
    items = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, (dict, list)) for item in items):
        raise UsageError(f"expected a list of words, not {str(value)[:LONG]}")
    return [part.strip() for item in items for part in str(item).split(",") if part.strip()]


def _flag(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return words[str(value).lower()]
    except KeyError:
        raise UsageError(f"expected yes or no, not {str(value)[:LONG]!r}") from None
