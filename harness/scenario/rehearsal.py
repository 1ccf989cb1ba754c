"""Determine the expectations of a suite's tests without a cluster, for `trafficdist verify`.

A rehearsal runs a test with a stand-in for its cluster, and ends at the first decision that needs a real cluster. So
the history of a test that passed contains at least the recorded expectations, in the same order.
"""

import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, ModuleType
from typing import Any

import orjson

from harness.judging import verdict
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.verdict import AnyOf, EqualShares
from harness.model.manifests import Port
from harness.model.release import CONTROLLER
from harness.model.requirements import Feature
from harness.model.topology import THREE_ZONES
from harness.model.workloads import Pod
from harness.scenario import affinity, concurrent_traffic, dns_answers, eventual_state, hints, traffic, transitions
from harness.scenario.concurrent_traffic import ExpectedTraffic
from harness.scenario.eventual_state import metric_text
from harness.scenario.measuring import PROMISED
from harness.scenario.paths import names
from harness.scenario.record import ScenarioRecord
from harness.scenario.service_address import Expected, Traffic, label
from harness.scenario.transitions import LOSSES


@dataclass(frozen=True, slots=True)
class RehearsableCase:
    """One case of a requirement, with the arguments of its test except for the cluster."""

    requirement: str
    parameters: str
    test: FunctionType
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class ExpectedRecords:
    """Windows and comparisons that the history of a passed case must contain, and the error rates in the test's code.

    `compared` has pairs: a part of the subject (see `fits`), and the expected value or a frozenset of accepted values.
    `left` contains values that `recheck` may compare again. `complete` is true if the records contain all expectations.
    """

    windows: list[tuple[verdict.Expectation, Rates]] = field(default_factory=list)
    compared: list[tuple[str, Any]] = field(default_factory=list)
    left: dict[str, list[Any]] = field(default_factory=dict)
    rates: frozenset[Rates] = frozenset()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run: the features that the implementation does not claim, and the IP families."""

    unclaimed: frozenset[str] = frozenset()
    families: tuple[str, ...] = ("IPv4", "IPv6")


ExpectedByCase = Callable[[RunFacts], Mapping[tuple[str, str], ExpectedRecords]]
"""A function that returns the expectations of all cases of a run, keyed by (requirement, parameters)."""


def rehearse(cases: Sequence[RehearsableCase], run: RunFacts) -> dict[tuple[str, str], ExpectedRecords]:
    """Rehearse the cases of a suite for a run. Return their expectations, keyed by (requirement, parameters)."""
    packages = tuple({each.test.__module__.partition(".")[0] for each in cases})
    rates = [frozenset(_rates(each.test, packages)) for each in cases]  # before functions are replaced
    found = {}
    with _replaced([each.test for each in cases], packages):
        for each, named in zip(cases, rates, strict=True):
            found[each.requirement, each.parameters] = expected = ExpectedRecords(rates=named)
            cluster = _Cluster(expected, run)
            with contextlib.suppress(_NeedsClusterError, Exception):
                each.test(three_zones=cluster, **each.arguments)
                expected.complete = not cluster.gaps
    return found


class _NeedsClusterError(BaseException):
    """Ends a rehearsal. It is a `BaseException`, so that no scenario catches it."""


def _end(*_: object) -> Any:
    raise _NeedsClusterError


class _Unknown:
    """A value that only a real cluster has. Code may pass it on, but a decision that needs it ends the rehearsal."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unknown()

    def __call__(self, *_: object, **__: object) -> Any:
        return _Unknown()

    def __getitem__(self, _: object) -> Any:
        return _Unknown()

    def __enter__(self) -> Any:
        return _Unknown()

    def __exit__(self, *_: object) -> None:
        pass

    def __format__(self, _: str) -> str:
        return _GAP


_GAP = "\ufffc"  # the place of an unknown value in a string


def fits(expected: str, subject: str) -> bool:
    """Return whether a subject contains the expected string, with any text in place of each `_GAP`."""
    at = 0
    for part in expected.split(_GAP):
        at = subject.find(part, at) + len(part)
        if at < len(part):
            return False
    return True


_DECISIONS = (
    *("bool", "iter", "len", "contains", "hash", "str", "repr", "int", "float", "index", "setitem"),
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "or", "ror", "and", "rand"),
)
for _decision in _DECISIONS:
    setattr(_Unknown, f"__{_decision}__", _end)


@dataclass(eq=False)
class _Service(_Unknown):
    name: str
    namespace: str = _GAP
    ports: Any = field(default_factory=_Unknown)


