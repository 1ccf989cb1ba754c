"""Derives a verdict from observations. The functions are pure, so a recorded run can be judged again. Most expectations
are sets of pods: a client passes when every answer came from an allowed pod and every expected pod answered. An unknown
outcome makes the verdict inconclusive, unless another outcome is wrong.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from harness.judging.statistics import (
    DEFAULT_RATES,
    Rates,
    SamplePlan,
    allowed_set,
    even_shares,
    every_probe,
    share_bounds,
)
from harness.model.evidence_text import as_table, column_widths
from harness.model.outcomes import Observation, Reached, Refused, TimedOut, Unknown


class CellMark(enum.Enum):
    NONE = "·"
    RIGHT = "✓"
    WRONG = "✗ not allowed"
    UNEVEN = "✗ not an equal share"
    UNSEEN = "✗ never seen"
    UNSURE = "? not seen yet"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class GridCell:
    count: int
    mark: CellMark

    def __str__(self) -> str:
        return "·" if self.mark is CellMark.NONE else f"{self.count} {self.mark.value}"


@dataclass(frozen=True, slots=True)
class GridRow:
    client: str
    expected: str
    cells: Mapping[str, GridCell]


def render(pods: Sequence[str], rows: Sequence[GridRow]) -> str:
    """Return the grid as text. Columns of outcomes without an answer appear only if they have a count above 0."""
    others = dict.fromkeys(column for row in rows for column in row.cells if column not in pods)
    columns = [*pods, *(each for each in others if any(row.cells[each].count for row in rows))]
    table = [["client", "expected", *columns]]
    table += [[row.client, row.expected, *(str(row.cells[column]) for column in columns)] for row in rows]
    head, *lines = as_table(table, between=" | ").split("\n")
    return "\n".join([head, "-+-".join("-" * width for width in column_widths(table)), *lines])


class Verdict(enum.StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"


class SkipReason(enum.StrEnum):
    """The reason why a requirement was skipped. Reports list the four reasons separately."""

    UNSUPPORTED = "unsupported"  # the implementation does not claim the feature
    INELIGIBLE = "ineligible"  # the cluster is too small or of the wrong kind
    DESELECTED = "deselected"  # the user deselected it
    UNAVAILABLE = "unavailable"  # the backend cannot do what the scenario needs


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The client gets silence or refusals. Requirements expect this if they do not specify how a connection fails."""


NO_ANSWER = NoAnswer()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any of these pods may answer, and some may never answer, for example while a change is in progress."""

    pods: frozenset[str]


@dataclass(frozen=True, slots=True)
class EqualShares:
    """Each of these pods gives an equal share of the answers. There must be at least two pods."""

    pods: frozenset[str]


Expected = AbstractSet[str] | AnyOf | EqualShares | TimedOut | Refused | NoAnswer
"""A set of pods means that the client gets answers from all of these pods and from no others."""

Expectation = Mapping[str, Expected]  # the expectation for each client


@dataclass(slots=True)
class Tally:
    """The counts of one client: answers by pod, silence, refusals, and unknown outcomes by reason. `gap_ms` is the
    longest gap between answers that contains a lost request, or 0. `refused_by` counts refusals by error name.
    """

    pods: Counter[str] = field(default_factory=Counter)
    timed_out: int = 0
    refused: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    gap_ms: float = 0.0
    refused_by: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> "Tally":
        tally = cls()
        # Refusals are equal even if their errors differ.
        kinds = Counter((each, each.how if isinstance(each, Refused) else "") for each in observations)
        for (observation, _), count in kinds.items():
            match observation:
                case Reached(pod):
                    tally.pods[pod] += count
                case TimedOut():
                    tally.timed_out += count
                case Refused(how):
                    tally.refused += count
                    if how:
                        tally.refused_by[how] += count
                case Unknown(why):
                    tally.unknown[why] += count
        return tally

    @property
    def known(self) -> int:
        return self.pods.total() + self.timed_out + self.refused

    def add(self, other: "Tally") -> None:
        self.timed_out += other.timed_out
        self.refused += other.refused
        self.pods += other.pods
        self.refused_by += other.refused_by
        self.unknown += other.unknown
        self.gap_ms = max(self.gap_ms, other.gap_ms)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its reason in one sentence, and the grid of clients and endpoints as text. `unmet` lists the clients
    whose expectation is not met, or whose result is inconclusive. A `preliminary` judgement is about a basic check that
    the scenario depends on, and takes precedence over all other judgements.
    """

    verdict: Verdict
    message: str
    grid: str = ""
    unmet: tuple[str, ...] = ()
    preliminary: bool = False


