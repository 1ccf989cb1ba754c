"""Parse YAML with line numbers for error messages.

PyYAML's plain values have no line numbers, and PyYAML silently accepts duplicate keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from trafficdist import (
    UsageError,
)


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value in a YAML file, with its line number."""

    file: str
    node: yaml.Node

    @property
    def number(self) -> int:
        """The line number, counted from 1."""
        return int(self.node.start_mark.line) + 1

    def error(self, text: str) -> UsageError:
        """Return an error with the file and line, for the caller to raise."""
        return UsageError(f"{self.file}:{self.number}: {text}")

    def fields(self, *required: str, optional: Sequence[str] = ()) -> dict[str, YamlNode]:
        """Return the values of a mapping with all `required` keys and possibly `optional` keys. Raises `UsageError`."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error("expected a mapping")
        found: dict[str, YamlNode] = {}
        for key, value in self.node.value:
            name = YamlNode(self.file, key)
            if name.text() in found:
                raise name.error(f"{name.text()} is listed twice")
            found[name.text()] = YamlNode(self.file, value)
        self._check(set(found), set(required), set(optional))
        return found

    def items(self) -> list[YamlNode]:
        """Return the items of a list. Raises `UsageError`."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error("expected a list")
        return [YamlNode(self.file, each) for each in self.node.value]

    def text(self) -> str:
        """Return a non-empty string. Raises `UsageError`."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip():
            raise self.error("expected a string")
        return str(self.node.value)

    def texts(self) -> tuple[str, ...]:
        """Return a list of strings. Raises `UsageError`."""
        return tuple(each.text() for each in self.items())

    def one_of(self, allowed: Sequence[str]) -> str:
        """Return a string that must be one of the `allowed` strings. Raises `UsageError`."""
        if self.text() not in allowed:
            raise self.error(f"{self.text()!r} is not one of {', '.join(allowed)}")
        return self.text()

    def _check(self, found: set[str], required: set[str], optional: set[str]) -> None:
        if missing := required - found:
            raise self.error(f"{', '.join(sorted(missing))} is missing")
        if unknown := found - required - optional:
            raise self.error(f"unknown {', '.join(sorted(unknown))}; allowed: {', '.join(sorted(required | optional))}")


def compose(text: str, file: str) -> YamlNode:
    """Return the root of a YAML document. Raises `UsageError` if it is empty or invalid."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: {error}") from error
    if node is None:
        raise UsageError(f"{file}: is empty")
    return YamlNode(file, node)