class _Cluster(_Unknown):
    """The stand-in for a cluster. It implements only methods whose results determine an expectation."""

    namespace = _GAP
    generation = None  # a run that generates cases cannot be certified

    def __init__(self, records: ExpectedRecords, run: RunFacts) -> None:
        self.records = records
        self.gaps = False  # whether an expected value is unknown
        self.families = run.families
        self.topology = THREE_ZONES
        self._unclaimed = run.unclaimed
        self.record = ScenarioRecord("")
        self._numbers = itertools.count(1)
        self._pods: set[str] = set()

    def claims(self, feature: Feature) -> bool:
        return feature.name not in self._unclaimed

    def next_number(self) -> int:
        return next(self._numbers)

    def create_service(self, name: str = "", *, ports: Sequence[Port] | None = None, **_: object) -> _Service:
        number = self.next_number()
        service = _Service(name or f"web-{number}")
        return service if ports is None else replace(service, ports=tuple(ports))

    def run_servers(self, on: Sequence[str], **_: object) -> list[Pod]:
        pods = []
        for node in on:
            every = itertools.chain([node], (f"{node}-{number}" for number in itertools.count(2)))
            name = next(each for each in every if each not in self._pods)
            self._pods.add(name)
            addresses: dict[str, Any] = {family: _Unknown() for family in self.families}
            pods.append(Pod(name, "", node, self.topology.node(node).zone, addresses))
        return pods

    def delete_pod(self, pod: Pod) -> None:
        self._pods.remove(pod.name)

    def expect_equal(self, what: str, *, expected: Any, **_: object) -> None:
        values = expected if isinstance(expected, frozenset) else [expected]
        try:
            known = [orjson.loads(orjson.dumps(each)) for each in values]
        except TypeError:
            self.gaps = True
        else:
            if _GAP not in repr(known):
                self.records.compared.append((what, frozenset(values) if len(known) > 1 else known[0]))

    def expect_within(self, what: str, fewest: float, most: float | None, **_: object) -> None:
        self.expect_equal(what, expected=[fewest, most])

    def opens(self, expected: verdict.Expectation, rates: Rates = DEFAULT_RATES) -> None:
        if _GAP not in "".join(expected):
            self.records.windows.append((expected, rates))

    def leaves(self, what: str, value: Any) -> None:
        self.records.left.setdefault(f"{what}, left alone", []).append(value)


# Records of each expectation


def _traffic(
    cluster: _Cluster, service: _Service, expected: Traffic, *, rates: Rates = DEFAULT_RATES, **_: Any
) -> None:
    cluster.opens({label(who): _names(what) for who, what in expected.items()}, rates)
    cluster.expect_equal(f"traffic of service {service.name}{PROMISED}", expected=True)
    cluster.record.answered.add(service.name)


def _concurrent_traffic(
    cluster: _Cluster, asked: Sequence[ExpectedTraffic], *, rates: Rates = DEFAULT_RATES, timed: bool = True, **_: Any
) -> None:
    for each in asked:
        expected = {f"{label(who)} in {each.name}": _names(what) for who, what in each.expected.items()}
        if each.kept:
            expected = {who: AnyOf(what) if isinstance(what, frozenset) else what for who, what in expected.items()}
        cluster.opens(expected, rates)
    if timed:
        cluster.expect_equal(f"traffic of {'; '.join(each.name for each in asked)}{PROMISED}", expected=True)
    _answered(cluster, asked)


def _first_answers(cluster: _Cluster, asked: Sequence[ExpectedTraffic]) -> None:
    cluster.expect_equal("wrong first answer", expected="none")
    _answered(cluster, asked)


def _answered(cluster: _Cluster, asked: Sequence[ExpectedTraffic]) -> None:
    cluster.record.answered.update(each.service.name for each in asked)


@contextlib.contextmanager
def _traffic_during(
    cluster: _Cluster, asked: Sequence[ExpectedTraffic], *, answered: Sequence[ExpectedTraffic] = (), **_: Any
) -> Iterator[None]:
    yield
    if any(each.expected for each in (*asked, *answered)):
        cluster.expect_equal("outcomes that are wrong before, during and after a change", expected={})


def _affinity(cluster: _Cluster, service: _Service, allowed: Mapping[Any, AbstractSet[Pod]], **_: Any) -> _Unknown:
    _traffic(cluster, service, allowed)
    cluster.records.windows[-1] = ({label(who): AnyOf(names(pods)) for who, pods in allowed.items()}, DEFAULT_RATES)
    return _Unknown()


