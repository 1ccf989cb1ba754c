"""Expectations about traffic: real connections from each client, judged by a literal table.

A check has two parts. First it polls until the clients see the expected answers, since a change takes its time to
arrive; then the measuring window opens, and from there on every single observation counts. A look that is right the
first time is the window's beginning. Sample sizes come from stated error rates. A scenario that expects silence must
see the Service answer first: the silence of a Service that never worked proves nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from harness.backends.backend import OpenConnection
from harness.backends.protocols import Connections, Probing, SeesRest
from harness.errors import UsageError
from harness.eventually import NotYetError, eventually, time_scale
from harness.judging import verdict
from harness.judging.conclusion import raise_for
from harness.judging.history import Window
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.timeline import Seen
from harness.judging.verdict import NO_ANSWER, Judgement, NoAnswer, Verdict
from harness.model.abilities import Ability
from harness.model.manifests import Port
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Refused, TimedOut, Unknown
from harness.model.texts import paragraphs
from harness.model.workloads import Client, Pod
from harness.probes.loop import Probe
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import come_to, limit, patience
from harness.scenario.paths import Path, Target, Who, first_family, named, names, target_of
from harness.scenario.service import AddressKind, Service
from harness.scenario.steps import step

__all__ = [
    "NO_ANSWER",
    "Traffic",
    "expect_client_address",
    "expect_flow_answered",
    "expect_flow_moves",
    "expect_flow_survives",
    "expect_prompt_change",
    "expect_traffic",
]

Expected = AbstractSet[Pod] | TimedOut | Refused | NoAnswer
Traffic = Mapping[Who, Expected]

IN_FLIGHT = 32  # probes at once, if answers are expected
MANY_IN_FLIGHT = 256  # probes at once, for load, or if very many are needed
FIRST_LOOK = 4  # probes of each client in a round of polling
SECOND_LOOK = 28  # once those are right: what was before may be more than what is to be, and be missed by few probes
FEW = 4  # pods that a second look sees all of


def expect_traffic(
    cluster: Cluster,
    service: Service,
    expected: Traffic,
    *,
    to: AddressKind = "cluster-ip",
    family: str | None = None,
    port: Port | None = None,
    via: str | None = None,
    rates: Rates = DEFAULT_RATES,
) -> None:
    """Expect each client to reach just these pods (all of them, and no other), or to get silence or a refusal.

    A client is a node's name (a pod on that node), a `Client`, or a `Pod` of the scenario. `to` is the kind of
    address; node ports and load balancer addresses are those of the client's own node, or of node `via`. `rates` say
    how small a fault must be seen, and the probability to miss it.
    Raises `AssertionError` with the grid, and `InconclusiveError` when it cannot be told.
    """
    target = target_of(cluster, service, to=to, family=family, port=port, via=via)
    paths = paths_to(target, expected)
    if any(isinstance(path.expected, Refused) for path in paths):
        cluster.backend.need(Ability.EVERY_REFUSAL)
    insist_on_speech(cluster, service, paths)
    waited = wait_until_as_expected(cluster, paths, "traffic as expected")
    late = f"Before the window: {waited.text}\n\n" if waited.text else ""
    measure(
        cluster,
        str(target),
        paths,
        seen=waited.seen,
        rates=rates,
        explain=lambda unmet: late + _why(cluster, service, [path for path in paths if path.label in unmet]),
    )
    cluster.answered.add(service.name)
    expect_in_time(cluster, f"traffic of service {service.name}", waited)


def expect_prompt_change(cluster: Cluster, service: Service, expected: Traffic, *, seconds: float) -> None:
    """A few probes along each path come to see what is expected, within so many seconds before the time scale.

    That is waited for up to `FAR` whatever was declared, and no window is opened. Raises `AssertionError`.
    """
    target = target_of(cluster, service)
    begin = time.monotonic()
    waited = _wait_for_packets(cluster, paths_to(target, expected), f"traffic by {target}", begin=begin, within=None)
    cluster.expect_within(
        f"seconds for which traffic of service {service.name} was not as expected",
        0,
        seconds * time_scale(),
        observed=round(waited.wrong_until, 3),
        explanation=waited.text,
    )


def paths_to(target: Target, expected: Traffic) -> list[Path]:
    """Return the path of each client, with what is expected of it."""
    return [target.path(who, names(what) if isinstance(what, AbstractSet) else what) for who, what in expected.items()]


def expect_client_address(
    cluster: Cluster, service: Service, client: Client, *, to: AddressKind = "cluster-ip", family: str | None = None
) -> None:
    """Expect the server to see the client's own address. Raises `AssertionError`."""
    cluster.settle()
    family = family or first_family(service)
    wanted = cluster.backend.part(Probing, client=client).client_address(client, family)
    path = target_of(cluster, service, to=to, family=family).path(client, frozenset())
    observations = cluster.backend.part(Probing).addresses_seen(path.probes(FIRST_LOOK))
    seen = [each.client_address if isinstance(each, Reached) else type(each).__name__ for each in observations]
    unknown = next((each.why for each in observations if isinstance(each, Unknown)), "")
    what = f"address of {path.label} as the server sees it"
    cluster.expect_equal(what, expected=[wanted] * len(seen), observed=seen, unknown=unknown)


