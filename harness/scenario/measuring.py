"""Send probes along paths, wait for the expected outcomes, and then measure and judge the traffic.

A check first polls until the clients get the expected outcomes, because changes take time. Then the measuring window
opens, in which every observation counts. The second round of polling also counts, unless it had to be repeated.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from harness.backends.protocols import DetectsIdleProxies, Probing
from harness.errors import UsageError
from harness.eventually import NotYetError, eventually, time_scale
from harness.judging import verdict
from harness.judging.conclusion import raise_for
from harness.judging.history import Window
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.timeline import TimedObservation
from harness.judging.verdict import Judgement, Verdict
from harness.model.evidence_text import paragraphs
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Refused, TimedOut, Unknown
from harness.run_delay import RUN_DELAY
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import delayed, limit, patience
from harness.scenario.paths import PacketPath
from harness.scenario.service import Service
from harness.scenario.service_address import named
from harness.scenario.steps import step

IN_FLIGHT = 32  # maximum number of unanswered probes if answers are expected
MANY_IN_FLIGHT = 256  # maximum number of unanswered probes for load tests and very many probes
FIRST_ROUND = 4  # probes per client in a round of polling
SECOND_ROUND = 28  # probes per client after a first round as expected, which may have missed unexpected endpoints
FEW = 4  # if no more pods are expected than this, a second round must reach all of them
OUTCOMES = {TimedOut: "got no answer", Refused: "was refused", Unknown: "got an inconclusive answer"}


def said(observation: Observation) -> str:
    """Return the outcome of a probe in words: "reached a1", "got no answer"."""
    return f"reached {observation.pod}" if isinstance(observation, Reached) else OUTCOMES[type(observation)]


def require_earlier_answer(cluster: Cluster, service: Service, paths: Sequence[PacketPath]) -> None:
    """Raise `UsageError` if no answer is expected from a Service that has never answered."""
    if service.name not in cluster.record.answered and not any(path.speaks for path in paths):
        raise UsageError(
            f"service {service.name} has not answered yet, so a missing answer proves nothing: expect an answer first"
        )


def expect_first_answers(cluster: Cluster, paths: Sequence[PacketPath], what: str, awaited: str) -> None:
    """Wait for the expected answers to a few probes of each client. Raises `AssertionError`."""
    waited = _judged_by_full_probes(cluster, wait_until_as_expected(cluster, paths, awaited))
    cluster.expect_equal(
        f"wrong {what}",
        expected="none",
        observed=waited.wrong or "none",
        explanation=waited.text,
        unknown=waited.unknown,
    )


Observed = Mapping[PacketPath, Sequence[Observation]]  # observations of each path


@dataclass(frozen=True, slots=True)
class WaitResult:
    """The result of a wait. If the last round was wrong, `wrong` is its first mismatch, and `text` the full message.

    - `unknown`: why the mismatch may not be a fault, or "" if the mismatch certainly is a fault.
    - `wrong_until`: seconds from `begin` (monotonic) to the start of the last wrong round, or until all components had
      settled if this was later. The implementation needed at least this long.
    - `seen`: the observations of the second round, or {} if it had to be repeated. They count in the window, so a
      faulty proxy has two chances to pass (`Rates.chances`).
    - `silent`: the path of the mismatch, if the mismatch is a probe of the first round that got no answer.
    """

    wrong: str = ""
    text: str = ""
    wrong_until: float = 0.0
    begin: float = 0.0
    seen: Observed = field(default_factory=dict)
    unknown: str = ""
    silent: PacketPath | None = None


PROMISED = " became as expected within "


def expect_in_time(cluster: Cluster, what: str, waited: WaitResult) -> None:
    """Expect that a wait took no longer than the limit that the implementation claims. Raises `AssertionError`."""
    if cluster.converges_within:
        in_time = waited.wrong_until <= cluster.converges_within * time_scale()
        said = f"{what}{PROMISED}{limit(cluster)}"
        late = f"Before the window: {waited.text}" if waited.text else f"it was wrong for {waited.wrong_until:.3f} s"
        doubt = delayed(waited.begin, waited.begin + waited.wrong_until, cluster.converges_within)
        cluster.expect_equal(said, expected=True, observed=in_time, explanation=late, unknown=doubt)


@dataclass(frozen=True, slots=True)
class _Mismatch:
    """A difference from the expectation. If `known` is false, the observation is inconclusive."""

    text: str
    known: bool = True
    silent: PacketPath | None = None


@step("wait for {awaited}")
def wait_until_as_expected(cluster: Cluster, paths: Sequence[PacketPath], awaited: str) -> WaitResult:
    """Wait until all components have settled and a few probes along each path have the expected outcome."""
    begin = time.monotonic()
    with RUN_DELAY.watched():
        busy = cluster.settle()
        waited = wait_for_packets(cluster, paths, awaited, begin=begin, within=patience(cluster))
    if not waited.wrong:
        cluster.took(awaited, time.monotonic() - begin)
    return replace(waited, wrong_until=max(waited.wrong_until, busy))


def wait_for_packets(
    cluster: Cluster, paths: Sequence[PacketPath], awaited: str, *, begin: float, within: float | None
) -> WaitResult:
    """Wait for the expected outcomes of probes, but not for components to settle."""
    wrong_until = 0.0
    sees_idle = cluster.backend.find(DetectsIdleProxies)
    mismatch, stop_reason = _Mismatch(""), sees_idle.watch_idle() if sees_idle else str
    speaking = [path for path in paths if not path.silent]
    second_rounds: list[Observed | _Mismatch] = []

    def as_expected() -> bool:
        nonlocal mismatch, wrong_until
        looked_at = time.monotonic()
        first = _first_round(cluster, paths)
        if first is None:
            second_rounds.append(_second_round(cluster, speaking))
            if not isinstance(second_rounds[-1], _Mismatch):
                return True
            first = second_rounds[-1]
        mismatch = first
        wrong_until = looked_at - begin if mismatch.known else wrong_until
        raise NotYetError(mismatch.text)

    try:
        eventually(as_expected, within=within, every=0.02, describe=awaited, stop_reason=stop_reason)
    except NotYetError as error:
        unknown = "" if mismatch.known else mismatch.text
        return WaitResult(mismatch.text, str(error), wrong_until, begin, unknown=unknown, silent=mismatch.silent)
    only = second_rounds[0]
    return WaitResult(wrong_until=wrong_until, begin=begin, seen={} if isinstance(only, _Mismatch) else only)


def _judged_by_full_probes(cluster: Cluster, waited: WaitResult) -> WaitResult:
    """Repeat unanswered probes with the full time limit, because quick probes miss answers on a busy machine."""
    path = waited.silent
    if path is None:
        return waited
    (seen,) = probe_all(cluster, {path: FIRST_ROUND}).values()
    mismatch = next(_wrong((path, each) for each in seen), None)
    if mismatch is None:
        return replace(waited, unknown=f"{waited.wrong}, but a probe with the full time limit got an answer")
    return replace(waited, wrong=mismatch.text, unknown="" if mismatch.known else mismatch.text)


@step("probe {title}")
def measure(
    cluster: Cluster,
    title: str,
    paths: Sequence[PacketPath],
    *,
    seen: Observed | None = None,
    at_least: int = 0,
    rates: Rates = DEFAULT_RATES,
    in_flight: int = IN_FLIGHT,
    explain: Callable[[Sequence[str]], str] = lambda _: "",
) -> Window:
    """Open a measuring window, send the planned number of probes along each path, and judge the observations.

    The window begins with the observations in `seen`. `explain` returns details on the clients that failed.
    """
    opens = TimedObservation(time.monotonic(), "the measuring window opens: from now on every observation counts")
    window = cluster.window(title, paths, rates)
    for path, observations in (seen or {}).items():
        window.observe(path.label, observations)
    samples = {path: left(window, path, seen or {}, at_least) for path in paths}
    first = {path: count if path.silent else min(count, IN_FLIGHT) for path, count in samples.items()}
    failed = _observe(cluster, window, first, in_flight)
    rest = {path: samples[path] - first[path] for path in samples if path not in failed}
    _observe(cluster, window, {path: count for path, count in rest.items() if count}, in_flight)
    judgement = window.judge()
    raise_unless_passed(judgement, title, lambda: paragraphs(explain(judgement.unmet), cluster.timeline([opens])))
    return window


def raise_unless_passed(judgement: Judgement, title: str, explain: Callable[[], str]) -> None:
    """Raise `UnmetError` or `InconclusiveJudgementError`, with the grid and details, if a judgement did not pass."""
    if judgement.verdict is not Verdict.PASSED:
        raise_for(judgement, f"{judgement.message}\n\n{title}:\n\n{judgement.grid}\n\n{explain()}".rstrip())


def left(window: Window, path: PacketPath, seen: Observed, at_least: int = 0) -> int:
    """Return how many more probes the plan of a path requires."""
    return max(0, max(window.plans[path.label].samples, at_least) - len(seen.get(path, ())))


def _first_round(cluster: Cluster, paths: Sequence[PacketPath]) -> _Mismatch | None:
    probes = [(path, probe) for path in paths for probe in path.probes(FIRST_ROUND)]
    seen = cluster.backend.part(Probing).glance([probe for _, probe in probes])
    for (path, _), each in zip(probes, seen, strict=True):
        for mismatch in _wrong([(path, named(cluster, each))]):
            return replace(mismatch, silent=path if each == TIMED_OUT else None)
    return None


def _second_round(cluster: Cluster, paths: Sequence[PacketPath]) -> _Mismatch | Observed:
    seen = probe_all(cluster, dict.fromkeys(paths, SECOND_ROUND), MANY_IN_FLIGHT)
    for mismatch in _wrong((path, each) for path, some in seen.items() for each in some):
        return mismatch
    for path, some in seen.items():
        pods = {each.pod for each in some if isinstance(each, Reached)}
        if isinstance(path.expected, AbstractSet) and len(pods) < len(path.expected) <= FEW:
            return _Mismatch(f"{path.label} reached {len(pods)} of {len(path.expected)} pods in {len(some)} probes")
    return seen


def _wrong(seen: Iterable[tuple[PacketPath, Observation]]) -> Iterator[_Mismatch]:
    for path, each in seen:
        if isinstance(each, Unknown):
            yield _Mismatch(f"{path.label} is inconclusive: {each.why}", known=False)
        elif verdict.is_wrong(each, path.expected):
            yield _Mismatch(f"{path.label} {said(each)}")


def _observe(cluster: Cluster, window: Window, counts: Mapping[PacketPath, int], in_flight: int) -> set[PacketPath]:
    """Send probes and count outcomes. Return the paths that have failed already, because an answer is missing."""
    seen = probe_all(cluster, counts, in_flight)
    for path, observations in seen.items():
        window.observe(path.label, observations)
    return {path for path, observations in seen.items() if not path.silent and TIMED_OUT in observations}


def probe_all(
    cluster: Cluster, counts: Mapping[PacketPath, int], in_flight: int = IN_FLIGHT
) -> dict[PacketPath, list[Observation]]:
    """Send `counts[path]` probes along each path. Probes that expect no answer are all sent concurrently."""
    seen: dict[PacketPath, list[Observation]] = {path: [] for path in counts}
    for silent in (False, True):
        chosen = {path: count for path, count in counts.items() if count and path.silent is silent}
        if not chosen:
            continue
        probes = [probe for path, count in chosen.items() for probe in path.probes(count)]
        observations = iter(cluster.backend.part(Probing).probe(probes, in_flight=len(probes) if silent else in_flight))
        for path, count in chosen.items():
            seen[path] = [named(cluster, next(observations)) for _ in range(count)]
    return seen
