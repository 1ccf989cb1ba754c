"""Runs pytest over a suite, wherever it is installed, whatever the present folder and configuration."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Generator, Sequence
from importlib import resources
from typing import Any

import pytest

from harness.errors import DistrustError, UsageError
from harness.model.requirements import Requirement
from harness.plugin.recorder import requirement_of
from harness.run.run import run_of
from harness.run.signals import Signals
from harness.run.suite_files import SUITE, place_of

_PLUGINS = ("trafficdist", "allure_pytest", "xdist", "timeout")


def run_pytest(arguments: Sequence[str], *, suite: str = SUITE, plugins: Sequence[object] = ()) -> int:
    """Run pytest over a suite with our configuration. Returns its exit code.

    Raises `UsageError` for an unknown suite, and for arguments that pytest does not know.
    """
    place = place_of(suite)
    root = place.parent
    configuration = resources.files("harness").joinpath("certify.ini")
    with resources.as_file(configuration) as file:
        ours = ["-c", str(file), f"--rootdir={root}", f"--confcutdir={place if place.is_dir() else root}"]
        if suite == SUITE:  # it has no assert statements, whose rewriting takes each worker a third of a second
            ours.append("--assert=plain")
        if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
            ours += [part for name in _PLUGINS for part in ("-p", name)]
        signals = Signals()
        with signals.heard():
            return int(pytest.main([*ours, str(place), *arguments], plugins=[_Command(signals), *plugins]))


class _Command:
    """Marks a run by the command, tells signals how far it is, and turns pytest's usage errors into the command's."""

    __name__ = "trafficdist_command"  # the plugin's name in pytest

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def pytest_configure(self, config: pytest.Config) -> None:
        """Let a signal that comes after the last test, and before the report is whole, mark the run."""
        run = run_of(config)
        if run is not None:
            self._signals.late = run.interrupt
            run.when_decided = self._say_code

    def _say_code(self, code: int) -> None:
        self._signals.code = code

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """From its end on, however it ends, nothing is broken off."""
        try:
            return (yield)
        finally:
            self._signals.begin_end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """The same if it did not come as far as the tests."""
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
    """Collect a suite, and return its requirements, ordered by id; needs no cluster.

    Raises `DistrustError` with pytest's output if the suite cannot be collected.
    """
    collector = _Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), _without_options():
        code = run_pytest(
            ["--collect-only", "-q", "-p", "no:xdist", "-o", "td_workers="], suite=suite, plugins=[collector]
        )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise DistrustError(f"the suite cannot be collected:\n{said.getvalue()}")
    return [collector.found[each] for each in sorted(collector.found)]


class _Collector:
    def __init__(self) -> None:
        self.found: dict[str, Requirement] = {}

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            requirement = requirement_of(item)
            if requirement is not None:
                self.found[requirement.id] = requirement


@contextlib.contextmanager
def _without_options():  # type: ignore[no-untyped-def]
    """Remove the environment variables with options of a run for the block, which only collects."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(("TRAFFICDIST_", "PYTEST_ADDOPTS"))}
    for name in ours:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(ours)
