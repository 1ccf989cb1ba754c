"""What the tests of a suite expect, without a cluster, for `trafficdist verify`.

A rehearsal runs a test with a stand-in for its cluster, which creates nothing and only names pods and Services. The
expectations of the test are noted, and nothing is measured. The rehearsal ends at the first value that only a cluster
knows. So the history of a test that passed contains at least what the rehearsal notes, in this order.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

from harness.judging import verdict
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.model.topology import THREE_ZONES
from harness.model.workloads import Pod
from harness.scenario import concurrent_traffic, hints, traffic
from harness.scenario.concurrent_traffic import Question
from harness.scenario.paths import names
from harness.scenario.service_address import Expected, Traffic, label


@dataclass(frozen=True, slots=True)
class Rehearsable:
    """One case of a requirement, with the arguments of its test besides the cluster."""

    requirement: str
    parameters: str
    test: FunctionType
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The windows and comparisons of a case, and the rates of its windows that are not listed.

    A comparison has a part of its text, and the expected value.
    """

    windows: list[tuple[verdict.Expectation, Rates]] = field(default_factory=list)
    compared: list[tuple[str, Any]] = field(default_factory=list)
    rates: frozenset[Rates] = frozenset()


def rehearse(cases: Sequence[Rehearsable]) -> dict[tuple[str, str], Foreseen]:
    """Rehearse the cases of a suite. Returns what each will expect, by requirement and parameters."""
    packages = tuple({each.test.__module__.partition(".")[0] for each in cases})
    found = {}
    for each in cases:
        found[each.requirement, each.parameters] = Foreseen(rates=frozenset(_rates(each.test, packages)))
    with _replaced([each.test for each in cases], packages):
        for each in cases:
            with contextlib.suppress(_OnlyOnAClusterError, Exception):
                each.test(three_zones=_Cluster(found[each.requirement, each.parameters]), **each.arguments)
    return found


class _OnlyOnAClusterError(BaseException):
    """Ends a rehearsal. No scenario catches it."""


def _end(*_: object) -> Any:
    raise _OnlyOnAClusterError


class _Unknown:
    """A value that only a cluster knows. It can be passed on, and a decision that depends on it ends the rehearsal."""

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


_QUESTIONS = (
    *("bool", "iter", "len", "contains", "hash", "str", "repr", "format", "int", "float", "index", "setitem"),
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "or", "ror", "and", "rand"),
)
for _question in _QUESTIONS:
    setattr(_Unknown, f"__{_question}__", _end)

_ADDRESSES: Mapping[str, Any] = {"IPv4": _Unknown(), "IPv6": _Unknown()}


class _Service(_Unknown):
    def __init__(self, name: str) -> None:
        self.name = name


class _Cluster(_Unknown):
    """The stand-in. It has the methods of a cluster whose results determine an expectation."""

    def __init__(self, foreseen: Foreseen) -> None:
        self.foreseen = foreseen
        self.topology = THREE_ZONES
        self._numbers = itertools.count(1)
        self._pods: set[str] = set()

    def next_number(self) -> int:
        return next(self._numbers)

    def create_service(self, name: str = "", **_: object) -> _Service:
        number = self.next_number()
        return _Service(name or f"web-{number}")

    def run_servers(self, on: Sequence[str], **_: object) -> list[Pod]:
        pods = []
        for node in on:
            every = itertools.chain([node], (f"{node}-{number}" for number in itertools.count(2)))
            name = next(each for each in every if each not in self._pods)
            self._pods.add(name)
            pods.append(Pod(name, "", node, self.topology.node(node).zone, _ADDRESSES))
        return pods

    def delete_pod(self, pod: Pod) -> None:
        self._pods.remove(pod.name)


# What expectations note


def _traffic(cluster: _Cluster, _: object, expected: Traffic, *, rates: Rates = DEFAULT_RATES, **__: object) -> None:
    cluster.foreseen.windows.append(({label(who): _names(what) for who, what in expected.items()}, rates))


def _concurrent_traffic(
    cluster: _Cluster, questions: Sequence[Question], *, rates: Rates = DEFAULT_RATES, **_: object
) -> None:
    cluster.foreseen.windows.extend(
        ({f"{label(who)} in {each.name}": _names(what) for who, what in each.expected.items()}, rates)
        for each in list(questions)
        if not each.kept
    )


def _hints(cluster: _Cluster, service: _Service, expected: Mapping[str, Any], **_: object) -> _Unknown:
    cluster.foreseen.compared.append((f" endpoints and hints of service {service.name} ", hints.table(expected)))
    return _Unknown()


def _hint_counts(cluster: _Cluster, service: _Service, expected: Mapping[str, int], **_: object) -> _Unknown:
    text = f" endpoints of service {service.name} by the zone of their hints"
    cluster.foreseen.compared.append((text, dict(sorted(expected.items()))))
    return _Unknown()


def _names(what: Expected) -> verdict.Expected:
    return names(what) if isinstance(what, AbstractSet) else what


_NOTED: Mapping[Any, Callable[..., Any]] = {
    traffic.expect_traffic: _traffic,
    concurrent_traffic.expect_concurrent_traffic: _concurrent_traffic,
    hints.expect_hints: _hints,
    hints.expect_hint_counts: _hint_counts,
}


@contextlib.contextmanager
def _replaced(tests: Iterable[FunctionType], packages: Collection[str]) -> Iterator[None]:
    """Replace the functions of scenarios that take a cluster, in the modules of tests and in their packages."""
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
    """Yield the error rates that a test and the functions of its package name. Each is the value of a variable."""
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
