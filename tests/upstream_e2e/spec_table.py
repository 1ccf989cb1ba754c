"""The table of `make upstream-e2e`, with a row per spec and a column per implementation. The module is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.model.evidence_text import as_table
from tests.upstream_e2e.specs import GROUPS, PASSED, ExemptSpec, SpecResult, group_of, short, unmet


def table(ran: Mapping[str, Sequence[SpecResult]], exempt: Sequence[ExemptSpec]) -> str:
    """Return the rows of the table, then the failures. `ran` has the results by implementation."""
    ends = {(each.spec, name): each for name, results in ran.items() for each in results}
    specs = sorted({spec for spec, _ in ends}, key=lambda spec: (_place(spec), spec))
    rows = [("SPEC", *(name.upper() for name in ran))]
    rows += [(short(spec), *(_cell(ends.get((spec, name)), name, exempt) for name in ran)) for spec in specs]
    return "\n".join([as_table(rows), "", *_counts(ran), *_explained(ran, exempt)])


def _place(spec: str) -> int:
    group = group_of(spec)
    return GROUPS.index(group) if group else len(GROUPS)


def _cell(result: SpecResult | None, implementation: str, exempt: Sequence[ExemptSpec]) -> str:
    if result is None:
        return "not run"
    mark = "" if result.end == PASSED or any(unmet(implementation, [result], exempt)) else " (exempt)"
    return f"{result.end} {result.seconds:.0f} s{mark}"


def _counts(ran: Mapping[str, Sequence[SpecResult]]) -> Iterable[str]:
    for name, results in ran.items():
        groups = {group: [each for each in results if each.group == group] for group in GROUPS}
        told = (f"{group} {_passed(some)} of {len(some)}" for group, some in groups.items() if some)
        yield f"{name}: {', '.join(told)}"


def _passed(results: Iterable[SpecResult]) -> int:
    return sum(each.end == PASSED for each in results)


def _explained(ran: Mapping[str, Sequence[SpecResult]], exempt: Sequence[ExemptSpec]) -> Iterable[str]:
    for name, results in ran.items():
        for each in unmet(name, results, exempt):
            yield f"{name}: {short(each.spec)}: {each.end}: {' '.join(each.why.split())}"
