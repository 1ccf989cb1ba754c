"""Checks by an early collection that a run selects anything, before a cluster is made for it.

A kind cluster takes a minute to make, and the plan is made after it: with a name that matches nothing, or with
everything deselected, that minute is lost. Only the options are checked here.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

import pytest

from harness.errors import DistrustError, NothingSelectedError
from harness.judging.exit_codes import MEANINGS, ExitCode
from harness.model.requirements import Requirement
from harness.plugin.recorder import requirement_of
from harness.run.plan import check_names, reason_to_skip
from harness.settings.settings import Settings


def require_some(config: pytest.Config, settings: Settings) -> None:
    """Raise `NothingSelectedError` if the run would select nothing, and `UsageError` for unknown names.

    Raises `DistrustError` when the suite cannot be collected.
    """
    found = _collect(config)
    check_names(settings, found.known)
    reasons = [reason_to_skip(each, settings) for each in found.chosen]
    if all(reason for reason, _ in reasons):
        things = "; ".join(sorted({thing for _, thing in reasons}))
        why = f": {things}" if things else ""
        raise NothingSelectedError(f"{MEANINGS[ExitCode.NOTHING_SELECTED]}{why}")


def _collect(config: pytest.Config) -> _Collector:
    """Collect as this run will. Under --collect-only the plugin makes no run, and xdist starts no workers."""
    collector = _Collector()
    said = io.StringIO()
    arguments = [*map(str, config.invocation_params.args), "--collect-only", "-q"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(arguments, plugins=[collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise DistrustError(f"the suite cannot be collected:\n{said.getvalue()}")
    return collector


class _Collector:
    def __init__(self) -> None:
        self.chosen: list[Requirement] = []
        self._deselected: list[Requirement] = []

    @property
    def known(self) -> list[Requirement]:
        """All requirements of the suite."""
        return [*self.chosen, *self._deselected]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        self.chosen = [found for item in items if (found := requirement_of(item)) is not None]

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._deselected += [found for item in items if (found := requirement_of(item)) is not None]