def plan(expected: Expected, rates: Rates = DEFAULT_RATES, *, clients: int = 1) -> SamplePlan:
    """Return a client's sample plan if `clients` clients see the same faults. Raises `ValueError` for an empty set."""
    if isinstance(expected, TimedOut | Refused | NoAnswer):
        return every_probe("silence", rates, clients=clients)
    if isinstance(expected, AnyOf):
        if not expected.pods:
            raise ValueError("AnyOf needs at least one pod: if no pod may answer, use TIMED_OUT, REFUSED or NO_ANSWER")
        return every_probe("no-loss", rates, clients=clients)
    if isinstance(expected, EqualShares):
        return even_shares(len(expected.pods), rates)
    if not expected:
        raise ValueError("an empty set of endpoints is not a valid expectation: use TIMED_OUT, REFUSED or NO_ANSWER")
    return allowed_set(len(expected), rates, clients=clients)


def plans(expectation: Expectation, rates: Rates = DEFAULT_RATES) -> dict[str, SamplePlan]:
    """Return the sample plan of each client in a window. Clients are counted together if they would all see the same
    fault. Unexpected silence and refusals affect all clients with the same kind of expectation. Wrong answers are
    possible only for clients that may not reach all pods.
    """
    named = frozenset[str]().union(*map(pods_of, expectation.values()))
    narrow = {client: not named <= pods_of(expected) for client, expected in expectation.items()}
    alike = Counter((_kind(expected), narrow[client]) for client, expected in expectation.items())

    def clients(client: str) -> int:
        kind = _kind(expectation[client])
        return alike[kind, True] + (0 if narrow[client] else alike[kind, False])

    return {client: plan(expected, rates, clients=clients(client)) for client, expected in expectation.items()}


def _kind(expected: Expected) -> object:
    return AbstractSet if isinstance(expected, AbstractSet) else type(expected)


def is_wrong(observation: Observation, expected: Expected) -> bool:
    """Return whether this observation alone violates the expectation."""
    match observation:
        case Reached(pod):
            return pod not in pods_of(expected)
        case TimedOut() | Refused():
            return not isinstance(expected, NoAnswer) and observation != expected
        case Unknown():
            return False


def pods_of(expected: Expected) -> frozenset[str]:
    match expected:
        case TimedOut() | Refused() | NoAnswer():
            return frozenset()
        case AnyOf(pods) | EqualShares(pods):
            return pods
    return frozenset(expected)


def judge(expectation: Expectation, tallies: Mapping[str, Tally], planned: Mapping[str, SamplePlan]) -> Judgement:
    """Judge observations. A client is inconclusive if it has fewer observations than `planned` and none is wrong.
    Raises `ValueError` for observations of a client without an expectation.
    """
    if strangers := sorted(tallies.keys() - expectation.keys()):
        raise ValueError(f"there is no expectation for clients {', '.join(strangers)}")
    pods, clients = _clients(expectation, tallies, planned)
    found = {client.verdict for client in clients}
    order = (Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.PASSED)
    verdict = next((each for each in order if each in found), Verdict.INCONCLUSIVE)
    known = sum(client.known for client in clients)
    reasons = [reason for client in clients if client.verdict is verdict for reason in client.reasons(verdict)]
    if verdict is Verdict.PASSED:
        probes = f"all of {known} probes by {_many(len(clients), 'client')}"
        kinds = {type(each) for each in expectation.values()}
        seen = "" if kinds == {AnyOf} else ", and every endpoint was seen"
        message = f"{probes} had an allowed outcome{seen}"
    elif not reasons:
        message = "nothing was expected of anybody"
    else:
        message = reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")
    unmet = tuple(client.name for client in clients if client.verdict is not Verdict.PASSED)
    return Judgement(verdict, message, render(pods, [client.row() for client in clients]), unmet)


def grid(
    expectation: Expectation, tallies: Mapping[str, Tally], planned: Mapping[str, SamplePlan]
) -> tuple[list[str], list[GridRow]]:
    pods, clients = _clients(expectation, tallies, planned)
    return pods, [client.row() for client in clients]


def _clients(
    expectation: Expectation, tallies: Mapping[str, Tally], planned: Mapping[str, SamplePlan]
) -> "tuple[list[str], list[_Client]]":
    named = frozenset[str]().union(*map(pods_of, expectation.values()))
    pods = sorted(named.union(*(tally.pods for tally in tallies.values())))
    return pods, [
        _Client(name, expected, tallies.get(name, Tally()), planned[name], pods)
        for name, expected in expectation.items()
    ]


