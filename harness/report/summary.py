"""Format the header and the summary of a run as lines with styles."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judging.exit_codes import MEANINGS, ExitCode
from harness.judging.results import Outcome, Result, count, left_out, rests_on, slowest_convergence
from harness.judging.verdict import SkipReason, Verdict
from harness.model.escaping import for_line
from harness.model.requirements import Level
from harness.model.times import brief
from harness.report import causes
from harness.report.causes import CommonCause, counted
from harness.report.outcomes import COLUMNS, SHOWN, UNMET, Style
from harness.run.folder import PAGE
from harness.settings.claims import REFERENCE
from harness.settings.settings import Settings
from harness.variation.axes import when_it_fails

NOTES_ON_HINTS = {
    "hintsChangeSomething": "hints have no effect here: every endpoint receives traffic with and without hints. Is the "
    "feature enabled?",
    "changesOfHintsAreFollowed": "the proxy applies the hints of a new EndpointSlice, but ignores changes to the hints "
    "of an existing slice. Does it ignore hints when it compares endpoints?",
}
"""Names of facts about the environment, and the note to show if the fact is false."""

_SLOW = 5.0  # minimum seconds of a convergence to be shown
_MOST_LINES = 60  # maximum number of lines of an explanation; the evidence has the whole text
_REASONS = {
    SkipReason.UNSUPPORTED: "the implementation does not claim it",
    SkipReason.INELIGIBLE: "the cluster does not meet its needs",
    SkipReason.UNAVAILABLE: "this machine or backend does not support it",
    SkipReason.DESELECTED: "the run ended early because of an option",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text without control characters."""

    text: str
    style: Style = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", for_line(self.text))


def header(
    settings: Settings,
    *,
    version: str,
    reasons: Sequence[str],
    folder: str,
    workers: str = "none",
    quick: str = "",
    expected: str = "",
) -> list[Line]:
    """Return lines with the settings of a run. `reasons` explain why the run cannot be certified."""
    nodes = " ".join(node.name for node in settings.topology.nodes)
    features = "all" if settings.claims_everything else ", ".join(["core", *settings.supported_features])
    if settings.exempt_features:
        features += f", but not {', '.join(settings.exempt_features)}"
    rows = [
        ("cluster", f"{settings.backend}, {settings.topology.name} ({nodes}), {' and '.join(settings.families)}"),
        ("judged", _judged(settings)),
        ("judged by", settings.judges),
        ("profiles", ", ".join(settings.profile) or "all"),
        ("features", features),
        *([("quick", quick)] if quick else []),
        ("workers", workers),
        *([("requirements", expected)] if expected else []),
        ("seed", str(settings.seed)),
        ("certifiable", "no: " + "; ".join(reasons) if reasons else "yes, if every MUST is met"),
        ("results", folder),
    ]
    if settings.time_scale != 1.0:
        rows.insert(-2, ("time limits", f"x {settings.time_scale:g}"))
    return [Line(f"trafficdist {version}", "bold"), *(Line(f"  {name:<12} {text}") for name, text in rows), Line("")]


def _judged(settings: Settings) -> str:
    proxy = f"{f'mutant {settings.mutant}' if settings.mutant else settings.proxy}, mode {settings.mode}"
    proxy += f", DNS server {settings.dns}" if settings.dns != REFERENCE else ""
    chosen = settings.components
    if not chosen.real:
        return proxy
    controller = settings.controller or chosen.controller
    return f"control plane {settings.control_plane or chosen.plane}, controller {controller}, proxy {proxy}"


def summary(
    results: Sequence[Result],
    *,
    code: ExitCode,
    report: str,
    reasons: Sequence[str],
    distrust: Sequence[str],
    missing: Sequence[str] = (),
    found: Sequence[CommonCause] | None = None,
) -> list[Line]:
    """Return the summary of a run. `reasons` explain why it cannot be certified. `report` is the path of the report."""
    chosen = [result for result in results if not result.left_out]
    found = causes.of(chosen) if found is None else found
    return [
        *_table(chosen),
        *(line for outcome in UNMET for line in _stories(chosen, outcome)),
        *_not_run(chosen),
        *_left_out(results),
        *(Line(f"The suite does not trust itself: {why}", "red") for why in distrust),
        *(Line(f"The report lacks {what}", "yellow") for what in missing),
        *_causes(found),
        *conclusion(results, code, report, reasons, found),
    ]