def _shares(kind: Callable[[Any], Any]) -> Callable[..., None]:
    def note(cluster: _Cluster, _: object, expected: Mapping[Any, AbstractSet[Pod]]) -> None:
        cluster.expect_equal("wrong answer by ", expected="none")
        cluster.opens({label(who): kind(names(pods)) for who, pods in expected.items()})

    return note


def _no_overload(cluster: _Cluster, _: object, clients: Sequence[str], zones: Mapping[str, Any], **__: Any) -> None:
    every = {pod for each in zones.values() for pod in each}
    _shares(AnyOf)(cluster, None, dict.fromkeys(clients, every))


@contextlib.contextmanager
def _no_loss(
    cluster: _Cluster, _: object, *, from_: Sequence[Any], allowed: AbstractSet[Pod], **__: Any
) -> Iterator[_Unknown]:
    cluster.expect_equal("wrong answer by ", expected="none")
    cluster.opens({label(who): AnyOf(names(allowed)) for who in from_}, LOSSES)
    yield _Unknown()


def _flow(first: str, last: str) -> Callable[..., Any]:
    """Return a function that records a flow's expected server after a block and, if `first` is given, before it."""

    @contextlib.contextmanager
    def note(cluster: _Cluster, service: _Service, who: Any, pod: Any = None, **given: Any) -> Iterator[None]:
        before, after = given.get("before", pod), given.get("after", pod)
        if first:
            cluster.expect_equal(f"connection of {who} to {service.name}", expected="Reached")
            cluster.expect_equal(f"{first} of {who}", expected=before.name)
        yield
        pods = after if isinstance(after, AbstractSet) else {after} - {None}
        cluster.expect_equal(f"{last} of {who}", expected=names(pods) or frozenset({"TimedOut", "Refused"}))

    return note


def _hints(cluster: _Cluster, service: _Service, expected: Mapping[str, Any], **_: Any) -> _Unknown:
    cluster.expect_equal(f" endpoints and hints of service {service.name} ", expected=hints.table(expected))
    cluster.leaves(f"the IPv{_GAP} endpoints of service {service.name}", hints.table(expected))
    return _Unknown()


def _hint_counts(cluster: _Cluster, service: _Service, expected: Mapping[str, int], **_: Any) -> _Unknown:
    counts = dict(sorted(expected.items()))
    cluster.expect_equal(f" endpoints of service {service.name} by the zone of their hints", expected=counts)
    cluster.leaves(f"the IPv{_GAP} hints of service {service.name}", counts)
    return _Unknown()


def _min_hint_counts(cluster: _Cluster, service: _Service, _: object, *, endpoints: int, **__: Any) -> _Unknown:
    what = f" endpoints of service {service.name}, and counts of zones with fewer than allowed"
    cluster.expect_equal(what, expected={"in all": endpoints})
    cluster.gaps = True  # the counts that `recheck` compares are unknown
    return _Unknown()


def _conditions(cluster: _Cluster, _: object, expected: Mapping[str, Any], **__: Any) -> None:
    for pod, conditions in expected.items():
        cluster.expect_equal(f"ready, serving, terminating of {pod}", expected=conditions)


@contextlib.contextmanager
def _writes(cluster: _Cluster, service: _Service, event: str, *, at_most: int | None = None) -> Iterator[None]:
    yield
    if at_most is not None:
        cluster.expect_within(f"writes of slices of service {service.name} when {event}", 0, at_most)


def _eventually(cluster: _Cluster, what: str, _: object, *, expected: Any, stays: bool = False, **__: Any) -> None:
    cluster.expect_equal(what, expected=expected)
    if stays and not isinstance(expected, Mapping):  # a mapping's string depends on its order
        cluster.leaves(what, str(expected))


def _condition(cluster: _Cluster, service: _Service, kind: str, status: str | None) -> _Unknown:
    _eventually(cluster, f"condition {kind} of service {service.name}", None, expected=status, stays=True)
    return _Unknown()


@contextlib.contextmanager
def _running(cluster: _Cluster, component: str) -> Iterator[None]:
    cluster.expect_equal(f"the {component}", expected="runs")
    yield
    cluster.expect_equal(f"the {component}", expected="runs")


class _Metrics(eventual_state.MetricChanges):
    _cluster: Any

    def __init__(self, cluster: Any, node: str = "") -> None:
        self._cluster, self._component, self._node = cluster, CONTROLLER, node

    def _expect(self, how: str, name: str, labels: Mapping[str, str] | None, *_: object, **others: Any) -> None:
        text = metric_text(self._component, self._node, how, name, labels or {})
        self._cluster.expect_equal(text, expected=others["expected"])


