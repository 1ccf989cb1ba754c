"""Many questions about traffic in one measuring window: each is judged on its own, and they share their waiting.

A scenario asks hundreds of paths so in the time of one. A question that fails says so by its name, beside the others.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.backends.protocols import Probing
from harness.judging import verdict
from harness.judging.conclusion import raise_for
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.verdict import AnyOf, Judgement, Verdict
from harness.model.manifests import Port
from harness.model.outcomes import Observation, Reached, Unknown
from harness.model.texts import paragraphs
from harness.scenario.cluster import Cluster
from harness.scenario.paths import Path, Who, named, target_of
from harness.scenario.service import AddressKind, Service
from harness.scenario.traffic import (
    MANY_IN_FLIGHT,
    Expected,
    Observed,
    as_probes_see_it,
    expect_in_time,
    insist_on_speech,
    left,
    paths_to,
    probe_all,
    wait_until_as_expected,
)

RATE = 250  # questions a second during changes, by all clients in turn


@dataclass(frozen=True, slots=True)
class Question:
    """What clients see at one address of a Service; `kept` if each keeps one of the pods that it is to see.

    The family and the port are by default the first ones of the Service.
    """

    name: str
    service: Service
    expected: Mapping[Who, Expected]
    to: AddressKind = "cluster-ip"
    kept: bool = False
    family: str | None = None
    port: Port | None = None


def expect_together(
    cluster: Cluster,
    questions: Sequence[Question],
    *,
    rates: Rates = DEFAULT_RATES,
    explain: Callable[[str], str] = lambda _: "",
    timed: bool = True,
) -> None:
    """Expect the traffic of each question, as `expect_traffic` does.

    `explain` is called with the names of those that fail, and only then. `timed` says whether it must be so in the time
    that the implementation declares.

    Raises `AssertionError` with the names of those that fail, each with its grid; `InconclusiveError`; `UsageError` for
    a Service that is expected to be silent and has not answered yet.
    """
    paths = {each.name: _paths(cluster, each) for each in questions}
    for each in questions:
        insist_on_speech(cluster, each.service, paths[each.name])
    waited = wait_until_as_expected(cluster, [path for some in paths.values() for path in some], "all answers")
    paths = _keeping(cluster, paths)
    unmet = {
        name: each for name, each in _measure(cluster, paths, rates, waited.seen) if each.verdict is not Verdict.PASSED
    }
    if unmet:
        texts = [f"{name}: {each.message}\n\n{each.grid}\n\n{explain(name)}" for name, each in unmet.items()]
        told = f"{len(unmet)} of {len(questions)} are not as expected: {'; '.join(unmet)}"
        raise_for(next(iter(unmet.values())), paragraphs(texts[0], told, *texts[1:], waited.text))
    cluster.answered.update(each.service.name for each in questions)
    if timed:
        expect_in_time(cluster, f"traffic of {'; '.join(paths)}", waited)


def expect_first_answers_together(cluster: Cluster, questions: Sequence[Question]) -> None:
    """Wait until a few probes of each client have the expected answers, and open no window. Raises `AssertionError`."""
    paths = [(each, _paths(cluster, each)) for each in questions]
    for each, some in paths:
        insist_on_speech(cluster, each.service, some)
    asked = [path for _, some in paths for path in some]
    waited = as_probes_see_it(cluster, wait_until_as_expected(cluster, asked, "all first answers"))
    cluster.expect_equal(
        "wrong first answer",
        expected="none",
        observed=waited.wrong or "none",
        explanation=waited.text,
        unknown=waited.unknown,
    )
    cluster.answered.update(each.service.name for each in questions)


@contextlib.contextmanager
def expect_meanwhile(
    cluster: Cluster,
    questions: Sequence[Question],
    *,
    answered: Sequence[Question] = (),
    explain: Callable[[str], str] = lambda _: "",
) -> Iterator[None]:
    """Expect that nobody but the expected pods answers the clients of these questions at any time of the block.

    Clients ask at a steady rate. Silence and refusals count only for those of `answered`, who must get an answer each
    time. What the block itself raises goes on; else raises `AssertionError`, and `InconclusiveError` when it cannot be
    told. `explain` is called with the names of questions that fail, and only then.
    """
    asked = [(each.name, path) for each in (*questions, *answered) for path in _paths(cluster, each)]
    may_lose = sum(len(each.expected) for each in questions)
    paths = [path for _, path in asked]
    if not paths:
        yield
        return
    recording = cluster.backend.part(Probing).record(len(paths) / RATE, [path.probes(1)[0] for path in paths])
    try:
        yield
    finally:
        samples = recording.stop()
    odd: Counter[str] = Counter()
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
            odd[f"{path.label} {happened}"] += 1
            unmet[name] = None
    cluster.expect_equal(
        "what clients saw that they should see neither before, during nor after a change",
        expected={},
        observed=dict(odd),
        explanation=paragraphs(*(explain(name) for name in unmet)),
        unknown="" if odd else unknown,
    )


def _paths(cluster: Cluster, question: Question) -> list[Path]:
    target = target_of(cluster, question.service, to=question.to, family=question.family, port=question.port)
    paths = [replace(each, label=f"{each.label} in {question.name}") for each in paths_to(target, question.expected)]
    if not question.kept:
        return paths
    return [
        replace(each, expected=AnyOf(each.expected)) if isinstance(each.expected, frozenset) else each for each in paths
    ]


def _keeping(cluster: Cluster, paths: Mapping[str, Sequence[Path]]) -> dict[str, list[Path]]:
    """Return the paths; one that may see any of some pods expects the one that now answers, if it is one of them."""
    seen = probe_all(cluster, {path: 1 for some in paths.values() for path in some if isinstance(path.expected, AnyOf)})
    return {
        name: [replace(path, expected=_kept(path, seen.get(path, []))) for path in some] for name, some in paths.items()
    }


def _kept(path: Path, seen: Sequence[Observation]) -> verdict.Expected:
    if not isinstance(path.expected, AnyOf):
        return path.expected
    answered = frozenset(each.pod for each in seen if isinstance(each, Reached))
    return answered & path.expected.pods or path.expected.pods


def _measure(
    cluster: Cluster, paths: Mapping[str, Sequence[Path]], rates: Rates, before: Observed
) -> Iterator[tuple[str, Judgement]]:
    """Send all probes at once. Yields the judgement of each question, failed ones first: the first one decides."""
    windows = {name: cluster.window(name, some, rates) for name, some in paths.items()}
    asked = [(windows[name], path) for name, some in paths.items() for path in some]
    counts = {path: left(window, path, before) for window, path in asked}
    seen = probe_all(cluster, counts, in_flight=MANY_IN_FLIGHT)
    for window, path in asked:
        window.observe(path.label, [*before.get(path, ()), *seen[path]])
    for name in sorted(windows, key=lambda name: windows[name].judgement().verdict is Verdict.FAILED, reverse=True):
        yield name, windows[name].judge()