def _table(results: Sequence[Result]) -> Iterator[Line]:
    if not results:
        return
    order = (*UNMET[:-1], Outcome.MET, UNMET[-1])
    yield Line(f"{'':<33}" + "".join(f"{SHOWN[each].column:>{_width(each)}}" for each in COLUMNS), "faint")
    for profile in sorted({result.requirement.profile for result in results}):
        for level, core in (("core", True), ("extended", False)):
            mine = [each for each in results if (each.requirement.profile, each.requirement.core) == (profile, core)]
            if mine:
                numbers = count(mine)
                columns = (f"{numbers[outcome] or '.':>{_width(outcome)}}" for outcome in COLUMNS)
                style: Style = next((SHOWN[outcome].style for outcome in order if numbers[outcome]), "faint")
                yield Line(f"{f'{profile} {level}':<33}{''.join(columns)}", style)
    yield Line("")


def _width(outcome: Outcome) -> int:
    return len(SHOWN[outcome].column) + 1


def _stories(results: Sequence[Result], outcome: Outcome) -> Iterator[Line]:
    chosen, shown = [result for result in results if result.outcome is outcome], SHOWN[outcome]
    if chosen:
        yield Line(shown.heading, "bold")
    never_began = Counter(each.worst.message for each in chosen if each.worst.never_began)
    for message, number in sorted(never_began.items()):
        yield Line(f"{shown.mark} {number} requirements {message}", shown.style)
        yield Line("")
    for result in (each for each in chosen if not each.worst.never_began):
        requirement, worst = result.requirement, result.worst
        parameters = f" [{worst.parameters}]" if worst.parameters else ""
        yield Line(f"{shown.mark} {requirement.id}{parameters}  ({requirement.level})", shown.style)
        yield Line(f"  {requirement.sentence}")
        yield Line(f"  {requirement.source}", "faint")
        if when := when_it_fails(worst.fails_with):
            yield Line(f"  {when}", "bold")
        yield from _explained(worst.explanation or worst.message)
        if worst.evidence:
            yield Line(f"  evidence: {worst.evidence[0].rpartition('/')[0]}/", "faint")
        yield Line("")


def _explained(text: str) -> Iterator[Line]:
    lines = text.splitlines()
    for line in lines[:_MOST_LINES]:
        yield Line(f"    {line}".rstrip())
    if len(lines) > _MOST_LINES:
        yield Line(f"    … {len(lines) - _MOST_LINES} more lines in the evidence", "faint")
        yield Line(f"    {lines[-1]}".rstrip())  # the command that runs the requirement again


def _not_run(results: Sequence[Result]) -> Iterator[Line]:
    skipped = [result for result in results if result.outcome is Outcome.NOT_RUN]
    if not skipped:
        return
    yield Line("Not run", "bold")
    for reason in SkipReason:
        mine = [result for result in skipped if result.reason == reason]
        things = Counter(result.worst.message for result in mine)
        if mine:
            yield Line(f"{SHOWN[Outcome.NOT_RUN].mark} {len(mine)} {reason}: {_REASONS[reason]}")
        for thing, number in sorted(things.items()):
            yield Line(f"    {number} x {thing}", "faint")
    yield Line("")


def _left_out(results: Sequence[Result]) -> Iterator[Line]:
    numbers = left_out(results)
    if numbers:
        things = ", ".join(f"{number} ({thing})" for thing, number in sorted(numbers.items()))
        yield Line(f"Excluded by the options of this run: {things}", "faint")
        yield Line("")


_MOST_HEADLINES = 3  # in the verdict of a run
_MOST_NAMED = 4  # requirements


def _causes(found: Sequence[CommonCause]) -> Iterator[Line]:
    if not found:
        return
    yield Line("Causes", "bold")
    for number, each in enumerate(found, 1):
        yield Line(f"{number}. {each.headline}", "red" if each.level is Level.MUST else "yellow")
        yield Line(f"   {each.numbers}: {_few(each.requirements, _MOST_NAMED)}")
        yield from (Line(f"   {text}", "faint") for text in (each.hint, each.rerun) if text)
    yield Line("")


