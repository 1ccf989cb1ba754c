"""Expectations about concurrent traffic to many addresses. A check waits once, and then judges each address."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.backends.protocols import Probing
from harness.judging import verdict
from harness.judging.conclusion import raise_for
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.verdict import AnyOf, Judgement, Verdict
from harness.model.evidence_text import paragraphs
from harness.model.manifests import Port
from harness.model.outcomes import Reached, Unknown
from harness.scenario.cluster import Cluster
from harness.scenario.measuring import (
    MANY_IN_FLIGHT,
    Observed,
    expect_first_answers,
    expect_in_time,
    left,
    probe_all,
    require_earlier_answer,
    wait_until_as_expected,
)
from harness.scenario.paths import PacketPath
from harness.scenario.service import AddressKind, Service
from harness.scenario.service_address import ClientRef, Expected, named, service_address

RATE = 250  # probes per second during changes, from all clients in turn


@dataclass(frozen=True, slots=True)
class ExpectedTraffic:
    """A Service address, and the pods that must answer each client. If `kept`, each client must keep reaching one pod.

    The defaults are a random kind of address, the first IP family and the first port of the Service.
    """

    name: str
    service: Service
    expected: Mapping[ClientRef, Expected]
    to: AddressKind | None = None
    kept: bool = False
    family: str | None = None
    port: Port | None = None


def expect_concurrent_traffic(
    cluster: Cluster,
    questions: Sequence[ExpectedTraffic],
    *,
    rates: Rates = DEFAULT_RATES,
    explain: Callable[[str], str] = lambda _: "",
    timed: bool = True,
) -> None:
    """Expect the clients of each `ExpectedTraffic` to reach its pods, as `expect_traffic` does for one address.

    `explain` gets the name of a failed `ExpectedTraffic`, and returns details for the message. If `timed`, the traffic
    must be correct within the time limit that the implementation claims. Raises `AssertionError` with the names and
    outcomes of failed checks, `InconclusiveError`, or `UsageError` if no answer is expected from a Service that has
    never answered.
    """
    paths = {each.name: _paths(cluster, each) for each in questions}
    for each in questions:
        require_earlier_answer(cluster, each.service, paths[each.name])
    waited = wait_until_as_expected(cluster, [path for some in paths.values() for path in some], "all answers")
    paths = _keeping(cluster, paths)
    unmet = {
        name: each for name, each in _measure(cluster, paths, rates, waited.seen) if each.verdict is not Verdict.PASSED
    }
    if unmet:
        first, *more = [f"{name}: {each.message}\n\n{each.grid}\n\n{explain(name)}" for name, each in unmet.items()]
        count = f"{len(unmet)} of {len(questions)} addresses have unexpected traffic: {'; '.join(unmet)}"
        raise_for(next(iter(unmet.values())), paragraphs(first, count, *more, waited.text))
    cluster.record.answered.update(each.service.name for each in questions)
    if timed:
        expect_in_time(cluster, f"traffic of {'; '.join(paths)}", waited)


def expect_concurrent_first_answers(cluster: Cluster, questions: Sequence[ExpectedTraffic]) -> None:
    """Check the outcomes of a few probes per client, without a measuring window. Raises `AssertionError`."""
    paths: list[PacketPath] = []
    for each in questions:
        paths += (some := _paths(cluster, each))
        require_earlier_answer(cluster, each.service, some)
    expect_first_answers(cluster, paths, "first answer", "all first answers")
    cluster.record.answered.update(each.service.name for each in questions)


@contextlib.contextmanager
def expect_traffic_during(
    cluster: Cluster,
    questions: Sequence[ExpectedTraffic],
    *,
    answered: Sequence[ExpectedTraffic] = (),
    explain: Callable[[str], str] = lambda _: "",
) -> Iterator[None]:
    """Require that only the expected pods answer the clients of each `ExpectedTraffic` during the block.

    Clients send probes at a steady rate. Each probe to an address in `answered` must get an answer. Probes to
    addresses in `questions` may also get no answer or a refusal. `explain` returns details for a failure.
    Raises `AssertionError` and `InconclusiveError`, unless the block itself raises an exception.
    """
    asked = [(each.name, path) for each in (*questions, *answered) for path in _paths(cluster, each)]
    may_lose = sum(len(each.expected) for each in questions)
    if not asked:
        yield
        return
    recording = cluster.backend.part(Probing).record(len(asked) / RATE, [path.probes(1)[0] for _, path in asked])
    try:
        yield
    finally:
        samples = recording.stop()
    wrong: Counter[str] = Counter()
    unmet: dict[str, None] = {}
    unknown = ""
    for each in samples:
        (name, path), seen = asked[each.probe], named(cluster, each.observation)
        if isinstance(seen, Reached):
            happened = f"reached {seen.pod}" if verdict.is_wrong(seen, path.expected) else ""
        else:
            happened = type(seen).__name__ if each.probe >= may_lose else ""
        if isinstance(seen, Unknown) and happened:
            unknown = unknown or f"{path.label}: {seen.why}"
        elif happened:
            wrong[f"{path.label} {happened}"] += 1
            unmet[name] = None
    cluster.expect_equal(
        "outcomes that are wrong before, during and after a change",
        expected={},
        observed=dict(wrong),
        explanation=paragraphs(*(explain(name) for name in unmet)),
        unknown="" if wrong else unknown,
    )


def _paths(cluster: Cluster, question: ExpectedTraffic) -> list[PacketPath]:
    target = service_address(cluster, question.service, to=question.to, family=question.family, port=question.port)
    paths = [replace(each, label=f"{each.label} in {question.name}") for each in target.paths(question.expected)]
    return [
        replace(each, expected=AnyOf(each.expected)) if question.kept and isinstance(each.expected, frozenset) else each
        for each in paths
    ]


def _keeping(cluster: Cluster, paths: Mapping[str, Sequence[PacketPath]]) -> dict[str, list[PacketPath]]:
    """Return the paths, with each `AnyOf` replaced by the pod that answers now, which must keep answering."""
    seen = probe_all(cluster, {path: 1 for some in paths.values() for path in some if isinstance(path.expected, AnyOf)})

    def kept(path: PacketPath) -> PacketPath:
        if not isinstance(path.expected, AnyOf):
            return path
        answered = frozenset(each.pod for each in seen[path] if isinstance(each, Reached))
        return replace(path, expected=answered & path.expected.pods or path.expected.pods)

    return {name: [kept(path) for path in some] for name, some in paths.items()}


def _measure(
    cluster: Cluster, paths: Mapping[str, Sequence[PacketPath]], rates: Rates, before: Observed
) -> Iterator[tuple[str, Judgement]]:
    windows = {name: cluster.window(name, some, rates) for name, some in paths.items()}
    asked = [(windows[name], path) for name, some in paths.items() for path in some]
    counts = {path: left(window, path, before) for window, path in asked}
    seen = probe_all(cluster, counts, in_flight=MANY_IN_FLIGHT)
    for window, path in asked:
        window.observe(path.label, [*before.get(path, ()), *seen[path]])
    for name in sorted(windows, key=lambda name: windows[name].judgement().verdict is Verdict.FAILED, reverse=True):
        yield name, windows[name].judge()
