"""Run the test of a requirement on a cluster that contains a mutant."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import conformance
from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.errors import EndedError, HarnessError
from harness.eventually import set_time_scale, time_scale
from harness.judging.conclusion import UnmetError
from harness.judging.history import History
from harness.judging.statistics import DEFAULT_RATES
from harness.model.release import API_SERVER, CONTROLLER, PROXY
from harness.model.requirements import Requirement
from harness.model.topology import THREE_ZONES
from harness.run.random_values import fixed
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import recheck
from harness.variation import axes
from harness.variation.axes import PLAIN, DrawnValues, parse_draw
from harness.variation.node_names import cloud_names
from tests.conformance.benign_results import RequirementResult

if TYPE_CHECKING:
    import pytest

    from mutants import Mutant

Test = Callable[..., None]


@dataclass(frozen=True)
class Scenario:
    """A requirement, its test function, and the parameters of each test case."""

    requirement: Requirement
    test: Test
    cases: Sequence[Mapping[str, Any]] = ({},)


def scenarios() -> Mapping[str, Scenario]:
    """Return all scenarios of the suite by requirement id."""
    found = {}
    for module in pkgutil.walk_packages(conformance.__path__, "conformance."):
        if module.name.rpartition(".")[2].startswith("test_"):
            for test in vars(importlib.import_module(module.name)).values():
                marks = getattr(test, "pytestmark", ())
                for mark in marks:
                    if mark.name == "requirement":
                        found[mark.args[0].id] = Scenario(mark.args[0], test, _cases(marks))
    return found


def _cases(marks: Iterable[pytest.Mark]) -> list[Mapping[str, Any]]:
    """Return all combinations of the parameters of a test."""
    axes = [[{mark.args[0]: value} for value in mark.args[1]] for mark in marks if mark.name == "parametrize"]
    return [{name: value for each in case for name, value in each.items()} for case in itertools.product(*axes)]


SCENARIOS = scenarios()

DECLARED = 0.0
"""The declared convergence time in seconds, or 0 if there is no declaration."""


@contextmanager
def time_scaled(factor: float) -> Iterator[None]:
    """Multiply all time limits by `factor` in this context."""
    before = time_scale()
    set_time_scale(factor)
    try:
        yield
    finally:
        set_time_scale(before)


@contextmanager
def fewer_probes(leak: float = 0.25) -> Iterator[None]:
    """In this context, default checks send fewer probes and detect only faults of at least this share."""
    before = DEFAULT_RATES.leak
    object.__setattr__(DEFAULT_RATES, "leak", leak)
    try:
        yield
    finally:
        object.__setattr__(DEFAULT_RATES, "leak", before)


class SwitchableBackend(NetnsBackend):
    """An embedded cluster that can switch between the readings of the KEPs."""

    def follow(self, reading: str) -> None:
        """Switch all components to a reading: the text of the KEPs, or the behaviour of released Kubernetes."""
        if self.release.follows != reading:
            self.release = replace(self.release, follows=reading)
            nodes = [node.name for node in self.topology.nodes]
            for component in (API_SERVER, CONTROLLER, PROXY):
                self.start_component(component, self.release, nodes)


def booted(mutant: Mutant) -> SwitchableBackend:
    """Return a cluster of a mutant that is not started, with the names that its draw needs."""
    names = cloud_names(THREE_ZONES) if draw_of_mutant(mutant)[axes.NAMES] == "cloud" else None
    return SwitchableBackend(implementation=reference(mutant), names=names)


def draw_of_mutant(mutant: Mutant) -> DrawnValues:
    """Return the drawn values that show the fault of a mutant."""
    return parse_draw(mutant.draw or "plain")


class MutantTrial:
    """One running cluster that contains a mutant."""

    def __init__(self, backend: SwitchableBackend, history: History, draw: DrawnValues = PLAIN) -> None:
        self._backend = backend
        self._draw = draw
        self._history = history
        self._numbers = itertools.count(1)
        self._ended: dict[str, str] = {}

    def run(self, requirement_id: str, reading: str = "kep") -> None:
        """Run all test cases of one requirement. The first exception ends the run and propagates.

        `reading` applies to requirements that are identical in both readings of the KEPs.
        """
        scenario = SCENARIOS[requirement_id]
        self._backend.follow(scenario.requirement.as_ or reading)
        for case in scenario.cases:
            with self.cluster(requirement_id) as cluster:
                scenario.test(cluster, **case)
                recheck(cluster)

    @contextmanager
    def cluster(self, test: str) -> Iterator[Cluster]:
        """Yield a new namespace for the test with this name. Later namespaces know which components exited."""
        made = Cluster(
            self._backend,
            f"trial-{next(self._numbers)}",
            history=self._history,
            test=test,
            converges_within=DECLARED,
            ended_before=lambda: self._ended,
            draw=self._draw.without(*fixed(SCENARIOS[test].requirement)) if test in SCENARIOS else self._draw,
        )
        with closing(made):
            try:
                yield made
            except EndedError as error:
                self._ended.setdefault(error.component, str(error))
                raise

    def outcome(self, requirement_id: str, reading: str = "kep") -> RequirementResult:
        """Run a requirement's test. Return the verdict, the duration and the text.

        A `HarnessError` makes the result inconclusive. Any other error counts as a failure.
        """
        begin, cpu = time.monotonic(), time.process_time()
        try:
            text = self.failure(requirement_id, reading)
            verdict = "failed" if text else "passed"
        except HarnessError as error:
            verdict, text = "inconclusive", f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  a scenario that fails on a correct variant is a finding, and the run continues
            verdict, text = "failed", f"{type(error).__name__}: {error}"
        seconds, cpu_seconds = time.monotonic() - begin, time.process_time() - cpu
        return RequirementResult(requirement_id, verdict, round(seconds, 3), round(cpu_seconds, 3), text)

    def failure(self, requirement_id: str, reading: str = "kep") -> str:
        """Return the failure text of a requirement's test, or "" if the test passes.

        Only an unmet expectation is a failure. Other errors propagate, including assertions during the preparation of
        a scenario.
        """
        try:
            self.run(requirement_id, reading)
        except UnmetError as unmet:
            return str(unmet)
        return ""
