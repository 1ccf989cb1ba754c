"""The causes for which connections of a Service do not stay near, each with its remedy and the text that says so."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).with_name("causes.yaml")


class Weight(enum.IntEnum):
    """What a cause does: connections fail, or leave the zone though the Service asks for it; or all is as asked."""

    FAILS = 0
    CROSSES = 1
    AS_ASKED = 2
    NOTE = 3


FAILS, CROSSES, AS_ASKED, NOTE = Weight.FAILS, Weight.CROSSES, Weight.AS_ASKED, Weight.NOTE


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause: what it does, what it means in general, what helps, and the document that says so."""

    id: str
    weight: Weight
    means: str
    remedy: str
    source: str


@cache
def causes() -> dict[str, Cause]:
    """Return all causes by id, in the order of the file."""
    content: dict[str, dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return {name: Cause(name, _weight(each.pop("weight")), **each) for name, each in content.items()}


def _weight(text: str) -> Weight:
    return Weight[text.upper().replace("-", "_")]
