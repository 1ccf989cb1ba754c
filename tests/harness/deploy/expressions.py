"""Evaluates the expressions of GitHub workflows, as far as this project uses them. The module is pure.

Operators, literals, contexts, functions: https://docs.github.com/actions/reference/workflows-and-actions/expressions.
An unknown context is an error here, while GitHub treats it as an empty string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Functions = Mapping[str, Callable[..., Any]]

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[A-Za-z_][\w.-]*|&&|\|\||==|!=|[!(),])")
_INSIDE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


class ExpressionError(Exception):
    """An expression that this evaluator does not support."""


def fill(text: str, values: Mapping[str, Any], functions: Functions) -> str:
    """Return a text of a workflow with its expressions replaced by their values."""
    return _INSIDE.sub(lambda found: str(evaluate(found[1], values, functions)), text)


def evaluate(text: str, values: Mapping[str, Any], functions: Functions) -> Any:
    """Return the value of an expression, with or without its `${{ }}`. Raises `ExpressionError`."""
    inside = _INSIDE.fullmatch(text.strip())
    reader = _ExpressionParser(_tokens(inside[1] if inside else text), values, functions)
    value = reader.either()
    if reader.left:
        raise ExpressionError(f"{text!r}: nothing is known of what begins at {reader.left[0]!r}")
    return value


def _tokens(text: str) -> list[str]:
    found, place = [], 0
    while text[place:].strip():
        token = _TOKEN.match(text, place)
        if token is None:
            raise ExpressionError(f"{text!r}: nothing is known of {text[place:].strip()!r}")
        found.append(token[1])
        place = token.end()
    return found


class _ExpressionParser:
    """Parses tokens from left to right. `either` accepts a whole expression; later methods bind more tightly."""

    def __init__(self, tokens: list[str], values: Mapping[str, Any], functions: Functions) -> None:
        self.left = tokens
        self._values = values
        self._functions = functions

    def either(self) -> Any:
        value = self._both()
        while self._takes("||"):
            other = self._both()
            value = value or other
        return value

    def _both(self) -> Any:
        value = self._compared()
        while self._takes("&&"):
            other = self._compared()
            value = value and other
        return value

    def _compared(self) -> Any:
        value = self._plain()
        if self._takes("=="):
            return _loose(value) == _loose(self._plain())
        if self._takes("!="):
            return _loose(value) != _loose(self._plain())
        return value

    def _plain(self) -> Any:
        if self._takes("!"):
            return not self._plain()
        if self._takes("("):
            value = self.either()
            self._must(")")
            return value
        token = self._next()
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        return self._called(token) if self._takes("(") else self._looked_up(token)

    def _called(self, name: str) -> Any:
        arguments: list[Any] = []
        while not self._takes(")"):
            arguments.append(self.either())
            if not self._takes(","):
                self._must(")")
                break
        if name not in self._functions:
            raise ExpressionError(f"nothing is known of function {name}")
        return self._functions[name](*arguments)

    def _looked_up(self, name: str) -> Any:
        value: Any = self._values
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise ExpressionError(f"nothing is known of {name}")
            value = value[part]
        return value

    def _takes(self, token: str) -> bool:
        found = self.left[:1] == [token]
        if found:
            self._next()
        return found

    def _must(self, token: str) -> None:
        if not self._takes(token):
            raise ExpressionError(f"want {token!r}, not {self.left[:1]}")

    def _next(self) -> str:
        if not self.left:
            raise ExpressionError("it ends too early")
        token, *self.left = self.left
        return token


def _loose(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value
