"""Deviations that a project documents: `stated.yaml` on the shelf.

A documented deviation is a decision and not a mistake, and readers of the matrix should see this.

    - project: CoreDNS that ignores empty Services    # the name in its reports
      requirements: [DNS/service-has-its-cluster-ips]
      says: Services without ready endpoints get NXDOMAIN, because of `ignore empty_service`.
      where: https://coredns.io/plugins/kubernetes/   # a page that the project publishes
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.model import strict_yaml
from harness.model.files import MEGABYTE

FILE = "stated.yaml"
_KEYS = {"project", "requirements", "says", "where"}


@dataclass(frozen=True, slots=True)
class Deviation:
    """A project's public statement about requirements that it deliberately does not meet."""

    project: str
    requirements: frozenset[str]
    says: str
    where: str


def read(shelf: Path) -> list[Deviation]:
    """Return the deviations in a shelf's file, or an empty list if there is no file. Raises `UsageError`."""
    place = shelf / FILE
    if not place.exists():
        return []
    entries = strict_yaml.read(place, what="file", most=MEGABYTE)
    if not isinstance(entries, list):
        raise UsageError(f"{place}: expected a list of entries with {', '.join(sorted(_KEYS))}")
    return [_deviation(each, f"{place}, entry {number}") for number, each in enumerate(entries, 1)]


def _deviation(entry: Any, where: str) -> Deviation:
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        raise UsageError(f"{where}: expected only the keys {', '.join(sorted(_KEYS))}")
    ids, strings = entry["requirements"], {name: entry[name] for name in ("project", "says", "where")}
    if not isinstance(ids, list) or not ids or not all(isinstance(each, str) for each in ids):
        raise UsageError(f"{where}: requirements: expected a list of ids")
    if bad := next((name for name, text in strings.items() if not isinstance(text, str) or not text.strip()), None):
        raise UsageError(f"{where}: {bad}: expected a string")
    if not strings["where"].startswith("https://"):
        raise UsageError(f"{where}: where: expected the address of the project's page, https://…")
    return Deviation(strings["project"], frozenset(ids), strings["says"].strip(), strings["where"])


def deviation_of(project: str, requirement: str, deviations: Sequence[Deviation]) -> Deviation | None:
    return next((each for each in deviations if each.project == project and requirement in each.requirements), None)
