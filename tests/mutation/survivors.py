"""Mutants that no requirement kills, each with the reason.

`survivors.yaml` has three lists. `equivalent` mutants behave like the original. `outside` mutants change behaviour that
`coverage.yaml` excludes or that no KEP requires. For `open` mutants a requirement is still missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.model import strict_yaml

FILE = Path(__file__).with_suffix(".yaml")

Name = tuple[str, str, str, str, int]

SETTLED = ("equivalent", "outside")
"""The kinds of survivors that no requirement needs to kill."""
KINDS = (*SETTLED, "open")


def read(file: Path = FILE) -> dict[str, dict[Name, str]]:
    """Return the reason for each survivor, by kind of survivor and by name of the mutation."""
    lists = strict_yaml.read(file, what="list of survivors")
    return {kind: {_name(each): each["reason"] for each in lists[kind] or ()} for kind in KINDS}


def _name(entry: Mapping[str, Any]) -> Name:
    return (entry["module"], entry["function"], entry["was"], entry["becomes"], entry.get("number", 1))
