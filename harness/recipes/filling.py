"""Fill in the placeholders of a recipe, which are names in braces in commands, variables and files."""

from __future__ import annotations

import re
from collections.abc import Mapping

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
"""Matches a doubled brace, or a name in braces. The group is the name."""


def literal(text: str) -> str:
    """Return a template that yields exactly this text."""
    return text.replace("{", "{{").replace("}", "}}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill in the placeholders of a template. {{ and }} become single braces."""

    def value(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else values[found[1]]

    return PLACEHOLDER.sub(value, template)


def fill_known(text: str, values: Mapping[str, str]) -> str:
    """Fill in only these placeholders, because a manifest may contain other braces, for example in JSON."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1] or "", found[0]), text)
