"""Run pytest on a suite, independently of the suite's location, the current folder and the user's configuration."""

import contextlib
import functools
import inspect
import io
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib import resources
from typing import Any

import pytest

from harness.errors import DistrustError, NothingSelectedError, UsageError
from harness.judging.exit_codes import MEANINGS, ExitCode
from harness.model.requirements import Requirement
from harness.plugin.recorder import owned, parameters_of
from harness.run.plan import check_names, reason_to_skip
from harness.run.run import run_of
from harness.run.signals import SignalHandler
from harness.run.suite_files import SUITE, place_of
from harness.scenario.rehearsal import ExpectedByCase, RehearsableCase, rehearse
from harness.settings.settings import Settings

_PLUGINS = ("trafficdist", "allure_pytest", "xdist", "timeout")


def run_pytest(arguments: Sequence[str], *, suite: str = SUITE, plugins: Sequence[object] = ()) -> int:
    """Run pytest on a suite with our configuration, and return the exit code. Raises `UsageError`."""
    place = place_of(suite)
    root = place.parent
    configuration = resources.files("harness").joinpath("certify.ini")
    with resources.as_file(configuration) as file:
        ours = ["-c", str(file), f"--rootdir={root}", f"--confcutdir={place if place.is_dir() else root}"]
        if suite == SUITE:  # the published suite has no assert statements and no hypothesis tests
            ours += ["--assert=plain", "-p", "no:hypothesispytest"]
        if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
            ours += [part for name in _PLUGINS for part in ("-p", name)]
        signals = SignalHandler()
        with signals.heard():
            return int(pytest.main([*ours, str(place), *arguments], plugins=[_CommandPlugin(signals), *plugins]))


class _CommandPlugin:
    """Registered if the `trafficdist` command runs pytest. Informs the signal handler, and converts usage errors."""

    __name__ = "trafficdist_command"  # the plugin's name in pytest

    def __init__(self, signals: SignalHandler) -> None:
        self._signals = signals

    def pytest_configure(self, config: pytest.Config) -> None:
        """Let a signal between the last test and the finished report mark the run as interrupted."""
        run = run_of(config)
        if run is not None:
            self._signals.late = run.interrupt
            run.when_decided = self._say_code

    def _say_code(self, code: int) -> None:
        self._signals.code = code

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """After the tests, let signals only print a line, so that they do not prevent the reports."""
        try:
            return (yield)
        finally:
            self._signals.begin_end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        self._signals.begin_end()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except pytest.UsageError as error:
            raise UsageError(str(error)) from error

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except pytest.UsageError as error:
            said = re.search(r"error: (.*)", str(error))
            raise UsageError(f"pytest: {said[1] if said else error}") from None


def catalogue(suite: str = SUITE) -> list[Requirement]:
    """Collect a suite, and return its requirements, sorted by id. Raises `DistrustError` with pytest's output."""
    return rehearsed(suite)[0]


def rehearsed(suite: str = SUITE) -> tuple[list[Requirement], ExpectedByCase]:
    """Return the catalogue, and a function that returns the expectations of a run's cases. Raises `DistrustError`."""
    arguments = ["--collect-only", "-q", "-p", "no:xdist", "-o", "td_workers="]
    with _without_options():
        found = _collect(lambda collector: run_pytest(arguments, suite=suite, plugins=[collector]))
    catalogue = sorted({each.id: each for each in found.known}.values(), key=lambda each: each.id)
    cases = found.cases if suite == SUITE else ()
    return catalogue, functools.cache(lambda run: rehearse(cases, run))


def require_selection(config: pytest.Config, settings: Settings) -> None:
    """Check the selection before a kind cluster boots for a minute. Raises `NothingSelectedError` or `UsageError`."""
    arguments = [*map(str, config.invocation_params.args), "--collect-only", "-q"]  # neither a run nor workers start
    found = _collect(lambda collector: int(pytest.main(arguments, plugins=[collector])))
    check_names(settings, found.known)
    reasons = [reason_to_skip(each, settings) for each in found.chosen]
    if all(reason for reason, _ in reasons):
        things = "; ".join(sorted({thing for _, thing in reasons}))
        why = f": {things}" if things else ""
        raise NothingSelectedError(f"{MEANINGS[ExitCode.NOTHING_SELECTED]}{why}")


def _collect(start: "Callable[[_Collector], int]") -> "_Collector":
    collector, output = _Collector(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = start(collector)
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise DistrustError(f"the suite cannot be collected:\n{output.getvalue()}")
    return collector


class _Collector:
    def __init__(self) -> None:
        self.chosen: list[Requirement] = []
        self.cases: list[RehearsableCase] = []
        self._deselected: list[Requirement] = []

    @property
    def known(self) -> list[Requirement]:
        return [*self.chosen, *self._deselected]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        self.chosen = [requirement for _, requirement in owned(items)]
        self.cases = [case for item, requirement in owned(items) for case in _rehearsable(item, requirement)]

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._deselected += [requirement for _, requirement in owned(items)]


def _rehearsable(item: pytest.Item, requirement: Requirement) -> Iterator[RehearsableCase]:
    """Yield the case of a test whose only arguments are a cluster and the test's parameters."""
    if isinstance(item, pytest.Function):
        given = dict(item.callspec.params) if parameters_of(item) else {}
        if inspect.signature(item.function).parameters.keys() == {_CLUSTER, *given}:
            yield RehearsableCase(requirement.id, parameters_of(item), item.function, given)


_CLUSTER = "three_zones"


@contextlib.contextmanager
def _without_options() -> Iterator[None]:
    ours = {name: value for name, value in os.environ.items() if name.startswith(("TRAFFICDIST_", "PYTEST_ADDOPTS"))}
    for name in ours:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(ours)
