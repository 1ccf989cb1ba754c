"""Mutants that no requirement finds out, and why: `survivors.yaml` has the equivalent ones, and those left open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model import strict_yaml

FILE = Path(__file__).with_suffix(".yaml")

Name = tuple[str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class Survivors:
    """The reasons by the names of mutations."""

    equivalent: Mapping[Name, str]
    open: Mapping[Name, str]


def read(file: Path = FILE) -> Survivors:
    """Return what the file says."""
    told = strict_yaml.read(file, what="list of survivors")
    equivalent, left = ({_name(each): each["reason"] for each in told[kind] or ()} for kind in ("equivalent", "open"))
    return Survivors(equivalent, left)


def _name(entry: Mapping[str, Any]) -> Name:
    return (entry["module"], entry["function"], entry["was"], entry["becomes"], entry.get("number", 1))