@contextlib.contextmanager
def expect_flow_survives(cluster: Cluster, service: Service, client: Who, pod: Pod, **address: Any) -> Iterator[None]:
    """Expect a connection from before the block to reach the same pod after it. Raises `AssertionError`.

    `address` are arguments of `expect_traffic`.
    """
    with _flow(cluster, service, client, address) as flow:
        _assert_pod(cluster, flow.opened, pod, f"the connection of {client} was made to")
        yield
        cluster.settle()
        _assert_pod(cluster, flow.ask(), pod, f"the open connection of {client} now talks to")


@contextlib.contextmanager
def expect_flow_moves(
    cluster: Cluster, service: Service, client: Who, *, before: Pod, after: Pod, **address: Any
) -> Iterator[None]:
    """Expect answers to a UDP flow with one source port from `before`, and after the block from `after`.

    `address` are arguments of `expect_traffic`.
    """
    with _flow(cluster, service, client, address) as flow:
        _assert_pod(cluster, flow.opened, before, f"the flow of {client} began with")
        yield
        _assert_comes_to(cluster, flow, client, {after})


@contextlib.contextmanager
def expect_flow_answered(
    cluster: Cluster, service: Service, client: Who, pods: AbstractSet[Pod], **address: Any
) -> Iterator[None]:
    """Expect answers to a UDP flow with one source port from one of these pods, after the block before which it begins.

    Whether anybody answers before is left open. `address` are arguments of `expect_traffic`.
    """
    cluster.settle()
    with contextlib.closing(
        cluster.backend.part(Connections).connect(_probe_of(cluster, service, client, address))
    ) as flow:
        yield
        _assert_comes_to(cluster, flow, client, pods)


def _assert_comes_to(cluster: Cluster, flow: OpenConnection, client: Who, pods: AbstractSet[Pod]) -> None:
    """Expect a flow to be answered by one of these pods, when all components have settled."""
    cluster.settle()
    by_name = {pod.name: pod for pod in pods}
    answer = come_to(
        cluster,
        f"the flow of {client} to reach {' or '.join(sorted(by_name))}",
        lambda: named(cluster, flow.ask()),
        lambda seen: isinstance(seen, Reached) and seen.pod in by_name,
        every=0.02,
    )
    found = by_name.get(answer.pod) if isinstance(answer, Reached) else None
    _assert_pod(cluster, answer, found or by_name[min(by_name)], f"the flow of {client} is answered by")


@contextlib.contextmanager
def _flow(cluster: Cluster, service: Service, client: Who, address: Mapping[str, Any]) -> Iterator[OpenConnection]:
    cluster.settle()
    probe = _probe_of(cluster, service, client, address)

    def opened() -> OpenConnection:
        stream = cluster.backend.part(Connections).connect(probe)
        if not isinstance(stream.opened, Reached):
            stream.close()
        return stream

    what = f"connection of {client} to {service.name}"
    stream = come_to(cluster, what, opened, lambda stream: isinstance(stream.opened, Reached), every=0.02)
    unknown = stream.opened.why if isinstance(stream.opened, Unknown) else ""
    cluster.expect_equal(what, expected="Reached", observed=type(stream.opened).__name__, unknown=unknown)
    try:
        yield stream
    finally:
        stream.close()


def _probe_of(cluster: Cluster, service: Service, client: Who, address: Mapping[str, Any]) -> Probe:
    return target_of(cluster, service, **address).path(client, frozenset()).probes(1)[0]


def _assert_pod(cluster: Cluster, observation: Observation, pod: Pod, what: str) -> None:
    seen = named(cluster, observation)
    name = seen.pod if isinstance(seen, Reached) else type(seen).__name__
    unknown = seen.why if isinstance(seen, Unknown) else ""
    cluster.expect_equal(what, expected=pod.name, observed=name, unknown=unknown)


def insist_on_speech(cluster: Cluster, service: Service, paths: Sequence[Path]) -> None:
    """Raise `UsageError` for a Service whose silence would prove nothing: it is not to answer, and never has."""
    if service.name not in cluster.answered and not any(path.speaks for path in paths):
        raise UsageError(
            f"service {service.name} has not answered yet, so its silence proves nothing: expect an answer first"
        )