def _http_answer(cluster: _Cluster, _: object, to: tuple[str, int], path: str, **fields: Any) -> None:
    expected = eventual_state.http_fields(**fields)
    cluster.expect_equal(f"answer to GET :{to[1]}{path} on {to[0]}", expected=expected)


def _dns_pods(
    cluster: _Cluster, service: _Service, expected: Mapping[Any, AbstractSet[Pod]], *, kind: str = "A"
) -> None:
    wanted = {str(who): sorted(each.name for each in pods) for who, pods in expected.items()}
    for _ in range(1 + dns_answers.AGAIN):
        cluster.expect_equal(f"{kind} records of service {service.name} by client", expected=wanted)


def _dns_answer(cluster: _Cluster, _: object, name: str, kind: str = "A", **fields: Any) -> None:
    fields.pop("query", None)
    _eventually(cluster, f"answer to {kind} {name}", None, expected=dns_answers.plain_fields(fields))


def _locators(cluster: _Cluster, expected: Mapping[str, Any]) -> None:
    fields = sorted({field for each in expected.values() for field in each})
    wanted = {name: {field: each.get(field) for field in fields} for name, each in expected.items()}
    _eventually(cluster, f"PodLocators of pods {', '.join(expected) or '(none)'}", None, expected=wanted, stays=True)


def _names(what: Expected) -> verdict.Expected:
    return names(what) if isinstance(what, AbstractSet) else what


_NOTED: Mapping[Any, Callable[..., Any]] = {
    traffic.expect_traffic: _traffic,
    traffic.expect_even_shares: _shares(EqualShares),
    traffic.expect_all_under_load: _shares(frozenset),
    traffic.expect_any_under_load: _shares(AnyOf),
    traffic.expect_no_overload: _no_overload,
    concurrent_traffic.expect_concurrent_traffic: _concurrent_traffic,
    concurrent_traffic.expect_concurrent_first_answers: _first_answers,
    concurrent_traffic.expect_traffic_during: _traffic_during,
    affinity.expect_affinity: _affinity,
    transitions.expect_no_loss: _no_loss,
    transitions.expect_flow_survives: _flow("server of the new connection", "server of the open connection"),
    transitions.expect_flow_moves: _flow("first server of the flow", "server of the flow"),
    transitions.expect_flow_answered: _flow("", "server of the flow"),
    hints.expect_hints: _hints,
    hints.expect_hint_counts: _hint_counts,
    hints.expect_min_hint_counts: _min_hint_counts,
    hints.expect_conditions: _conditions,
    hints.expect_writes: _writes,
    eventual_state.expect_eventually: _eventually,
    eventual_state.expect_condition: _condition,
    eventual_state.expect_running: _running,
    eventual_state.controller_metrics: _Metrics,
    eventual_state.proxy_metrics: _Metrics,
    eventual_state.expect_http_answer: _http_answer,
    dns_answers.expect_dns_pods: _dns_pods,
    dns_answers.expect_dns_answer: _dns_answer,
    dns_answers.expect_locators: _locators,
}


@contextlib.contextmanager
def _replaced(tests: Iterable[FunctionType], packages: Collection[str]) -> Iterator[None]:
    """In modules of `tests` and `packages`, replace the functions of `harness.scenario` that take a cluster."""
    modules = [vars(module) for name, module in sys.modules.items() if name.partition(".")[0] in packages]
    before = [
        (space, name, value)
        for space in {id(space): space for space in [*(each.__globals__ for each in tests), *modules]}.values()
        for name, value in space.items()
        if inspect.isfunction(value) and _takes_cluster(value)
    ]
    for space, name, value in before:
        space[name] = _NOTED.get(value, _Unknown())
    try:
        yield
    finally:
        for space, name, value in before:
            space[name] = value


def _takes_cluster(function: FunctionType) -> bool:
    return (
        function.__module__.startswith("harness.scenario.")
        and next(iter(inspect.signature(function).parameters), "") == "cluster"
    )


def _rates(test: FunctionType, packages: Collection[str]) -> Iterator[Rates]:
    """Yield the error rates in the variables that a test and the functions of its package use."""
    seen, todo = {test}, [test]
    while todo:
        function = todo.pop()
        known, names = function.__globals__, list(_names_in(function.__code__))
        spaces = [vars(known[name]) for name in names if isinstance(known.get(name), ModuleType | type)]
        for value in (space[name] for space in (known, *spaces) for name in names if name in space):
            if isinstance(value, Rates):
                yield value
            elif inspect.isfunction(value) and value.__module__.partition(".")[0] in packages and value not in seen:
                seen.add(value)
                todo.append(value)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_in(each)
