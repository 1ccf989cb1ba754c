"""The entry point of the pytest plugin.

Every pytest run in an environment where trafficdist is installed loads this module. It registers
`harness.plugin.pytest_plugin` only if the run uses an option (`--td-...`, `td_...` or `TRAFFICDIST_...`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib import import_module

import pytest

from trafficdist.own_packages import find_first

_PLUGIN = "harness.plugin.pytest_plugin"
_INI_KEY = re.compile(r"^\s*td_\w+\s*=", re.MULTILINE)
_MARKERS = (
    "requirement(requirement): the only test of a conformance requirement.",
    "generates(check, among): one of `among` tests that generate cases with --generate; `check` gets the options.",
    "takes(seconds): a test that takes much longer than others with the same needs, on the embedded cluster.",
)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: Sequence[str]) -> None:
    """Register the plugin if this run uses it. Its options take effect when pytest parses the command line again."""
    if _is_used(early_config, args):
        find_first()
        early_config.pluginmanager.register(import_module(_PLUGIN), _PLUGIN)


def _is_used(config: pytest.Config, args: Sequence[str]) -> bool:
    return (
        any(argument.startswith("--td-") for argument in args)
        or any(name.startswith("TRAFFICDIST_") for name in os.environ)
        or (config.inipath is not None and _INI_KEY.search(config.inipath.read_text(encoding="utf-8")) is not None)
        or any(key.startswith("td_") for key in vars(config.option))  # a worker of xdist gets options, not arguments
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Stop pytest if it would run tests of requirements without a backend, which is never intended."""
    if not config.pluginmanager.hasplugin(_PLUGIN) and not config.option.collectonly:
        claimed = next((item for item in items if item.get_closest_marker("requirement")), None)
        if claimed is not None:
            raise pytest.UsageError(
                f"{claimed.nodeid} tests a conformance requirement: set where to run it, for example --td-backend=netns"
            )
