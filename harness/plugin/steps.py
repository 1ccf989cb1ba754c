"""Records the steps and attachments of tests, captured output included, with allure-pytest's listener.

The listener's own results are not written, since it knows neither verdicts nor tests that never ran: steps and
attachments go with our own results, and at the end `harness.report.allure` writes all of them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import allure_commons
import pytest
from allure_pytest.listener import AllureListener

from harness.plugin.recorder import PROPERTY
from harness.run.folder import OutputFolder


def watch(config: pytest.Config, folder: OutputFolder) -> None:
    """Watch all tests of this process. With --alluredir, allure-pytest's own listener is used."""
    listener = config.pluginmanager.getplugin("allure_listener")
    if listener is None:
        listener = AllureListener(config)
        config.pluginmanager.register(listener, "allure_listener")
        _register(config, listener)
    _register(config, _Attachments(folder))
    config.pluginmanager.register(_Steps(listener), "trafficdist_steps")


def _register(config: pytest.Config, plugin: object) -> None:
    """Register a plugin with Allure until the run ends: without that its plugins outlive a run."""
    allure_commons.plugin_manager.register(plugin)
    config.add_cleanup(lambda: allure_commons.plugin_manager.unregister(plugin))


class _Attachments:
    """Writes the attachments of tests."""

    def __init__(self, folder: OutputFolder) -> None:
        self._folder = folder

    @allure_commons.hookimpl
    def report_attached_data(self, body: str | bytes, file_name: str) -> None:
        self._folder.write(f"allure-results/{file_name}", body)

    @allure_commons.hookimpl
    def report_attached_file(self, source: str, file_name: str) -> None:
        self._folder.copy(source, f"allure-results/{file_name}")


class _Steps:
    """Adds the listener's steps and attachments to the result of a phase."""

    def __init__(self, listener: AllureListener) -> None:
        self._listener = listener

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        result = dict(report.user_properties).get(PROPERTY)
        seen = self._listener.allure_logger.get_test(None)
        if isinstance(result, dict) and seen is not None:
            result["steps"], result["attachments"] = _plain(seen.steps), _plain(seen.attachments)
        return report


def _plain(value: Any) -> Any:
    """Return lists and dicts for Allure's objects, without empty values, and without traces: a result has one."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if hasattr(value, "__dict__"):
        return {name: _plain(each) for name, each in vars(value).items() if each and name != "trace"}
    return value