OFFENCES = (CellMark.WRONG, CellMark.UNEVEN, CellMark.UNSEEN)


class _Client:
    def __init__(self, name: str, expected: Expected, tally: Tally, planned: SamplePlan, pods: Sequence[str]) -> None:
        self.name = name
        self.expected = expected
        self.tally = tally
        self.known = tally.known
        self.needed = planned.samples
        self.allowed = pods_of(expected)
        self.bounds = 0, self.known  # of a pod's count; with enough observations, the bounds of an equal share
        if isinstance(expected, EqualShares) and self.known >= self.needed:
            self.bounds = share_bounds(self.known, len(self.allowed), planned.miss)
        self.cells = [*((pod, self._pod(pod)) for pod in pods), *self._others()]
        self.verdict = self._verdict([cell.mark for _, cell in self.cells])

    def _verdict(self, marks: Sequence[CellMark]) -> Verdict:
        if any(each in marks for each in OFFENCES):
            return Verdict.FAILED
        doubtful = CellMark.UNKNOWN in marks or CellMark.UNSURE in marks or self.known < self.needed
        return Verdict.INCONCLUSIVE if doubtful else Verdict.PASSED

    def row(self) -> GridRow:
        return GridRow(self.name, self._wanted(), dict(self.cells))

    def reasons(self, verdict: Verdict) -> list[str]:
        """Return the reasons for this verdict, one for each cell that causes it."""
        tally = self.tally
        if verdict is Verdict.FAILED:
            offences = [(column, cell) for column, cell in self.cells if cell.mark in OFFENCES]
            # A wrong answer is more informative than a missing answer.
            return [self._clause(*each) for each in sorted(offences, key=lambda each: each[1].mark is CellMark.UNSEEN)]
        found = [
            f"{self.name} could not tell {_many(count, 'time')}: {why}" for why, count in sorted(tally.unknown.items())
        ]
        if not found and self.known < self.needed:
            found = [f"{self.name} has {self.known} observations, and the stated error rates need {self.needed}"]
        return found

    def _pod(self, pod: str) -> GridCell:
        count = self.tally.pods[pod]
        if count and pod not in self.allowed:
            return GridCell(count, CellMark.WRONG)
        if count:
            fewest, most = self.bounds
            return GridCell(count, CellMark.RIGHT if fewest <= count <= most else CellMark.UNEVEN)
        if pod not in self.allowed or isinstance(self.expected, AnyOf):
            return GridCell(0, CellMark.NONE)
        # An unknown outcome may have come from this endpoint, and too few probes may miss it by chance.
        sure = not self.tally.unknown and self.known >= self.needed
        return GridCell(0, CellMark.UNSEEN if sure else CellMark.UNSURE)

    def _others(self) -> list[tuple[str, GridCell]]:
        def cell(count: int, wanted: bool) -> GridCell:
            return GridCell(count, CellMark.NONE if not count else CellMark.RIGHT if wanted else CellMark.WRONG)

        unknown = self.tally.unknown.total()
        return [
            ("timed out", cell(self.tally.timed_out, isinstance(self.expected, TimedOut | NoAnswer))),
            ("refused", cell(self.tally.refused, isinstance(self.expected, Refused | NoAnswer))),
            ("unknown", GridCell(unknown, CellMark.UNKNOWN if unknown else CellMark.NONE)),
        ]

    def _wanted(self) -> str:
        match self.expected:
            case TimedOut():
                return "silence"
            case Refused():
                return "refusal"
            case NoAnswer():
                return "no answer"
            case AnyOf():
                return "any of " + ", ".join(sorted(self.allowed))
            case EqualShares():
                return "equally often " + ", ".join(sorted(self.allowed))
        return ", ".join(sorted(self.allowed))

    def _clause(self, column: str, cell: GridCell) -> str:
        if cell.mark is CellMark.UNSEEN:
            return f"{self.name} never reached {column} in {self.tally.known} probes, and must reach {self._wanted()}"
        if cell.mark is CellMark.UNEVEN:
            times = f"{cell.count} times in {self.tally.known} probes"
            return f"{self.name} reached {column} {times}, where an equal share is {self.bounds[0]} to {self.bounds[1]}"
        refused = f"was refused{f' ({how})' if (how := ', '.join(sorted(self.tally.refused_by))) else ''}"
        happened = {"timed out": "got no answer", "refused": refused}.get(column, f"reached {column}")
        probes = f"{cell.count} of {self.tally.known} probes"
        return f"{self.name} {happened} in {probes}, where {self._wanted()} is expected"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
