"""Record the steps, attachments and captured output of tests with allure-pytest's listener."""

import contextlib
from collections.abc import Generator
from typing import Any

import allure_commons
import pytest
from allure_pytest.listener import AllureListener

from harness.errors import UsageError
from harness.plugin.recorder import parameters_of, requirement_of
from harness.run.run import Run


def watch(config: pytest.Config, run: Run) -> None:
    """Listen to all tests of this process. With --alluredir, allure-pytest's own listener is used."""
    listener = config.pluginmanager.getplugin("allure_listener")
    if listener is None:
        listener = AllureListener(config)
        config.pluginmanager.register(listener, "allure_listener")
        _register(config, listener)
    _register(config, _Attachments(run))
    config.pluginmanager.register(_Steps(listener, run), "trafficdist_steps")


def _register(config: pytest.Config, plugin: object) -> None:
    allure_commons.plugin_manager.register(plugin)
    config.add_cleanup(lambda: allure_commons.plugin_manager.unregister(plugin))


class _Attachments:
    def __init__(self, run: Run) -> None:
        self._folder = run.folder

    @allure_commons.hookimpl
    def report_attached_data(self, body: str | bytes, file_name: str) -> None:
        self._folder.write(f"allure-results/{file_name}", body)

    @allure_commons.hookimpl
    def report_attached_file(self, source: str, file_name: str) -> None:
        self._folder.copy(source, f"allure-results/{file_name}")


class _Steps:
    def __init__(self, listener: AllureListener, run: Run) -> None:
        self._listener, self._run = listener, run
        self._written: tuple[Any, ...] = ()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        requirement, seen = requirement_of(item), self._listener.allure_logger.get_test(None)
        if requirement is None or seen is None:
            return report
        steps, attachments = _plain(seen.steps), _plain(seen.attachments)
        found = item.nodeid, steps, attachments
        if (steps or attachments) and found != self._written:
            self._written = found
            facts = {"test": requirement.id, "parameters": parameters_of(item)}
            with contextlib.suppress(OSError, UsageError):  # the recorder reports an error in writing the history
                self._run.history.write("steps", **facts, steps=steps, attachments=attachments)
        return report


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if hasattr(value, "__dict__"):
        return {name: _plain(each) for name, each in vars(value).items() if each and name != "trace"}
    return value