def _why(cluster: Cluster, service: Service, unmet: Sequence[Path]) -> str:
    """Return the explanations of the proxies on the nodes of these paths."""
    return cluster.explain(service, list(dict.fromkeys(path.node for path in unmet)))


def expect_first_answers(cluster: Cluster, paths: Sequence[Path], target: Target) -> None:
    """Wait for the expected answers to a few probes of each client. Raises `AssertionError`."""
    waited = as_probes_see_it(cluster, wait_until_as_expected(cluster, paths, f"an answer by {target}"))
    cluster.expect_equal(
        f"wrong answer by {target}",
        expected="none",
        observed=waited.wrong or "none",
        explanation=waited.text,
        unknown=waited.unknown,
    )


Observed = Mapping[Path, Sequence[Observation]]
"""What was seen along each path."""


@dataclass(frozen=True, slots=True)
class Waited:
    """The end of a wait: what was wrong in the last look and a text about it, "" twice if all was as expected.

    `unknown` is the same as `wrong` where the last look could not tell.

    `wrong_until` are the seconds from the beginning to the start of the last look that saw something wrong, or to the
    last time that components had work left. So much the implementation took at least; how long a look takes is the
    observer's matter.

    `seen` are the observations of the second look, if it was right the first time: they count in the window. A proxy
    with a fault gets so two chances to pass, and not more (`Rates.chances`).

    `silent` is the path that had no answer at the last glance, if that is what was wrong.
    """

    wrong: str = ""
    text: str = ""
    wrong_until: float = 0.0
    seen: Observed = field(default_factory=dict)
    unknown: str = ""
    silent: Path | None = None


def expect_in_time(cluster: Cluster, what: str, waited: Waited) -> None:
    """Expect a wait that ended well to have ended in the time that was declared, if any. Raises `AssertionError`."""
    if cluster.converges_within:
        in_time = waited.wrong_until <= cluster.converges_within * time_scale()
        said = f"{what} became as expected within {limit(cluster)}"
        late = f"Before the window: {waited.text}" if waited.text else f"it was wrong for {waited.wrong_until:.3f} s"
        cluster.expect_equal(said, expected=True, observed=in_time, explanation=late)


@dataclass(frozen=True, slots=True)
class _Sight:
    """Something that is not as expected; with `told` false, something that could not be told."""

    text: str
    told: bool = True
    silent: Path | None = None


@step("wait for {awaited}")
def wait_until_as_expected(cluster: Cluster, paths: Sequence[Path], awaited: str) -> Waited:
    """Wait until all components have settled and a few probes along each path have the expected outcome.

    This opens no window.
    """
    begin = time.monotonic()
    busy = cluster.settle()
    waited = _wait_for_packets(cluster, paths, awaited, begin=begin, within=patience(cluster))
    if not waited.wrong:
        cluster.took(awaited, time.monotonic() - begin)
    return replace(waited, wrong_until=max(waited.wrong_until, busy))


def _wait_for_packets(
    cluster: Cluster, paths: Sequence[Path], awaited: str, *, begin: float, within: float | None
) -> Waited:
    """The same, whatever components say of themselves."""
    wrong_until = 0.0
    sees_rest = cluster.backend.find(SeesRest)
    sight, in_vain = _Sight(""), sees_rest.rest() if sees_rest else str
    speaking = [path for path in paths if not path.silent]
    looks: list[Observed | _Sight] = []  # second ones

    def as_expected() -> bool:
        nonlocal sight, wrong_until
        looked_at = time.monotonic()
        first = _first_look(cluster, paths)
        if first is None:
            looks.append(_second_look(cluster, speaking))
            if not isinstance(looks[-1], _Sight):
                return True
            first = looks[-1]
        sight = first
        wrong_until = looked_at - begin if sight.told else wrong_until
        raise NotYetError(sight.text)

    try:
        eventually(as_expected, within=within, every=0.02, describe=awaited, in_vain=in_vain)
    except NotYetError as error:
        unknown = "" if sight.told else sight.text
        return Waited(sight.text, str(error), wrong_until, unknown=unknown, silent=sight.silent)
    only = looks[0]
    return Waited(wrong_until=wrong_until, seen={} if isinstance(only, _Sight) else only)


def as_probes_see_it(cluster: Cluster, waited: Waited) -> Waited:
    """Return a wait in vain as those probes see it that may be judged: a glance on a crowded machine misses answers."""
    path = waited.silent
    if path is None:
        return waited
    (seen,) = probe_all(cluster, {path: FIRST_LOOK}).values()
    sight = next(_wrong((path, each) for each in seen), None)
    if sight is None:
        return replace(waited, unknown=f"{waited.wrong}, and an answer when it was waited for")
    return replace(waited, wrong=sight.text, unknown="" if sight.told else sight.text)


