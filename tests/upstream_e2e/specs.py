"""The specs of Kubernetes that are run here, by group; what of them is exempt, and what their reports say.

Pure. Names are those of ginkgo: the texts around a spec and its own, with a space in between. A focus of ginkgo is a
pattern that is sought in the suite's name and that of the spec.
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
"""Groups by the word that begins their names."""

TOPOLOGY = (TRAFFIC_DISTRIBUTION, TOPOLOGY_HINTS)
"""The groups of what this project judges too."""

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

_MARKS = re.compile(r"\s*\[[^\]]+\]")
_NEEDS_MORE = re.compile(r"\[(Disruptive|Serial|Flaky|Feature:)")
"""Marks of specs that restart components of the cluster, run alone, or need what clusters seldom have."""

_ENDS = {"passed": PASSED, "skipped": SKIPPED}
_LETTERS = 400  # of a failure's text


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one spec. `why` is the beginning of a failure's text, or the reason of a skip."""

    spec: str
    end: str
    seconds: float
    why: str = ""

    @property
    def group(self) -> str:
        """The group of the spec; "" for none."""
        return group_of(self.spec)


@dataclass(frozen=True, slots=True)
class Exempt:
    """A spec that need not pass, and why. `with_` limits it to these implementations; () is all."""

    spec: str
    reason: str
    with_: tuple[str, ...] = ()

    def covers(self, spec: str, implementation: str) -> bool:
        """Return whether it exempts this spec with this implementation."""
        return self.spec == short(spec) and (not self.with_ or implementation in self.with_)


def focus(spec: str) -> str:
    """Return ginkgo's option that chooses one spec."""
    return f"--ginkgo.focus={re.escape(spec)}$"


def group_of(spec: str) -> str:
    """Return the group of a spec; "" for none of ours."""
    return next((group for group in GROUPS if short(spec).startswith(f"{group} ")), "")


def short(spec: str) -> str:
    """Return a name without its marks in brackets: they change from version to version."""
    return _MARKS.sub("", spec).strip()


def results(report: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Parse the results of the chosen specs, and of a failed set-up, from ginkgo's JSON report."""
    return [result for suite in report for each in suite.get("SpecReports") or () if (result := _result(each))]


def _result(each: Mapping[str, Any]) -> Result | None:
    why = str((each.get("Failure") or {}).get("Message") or "").strip()[:_LETTERS]
    end = _ENDS.get(str(each["State"]), FAILED)
    if each["LeafNodeType"] != "It":
        name = str(each["LeafNodeType"])
        return Result(name, end, _seconds(each), why) if end == FAILED else None
    if end == SKIPPED and not why:
        return None  # it was not chosen
    name = " ".join(filter(None, (*(each.get("ContainerHierarchyTexts") or ()), each["LeafNodeText"])))
    return Result(name, end, _seconds(each), why)


def _seconds(each: Mapping[str, Any]) -> float:
    return round(float(each.get("RunTime") or 0) / 1e9, 1)


def chosen(report: Sequence[Mapping[str, Any]], groups: Collection[str]) -> list[str]:
    """Return the names of the specs of these groups that need no more than a cluster, by the report of a dry run."""
    found = [each.spec for each in results(report) if each.end == PASSED and each.group in groups]
    return sorted(each for each in found if group_of(each) != SERVICES or not _NEEDS_MORE.search(each))


def read_exempt(file: Path = EXEMPT) -> list[Exempt]:
    """Return the specs that need not pass. Raises `UsageError` for a file of another form."""
    told = strict_yaml.read(str(file), what="list of exempt specs")
    return [Exempt(each["spec"], " ".join(each["reason"].split()), tuple(each.get("with", ()))) for each in told or ()]


def unmet(implementation: str, ends: Iterable[Result], exempt: Sequence[Exempt]) -> Iterator[Result]:
    """Yield the required specs that did not pass; a skip is not a pass."""
    for each in ends:
        excused = each.group == SERVICES and any(one.covers(each.spec, implementation) for one in exempt)
        if each.end != PASSED and not excused:
            yield each
