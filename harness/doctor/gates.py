"""Checks feature gates by a component's metrics: those that requirements depend on. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.doctor.check import Check, CheckState, ok, unknown

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate that requirements depend on: the versions since which it exists and is on, and their features."""

    name: str
    exists: Version
    on: Version
    features: frozenset[str]


GATES = (
    Gate("ServiceTrafficDistribution", (1, 30), (1, 31), frozenset({"PreferClose", "ZoneHints"})),
    Gate(
        "PreferSameTrafficDistribution",
        (1, 33),
        (1, 34),
        frozenset({"PreferSameZone", "PreferSameNode", "NodeHints"}),
    ),
)


def gate_version(told: Mapping[str, Any]) -> Version:
    """Return major and minor of an answer of /version; (0, 0) if it has none."""
    found = re.match(r"v?(\d+)\.(\d+)", str(told.get("gitVersion", "")))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def check(version: Version, seen: Mapping[str, bool], said: Mapping[str, bool] | None = None) -> Check:
    """Check that the gates are on: those `seen`, or if there are none those that an option `said`, or else defaults.

    A gate that became permanent is no longer among those that are seen.
    """
    if version == (0, 0):
        return unknown("feature gates", "its version does not tell which there are")
    off = [gate for gate in GATES if not is_on(gate, version, seen or said or {})]
    how = f"as {version[0]}.{version[1]} has them by default: /metrics is not readable"
    if seen or said:
        how = "as its metrics say" if seen else "as --feature-gates says"
    if not off:
        return ok("feature gates", f"those that matter are on, {how}")
    names = ", ".join(gate.name for gate in off)
    features = frozenset[str]().union(*(gate.features for gate in off))
    remedy = "turn them on in API server, controller manager and kube-proxy" + (
        "" if all(version >= gate.exists for gate in off) else ", at a version that has them"
    )
    if not seen:
        remedy += "; where they are on, say so with --feature-gates"
    return Check("feature gates", CheckState.LACKS, f"off or not there: {names}, {how}", remedy, features=features)


def is_on(gate: Gate, version: Version, seen: Mapping[str, bool]) -> bool:
    """Return whether a gate is on in a component of that version."""
    return version >= gate.exists and seen.get(gate.name, version >= gate.on)