@step("probe {title}")
def measure(
    cluster: Cluster,
    title: str,
    paths: Sequence[Path],
    *,
    seen: Observed | None = None,
    at_least: int = 0,
    rates: Rates = DEFAULT_RATES,
    in_flight: int = IN_FLIGHT,
    explain: Callable[[Sequence[str]], str] = lambda _: "",
) -> Window:
    """Open a measuring window, send as many probes along each path as its plan has, and judge the observations.

    What was `seen` already is the window's beginning. `explain` is called with the unmet clients, and only then.
    Raises as `raise_unless_passed` does.
    """
    opens = Seen(time.monotonic(), "the measuring window opens: from here on each observation counts")
    window = cluster.window(title, paths, rates)
    for path, observations in (seen or {}).items():
        window.observe(path.label, observations)
    samples = {path: left(window, path, seen or {}, at_least) for path in paths}
    first = {path: count if path.silent else min(count, IN_FLIGHT) for path, count in samples.items()}
    in_vain = _observe(cluster, window, first, in_flight)
    rest = {path: samples[path] - first[path] for path in samples if path not in in_vain}
    _observe(cluster, window, {path: count for path, count in rest.items() if count}, in_flight)
    judgement = window.judge()
    raise_unless_passed(judgement, title, lambda: paragraphs(explain(judgement.unmet), cluster.timeline([opens])))
    return window


def raise_unless_passed(judgement: Judgement, title: str, explain: Callable[[], str]) -> None:
    """Raise `UnmetError` for a failed, `UntoldError` for an inconclusive judgement, with grid and details."""
    if judgement.verdict is not Verdict.PASSED:
        raise_for(judgement, f"{judgement.message}\n\n{title}:\n\n{judgement.grid}\n\n{explain()}".rstrip())


def left(window: Window, path: Path, seen: Observed, at_least: int = 0) -> int:
    """Return the number of probes of a path that its plan still needs."""
    return max(0, max(window.plans[path.label].samples, at_least) - len(seen.get(path, ())))


def _first_look(cluster: Cluster, paths: Sequence[Path]) -> _Sight | None:
    """Send a few probes along each path. Returns what was wrong, if anything."""
    probes = [(path, probe) for path in paths for probe in path.probes(FIRST_LOOK)]
    seen = cluster.backend.part(Probing).glance([probe for _, probe in probes])
    for (path, _), each in zip(probes, seen, strict=True):
        for sight in _wrong([(path, named(cluster, each))]):
            return replace(sight, silent=path if each == TIMED_OUT else None)
    return None


def _second_look(cluster: Cluster, paths: Sequence[Path]) -> _Sight | Observed:
    """Send some more. Returns what was wrong or missing, or else all that was seen."""
    seen = probe_all(cluster, dict.fromkeys(paths, SECOND_LOOK), MANY_IN_FLIGHT)
    for sight in _wrong((path, each) for path, some in seen.items() for each in some):
        return sight
    for path, some in seen.items():
        pods = {each.pod for each in some if isinstance(each, Reached)}
        if isinstance(path.expected, AbstractSet) and len(pods) < len(path.expected) <= FEW:
            return _Sight(f"{path.label} saw {len(pods)} of {len(path.expected)} pods in {len(some)} probes")
    return seen


def _wrong(seen: Iterable[tuple[Path, Observation]]) -> Iterator[_Sight]:
    for path, each in seen:
        if isinstance(each, Unknown):
            yield _Sight(f"{path.label} could not tell: {each.why}", told=False)
        elif verdict.is_wrong(each, path.expected):
            yield _Sight(f"{path.label} saw {each.pod if isinstance(each, Reached) else type(each).__name__}")


def _observe(cluster: Cluster, window: Window, counts: Mapping[Path, int], in_flight: int) -> set[Path]:
    """Send probes and count outcomes. Returns the paths without an expected answer: more probes would show nothing."""
    in_vain = set()
    for path, observations in probe_all(cluster, counts, in_flight).items():
        window.observe(path.label, observations)
        if not path.silent and TIMED_OUT in observations:
            in_vain.add(path)
    return in_vain


def probe_all(
    cluster: Cluster, counts: Mapping[Path, int], in_flight: int = IN_FLIGHT
) -> dict[Path, list[Observation]]:
    """Send these numbers of probes along each path, and return their outcomes.

    Silent ones are sent all at once, as each waits for its limit.
    """
    seen: dict[Path, list[Observation]] = {path: [] for path in counts}
    for silent in (False, True):
        chosen = {path: count for path, count in counts.items() if count and path.silent is silent}
        if not chosen:
            continue
        probes = [probe for path, count in chosen.items() for probe in path.probes(count)]
        observations = iter(cluster.backend.part(Probing).probe(probes, in_flight=len(probes) if silent else in_flight))
        for path, count in chosen.items():
            seen[path] = [named(cluster, next(observations)) for _ in range(count)]
    return seen
