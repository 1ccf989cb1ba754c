"""Generate docs/faults-missed-upstream.md from the matrix: `python -m tests.upstream_e2e.page`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.run.folder import write_whole
from mutants import MUTANTS
from tests.upstream_e2e import records
from tests.upstream_e2e.records import NO_FAULT, FastestRequirement, FaultGroup, SpecTrial

PAGE = records.ROOT / "docs/faults-missed-upstream.md"
COMPARISON = records.ROOT / "docs/comparison.md"
PROSE = Path(__file__).with_name("page.md")
"""The page without its tables."""

_BEGIN, _END = "<!-- made by make upstream-matrix -->", "<!-- until here -->"
_FEW = (
    "refuses-half",
    "leaks-five-percent",
    "unready-endpoint-breaks-hints",
    "one-endpoint-twice",
    "hints-outlive-the-field",
    "writes-no-hints",
)
"""The faults in the short table of the comparison page."""


def text(known: Mapping[str, SpecTrial], groups: Sequence[FaultGroup], ours: Mapping[str, FastestRequirement]) -> str:
    """Return the page."""
    tables = "\n".join(_table(group, known, ours) for group in groups)
    prose = PROSE.read_text(encoding="utf-8")
    return prose.replace("<!-- summary -->", summary(known, groups)).replace("<!-- tables -->", tables.rstrip())


def comparison(
    page: str, known: Mapping[str, SpecTrial], groups: Sequence[FaultGroup], ours: Mapping[str, FastestRequirement]
) -> str:
    """Return the comparison page with the current findings and the table of a few faults, between its two markers."""
    before, mark, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{mark}\n\n{_counted(known, groups)}\n\n{_rows(_FEW, known, ours)}\n\n{_END}{after}"


def summary(known: Mapping[str, SpecTrial], groups: Sequence[FaultGroup]) -> str:
    """Return the findings: a sentence, the versions, and a table with a row for each function that a fault breaks."""
    rows = ["| kind of fault | faults tested | pass all seven specs | fail a spec |", "|---|---|---|---|"]
    rows += [_sum(group, known) for group in groups]
    return "\n".join([f"{_counted(known, groups)}\n\n{_made(known)}\n", *rows])


def _counted(known: Mapping[str, SpecTrial], groups: Sequence[FaultGroup]) -> str:
    names = [name for group in groups for name in group.mutants]
    tried = [known[name] for name in names if name in known]
    passing = sum(not trial.noticed for trial in tried)
    ended = f"**{passing} of {len(tried)} faults pass all seven specs**; trafficdist detects all of them."
    waiting = f" Not tested yet: {len(names) - len(tried)}." if len(tried) < len(names) else ""
    return f"{ended}{waiting}"


def _sum(group: FaultGroup, known: Mapping[str, SpecTrial]) -> str:
    tried = [known[name] for name in group.mutants if name in known]
    noticed = sum(bool(trial.noticed) for trial in tried)
    return f"| {_link(group.breaks)} | {len(tried)} | {len(tried) - noticed} | {noticed} |"


def _link(heading: str) -> str:
    return f"[{heading}](#{re.sub('[^a-z0-9 -]', '', heading.lower()).replace(' ', '-')})"


def _made(known: Mapping[str, SpecTrial]) -> str:
    if not known:
        return "No fault has been tested yet."
    versions = ", ".join(sorted({each.kubernetes for each in known.values()}))
    dates = sorted(each.date for each in known.values())
    seeds = ", ".join(sorted({str(each.seed) for each in known.values()}))
    between = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    without = known.get(NO_FAULT)
    control = f" Without a fault, {_passed(without)}." if without else ""
    return f"Measured on {between} with Kubernetes {versions} and ginkgo's seed {seeds}.{control}"


def _passed(trial: SpecTrial) -> str:
    return f"{trial.specs - len(trial.noticed)} of {trial.specs} specs pass"


def _table(group: FaultGroup, known: Mapping[str, SpecTrial], ours: Mapping[str, FastestRequirement]) -> str:
    return f"## {group.breaks}\n\n{_rows(group.mutants, known, ours)}\n"


def _rows(names: Iterable[str], known: Mapping[str, SpecTrial], ours: Mapping[str, FastestRequirement]) -> str:
    rows = ["| fault | result of Kubernetes' specs | detected in trafficdist by |", "|---|---|---|"]
    return "\n".join(
        [*rows, *(f"| {_fault(name)} | {_theirs(known.get(name))} | {_own(ours.get(name))} |" for name in names)]
    )


def _fault(name: str) -> str:
    return f"`{name}`: {MUTANTS[name].sentence}".replace("|", "\\|")


def _theirs(trial: SpecTrial | None) -> str:
    if trial is None:
        return "not tested yet"
    if not trial.noticed:
        return "**pass**"
    spec, seconds = min(trial.noticed.items(), key=lambda each: each[1])
    others = len(trial.noticed) - 1
    more = f", and {others} other {'spec fails' if others == 1 else 'specs fail'}" if others else ""
    return f"{_words(spec)} fails after {seconds:.0f} s{more}"


def _words(spec: str) -> str:
    """Return a short name for one of the seven specs."""
    group, _, rest = spec.partition(" should ")
    value = rest.rpartition(" when using ")[2].partition(" ")[0] if " when using " in rest else ""
    if not value:
        return group
    removed = "with a removed endpoint" if "unavailable" in rest else ""
    where = "on multiple nodes" if "multiple nodes" in rest else removed
    return f"{value} {where}".rstrip()


def _own(ours: FastestRequirement | None) -> str:
    return "-" if ours is None else f"`{ours.requirement}`, {ours.seconds * 1000:.0f} ms"


def write(known: Mapping[str, SpecTrial]) -> None:
    """Write the page, and the table in the comparison page."""
    groups, ours = records.groups(), records.ours()
    write_whole(PAGE, text(known, groups, ours))
    write_whole(COMPARISON, comparison(COMPARISON.read_text(encoding="utf-8"), known, groups, ours))


if __name__ == "__main__":
    write(records.read())
