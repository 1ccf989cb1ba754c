"""Escape control codes, and characters that change the reading order, in strings for each output format."""

import html
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_PUNCTUATION = re.compile(r"([\\`*~|\[\]#!])|(?<!\w)_|_(?!\w)")


def for_terminal(text: str) -> str:
    return text.translate({ord(each): _visible(each) for each in {*text} - {*"\n\t"} if not each.isprintable()})


def for_line(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible, text))


def for_markdown(text: str) -> str:
    """Escape a string for a line or a table cell of a Markdown page."""
    return _PUNCTUATION.sub(r"\\\g<0>", html.escape(for_line(text), quote=False))


def for_code(text: str) -> str:
    """Escape a string for a Markdown code span between single backticks, which may be in a table."""
    return for_line(text).replace("`", "'").replace("|", "\\|")


def for_json(text: str) -> str:
    """Escape control codes in JSON, or in double-quoted strings of YAML. The parsed value does not change."""
    return text.translate({ord(each): f"\\u{ord(each):04x}" for each in {*text} - {*"\n\t"} if _is_obeyed(each)})


def for_viewer(value: Any) -> Any:
    """Escape all strings of a JSON value as `for_terminal` does, because some viewers interpret control codes."""
    if isinstance(value, str):
        return for_terminal(value)
    if isinstance(value, Mapping):
        return {key: for_viewer(each) for key, each in value.items()}
    return [for_viewer(each) for each in value] if isinstance(value, (list, tuple)) else value


def is_plain(text: str) -> bool:
    """Return whether a string has no terminal control codes."""
    return text.isprintable() or not any(_is_obeyed(each) and each not in "\n\t" for each in text)


def _is_obeyed(letter: str) -> bool:
    return not letter.isprintable() and unicodedata.category(letter) in _OBEYED


def _visible(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode() if _is_obeyed(letter) else letter
