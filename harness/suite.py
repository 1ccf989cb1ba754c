"""Runs pytest over the published suite, wherever it is installed, whatever folder and configuration we are in."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import pytest

from harness.errors import DistrustError, UsageError
from harness.plugin.recorder import requirement_of
from harness.requirements import Requirement

SUITE = "conformance"

_PLUGINS = ("trafficdist", "allure_pytest", "xdist", "timeout")


def place_of(suite: str = SUITE) -> Path:
    """The folder of a suite: a package, or a path. Raises `UsageError`."""
    if Path(suite).exists():
        return Path(suite).resolve()
    with contextlib.suppress(ModuleNotFoundError, ValueError):
        found = importlib.util.find_spec(suite)
        if found is not None and found.submodule_search_locations:
            return Path(next(iter(found.submodule_search_locations))).resolve()
    raise UsageError(f"there is no suite {suite!r}: it is neither an installed package nor a folder")


def run_pytest(arguments: Sequence[str], *, suite: str = SUITE, plugins: Sequence[object] = ()) -> int:
    """Run pytest over a suite with our configuration; its exit code. Raises `UsageError` for an unknown suite."""
    place = place_of(suite)
    root = place.parent
    configuration = resources.files("harness").joinpath("certify.ini")
    with resources.as_file(configuration) as file:
        ours = ["-c", str(file), f"--rootdir={root}", f"--confcutdir={place if place.is_dir() else root}"]
        if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
            ours += [part for name in _PLUGINS for part in ("-p", name)]
        with _terminated_as_interrupted():
            return int(pytest.main([*ours, str(place), *arguments], plugins=list(plugins)))


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does, so that what it made is removed; a second one does not end the removing."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def catalogue(suite: str = SUITE) -> list[Requirement]:
    """Every requirement of a suite, by id, found by collecting it; needs no cluster.

    Raises `DistrustError` with pytest's words when the suite cannot be collected.
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
    """Collecting is not a run: what the environment asks of runs does not count."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(("TRAFFICDIST_", "PYTEST_ADDOPTS"))}
    for name in ours:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(ours)
