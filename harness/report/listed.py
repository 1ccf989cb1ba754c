"""Write the rows of a catalogue as a table, JSON, YAML or Markdown.

If the output is not a terminal, a table has one line per row without wrapping, to make names easy to search. On a
terminal, each name has a separate line.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from harness.model.texts import as_table

_WIDEST = 100
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A row with a name, a short qualifier, and sentences."""

    name: str
    word: str
    sentences: tuple[str, ...]


def as_lines(rows: Sequence[ListedRow], *, width: int) -> str:
    """Return the rows as text for a terminal with `width` columns. A width of 0 means one line per row."""
    if width:
        return "\n".join(_of_terminal(rows, min(width, _WIDEST)))
    return as_table([(row.name, row.word, " ".join(row.sentences)) for row in rows])


def _of_terminal(rows: Sequence[ListedRow], width: int) -> list[str]:
    lines = []
    for row in rows:
        first, *others = row.sentences
        lines.append(row.name)
        lines += _wrapped(f"{row.word}  {first}", width)
        for each in others:
            lines += _wrapped(each, width)
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 2 * len(_INDENT)),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_yaml(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, width=120, allow_unicode=True).rstrip()


def markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
