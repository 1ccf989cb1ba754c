"""The Kubernetes specs to run, by group; the exempt specs; and the parser of ginkgo's reports.

This module has no side effects. Specs have the names that ginkgo uses: the texts of the containers and of the spec,
joined by spaces. A ginkgo focus is a pattern that must match the name of the suite and the spec.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model import strict_yaml

EXEMPT = Path(__file__).with_name("exempt.yaml")

TRAFFIC_DISTRIBUTION, TOPOLOGY_HINTS, ENDPOINT_SLICE = "Traffic Distribution", "Topology Hints", "EndpointSlice"
SERVICES = "Services"
GROUPS = (TRAFFIC_DISTRIBUTION, TOPOLOGY_HINTS, ENDPOINT_SLICE, "EndpointSliceMirroring", SERVICES)
"""The groups of specs, by the first word of their names."""

TOPOLOGY = (TRAFFIC_DISTRIBUTION, TOPOLOGY_HINTS)
"""The groups whose subject this project also judges."""

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

_MARKS = re.compile(r"\s*\[[^\]]+\]")
_NEEDS_MORE = re.compile(r"\[(Disruptive|Serial|Flaky|Feature:)")
"""Labels of specs that restart components, must run alone, or need features that few clusters have."""

_ENDS = {"passed": PASSED, "skipped": SKIPPED}
_LETTERS = 400  # maximum number of characters of a failure message


@dataclass(frozen=True, slots=True)
class SpecResult:
    """The result of one spec. `why` is the beginning of the failure message, or the reason for a skip."""

    spec: str
    end: str
    seconds: float
    why: str = ""

    @property
    def group(self) -> str:
        """The group of the spec, or "" if it has none."""
        return group_of(self.spec)


@dataclass(frozen=True, slots=True)
class ExemptSpec:
    """A spec that may fail, with the reason. `with_` limits the exemption to some implementations; () means all."""

    spec: str
    reason: str
    with_: tuple[str, ...] = ()

    def covers(self, spec: str, implementation: str) -> bool:
        return self.spec == short(spec) and (not self.with_ or implementation in self.with_)


def focus(spec: str) -> str:
    """Return ginkgo's option that selects one spec."""
    return f"--ginkgo.focus={re.escape(spec)}$"


def group_of(spec: str) -> str:
    """Return the group of a spec, or "" if it has none."""
    return next((group for group in GROUPS if short(spec).startswith(f"{group} ")), "")


def short(spec: str) -> str:
    """Return a name without its bracketed labels, which change between versions."""
    return _MARKS.sub("", spec).strip()


def results(report: Sequence[Mapping[str, Any]]) -> list[SpecResult]:
    """Parse ginkgo's JSON report. Return the results of the selected specs and of a failed setup."""
    return [result for suite in report for each in suite.get("SpecReports") or () if (result := _result(each))]


def _result(each: Mapping[str, Any]) -> SpecResult | None:
    why = str((each.get("Failure") or {}).get("Message") or "").strip()[:_LETTERS]
    end = _ENDS.get(str(each["State"]), FAILED)
    if each["LeafNodeType"] != "It":
        name = str(each["LeafNodeType"])
        return SpecResult(name, end, _seconds(each), why) if end == FAILED else None
    if end == SKIPPED and not why:
        return None  # it was not selected
    name = " ".join(filter(None, (*(each.get("ContainerHierarchyTexts") or ()), each["LeafNodeText"])))
    return SpecResult(name, end, _seconds(each), why)


def _seconds(each: Mapping[str, Any]) -> float:
    return round(float(each.get("RunTime") or 0) / 1e9, 1)


def chosen(report: Sequence[Mapping[str, Any]], groups: Collection[str]) -> list[str]:
    """Return the names of the specs in these groups that need nothing but a cluster, from the report of a dry run."""
    found = [each.spec for each in results(report) if each.end == PASSED and each.group in groups]
    return sorted(each for each in found if group_of(each) != SERVICES or not _NEEDS_MORE.search(each))


def read_exempt(file: Path = EXEMPT) -> list[ExemptSpec]:
    """Return the exempt specs. Raises `UsageError` if the file is invalid."""
    listed = strict_yaml.read(str(file), what="list of exempt specs")
    return [
        ExemptSpec(each["spec"], " ".join(each["reason"].split()), tuple(each.get("with", ()))) for each in listed or ()
    ]


def unmet(implementation: str, ends: Iterable[SpecResult], exempt: Sequence[ExemptSpec]) -> Iterator[SpecResult]:
    """Yield the required specs that did not pass. A skipped spec did not pass."""
    for each in ends:
        excused = each.group == SERVICES and any(one.covers(each.spec, implementation) for one in exempt)
        if each.end != PASSED and not excused:
            yield each