def _few(names: Sequence[str], most: int, between: str = ", ") -> str:
    more = len(names) - most
    return between.join(names[:most]) + (f"{between}and {more} more" if more > 0 else "")


def verdict_of(results: Sequence[Result], code: ExitCode, found: Sequence[CommonCause]) -> str:
    """Return a sentence with the number of selected requirements that are not met, and the causes."""
    unmet = {level: _ids(results, level, Verdict.FAILED) for level in Level}
    musts = [each for each in results if each.requirement.level is Level.MUST]
    if code == ExitCode.PASSED and all(result.outcome is Outcome.MET for result in results):
        return f"All {len(results)} selected requirements are met."
    if code == ExitCode.PASSED:
        levels = [level for level in Level if unmet[level]]
    elif code == ExitCode.FAILED:
        levels = [level for level in (Level.MUST, Level.SHOULD) if unmet[level]][:1]
    else:
        said = _undecided(results, code) or MEANINGS[code]
        return f"{said[0].upper()}{said[1:]} (exit code {int(code)})."
    all_met = f"All {len(musts)} MUST requirements are met" if len(musts) > 1 else "The only MUST requirement is met"
    parts = [all_met] if musts and not unmet[Level.MUST] else []
    parts += [_unmet(level, unmet[level]) for level in levels]
    mine = [each for each in found if set(each.levels) & set(levels)]
    if code == ExitCode.FAILED and levels == [Level.SHOULD]:
        parts[-1] = f"with --warnings-as-errors, {parts[-1]} ({_few(unmet[Level.SHOULD], _MOST_NAMED)})"
    text = "; ".join(parts) + (f", by {counted(len(mine), 'cause')}" if mine else "")
    headlines = _few([each.headline for each in mine], _MOST_HEADLINES, "; ")
    return f"{text} (exit code {int(code)}){f': {headlines}' if headlines else ''}."


def _undecided(results: Sequence[Result], code: ExitCode) -> str:
    """Return how many MUST requirements are inconclusive or did not run, if they determine the exit code, or ""."""
    verdicts = {ExitCode.INCONCLUSIVE: Verdict.INCONCLUSIVE, ExitCode.PARTIAL: Verdict.SKIPPED}
    words = {ExitCode.INCONCLUSIVE: "inconclusive", ExitCode.PARTIAL: "not run"}
    ids = _ids(results, Level.MUST, verdicts[code]) if code in verdicts else []
    return f"no MUST failed, but {_unmet(Level.MUST, ids, words[code])}" if ids else ""


def _ids(results: Sequence[Result], level: Level, verdict: Verdict) -> list[str]:
    return [each.requirement.id for each in results if each.requirement.level is level and each.verdict is verdict]


def _unmet(level: Level, ids: Sequence[str], what: str = "not met") -> str:
    return f"{counted(len(ids), f'{level} requirement')} {'is' if len(ids) == 1 else 'are'} {what}"


def conclusion(
    results: Sequence[Result], code: ExitCode, report: str, reasons: Sequence[str], found: Sequence[CommonCause]
) -> Iterator[Line]:
    chosen = [result for result in results if result.selected]
    style: Style = "green" if code == ExitCode.PASSED else "yellow" if code >= ExitCode.INCONCLUSIVE else "red"
    yield Line(verdict_of(chosen, code, found), style)
    if any(result.outcome not in (Outcome.MET, Outcome.NOT_RUN) for result in chosen):
        yield Line(f"{rests_on(chosen)}.")
    slowest = slowest_convergence(results)
    if slowest and slowest[0] >= _SLOW:
        yield Line(f"The slowest change took {brief(slowest[0])} s to take effect, in {slowest[1]}.", "faint")
    if reasons:
        yield Line(f"This run cannot be certified: {'; '.join(reasons)}.", "faint")
    if report:
        yield Line(f"Report: {report}")
        yield Line(f"Page:   {report.rpartition('/')[0] or '.'}/{PAGE}")
