"""The fields that releases added or removed, as far as this project tests them."""

import functools
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeVar

from reference.features import Features, Version

Path = tuple[str, ...]
"""A path of field names. Indexes of list items are not part of the path."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VersionedField:
    """A field that Kubernetes has from 1.`since` up to, but not including, 1.`until`, and its feature gate.

    If the gate is set in a release that no longer has the field, the field exists again. `older` is the gate for the
    same field in an earlier version of the KEP.
    """

    kind: str
    path: Path
    since: int
    until: int = 1000
    gate: str = ""
    older: str = ""

    def exists(self, version: Version, asked_for: AbstractSet[str] = frozenset()) -> bool:
        """Return whether this release has the field, regardless of its gate. `asked_for` is `Features.asked_for`."""
        return self.since <= version[1] < self.until or not asked_for.isdisjoint((self.gate, self.older))

    def enabled(self, features: Features) -> bool:
        exists = self.exists(features.version, features.asked_for)
        return exists and (not self.gate or any(features.enabled(each) for each in (self.gate, self.older) if each))


NODE_HINTS = VersionedField(
    "EndpointSlice",
    ("endpoints", "hints", "forNodes"),
    since=33,
    gate="PreferSameTrafficDistribution",
    older="NodeLevelTopology",
)

FIELDS = (
    VersionedField("Service", ("spec", "topologyKeys"), since=17, until=22, gate="ServiceTopology"),
    VersionedField("Service", ("status", "conditions"), since=20),
    VersionedField("Service", ("spec", "internalTrafficPolicy"), since=21, gate="ServiceInternalTrafficPolicy"),
    VersionedField("Service", ("spec", "trafficDistribution"), since=30, gate="ServiceTrafficDistribution"),
    VersionedField("EndpointSlice", ("endpoints", "hints"), since=21, gate="TopologyAwareHints"),
    NODE_HINTS,
)


@functools.cache
def fields_of(kind: str) -> tuple[VersionedField, ...]:
    return tuple(each for each in FIELDS if each.kind == kind)


@functools.cache
def absent(kind: str, version: Version, asked_for: AbstractSet[str] = frozenset()) -> tuple[Path, ...]:
    """Return the paths of the fields of a kind that this release lacks, outer fields first."""
    return tuple(sorted((each.path for each in fields_of(kind) if not each.exists(version, asked_for)), key=len))


def without(value: T, paths: tuple[Path, ...]) -> T:
    """Return an object or a shape (with the same nesting) without the fields at `paths`. Copy only what changes."""
    for path in paths:
        value = _without(value, path)
    return value


def _without(value: Any, path: Path) -> Any:
    name, rest = path[0], path[1:]
    if isinstance(value, list):
        shorter = [_without(each, path) if name in each else each for each in value]
        changed = any(one is not other for one, other in zip(value, shorter, strict=True))
        return shorter if changed else value
    if not isinstance(value, dict) or name not in value:
        return value
    if not rest:
        return {key: each for key, each in value.items() if key != name}
    inner = _without(value[name], rest)
    return value if inner is value[name] else {**value, name: inner}
