"""Fixtures for small suites of fake requirements that pytest runs, and for the node image of kind tests."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
import reference
from harness.backends.containers.engine import ContainerEngine, find_engine
from harness.backends.kind.checks import find_kind
from harness.binaries.versions import parse_wanted
from harness.errors import UnavailableError
from harness.netns import sandbox
from tools.node_image import build

_HEAD = """
import os, pathlib, signal, threading
import pytest
from harness.errors import *
from harness.model.requirements import *

CORE = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")
EXTENDED = Feature("PreferSameNode", Profile.SERVICE_PROXY, False, "Prefers the node.")
API = Feature("Validation", Profile.API_SERVER, True, "Validates.")

def must(id, *features, level=MUST):
    return requirement(id, f"The sentence of {id}.", level=level, features=features or {CORE}, source="KEP-1, Design")
"""

_BODIES = {
    "passes": "pass",
    "fails": r"raise AssertionError('client a1 reached b1, want a1\n\n  a1 b1\n   0 30')",
    "inconclusive": "raise InconclusiveError('a1 has no route')",
    "breaks": "raise KeyError('oops')",
    "unavailable": "raise UnavailableError('there is no tool')",
    "ineligible": "raise IneligibleError('one zone only')",
    "distrusts": "raise DistrustError('the adapter says yes to everything')",
    "interrupts": "os.kill(os.getpid(), signal.SIGINT)",
    "crashes": "os._exit(9)",
}


def suite(*names: str, extra: str = "") -> str:
    """Return the text of a test module. The module has a requirement KEP-1/NAME for each of these bodies."""
    tests = (f'@must("KEP-1/{name}")\ndef test_{name}():\n    {_BODIES[name]}\n' for name in names)
    return _HEAD + "\n" + "\n".join(tests) + extra


@dataclass(frozen=True)
class CertifiedRun:
    """The result of a run of a small suite."""

    code: int
    folder: Path
    text: str

    @property
    def report(self) -> Any:
        return yaml.safe_load((self.folder / "report.yaml").read_text(encoding="utf-8"))

    @property
    def verdicts(self) -> dict[str, str]:
        """Return the verdict of each requirement, by slug."""
        return {test["id"].partition("/")[2]: test["verdict"] for test in self.report["tests"]}


Certify = Callable[..., CertifiedRun]


@pytest.fixture
def sample_suite() -> Callable[..., str]:
    """Return the function `suite`, which creates the text of a test module."""
    return suite


@pytest.fixture(scope="session")
def imported() -> None:
    """Import what a run in this process imports.

    pytester removes modules that were first imported during its run from `sys.modules`, but not from their packages.
    Later imports then mix two copies of a module, with two classes of each name.
    """
    for package in (harness, reference):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError, UnavailableError):  # some need a package that is an extra
                importlib.import_module(module.name)


@pytest.fixture
def certify(imported: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Certify:
    """Run a suite of fake requirements.

    The arguments are the names of test bodies, followed by options. `extra` is appended to the module.

    The suite runs in this process, which is faster. A suite with workers, or with a body that ends the process, runs in
    another process. The suite needs no netns, and this process must stay in its current netns.
    """
    monkeypatch.setattr(sandbox, "enter", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))  # keeps the user's cache out of the test

    def run(*names: str, options: tuple[str, ...] = (), extra: str = "") -> CertifiedRun:
        pytester.makepyfile(test_sample=suite(*names, extra=extra))
        folder = pytester.path / "out"
        workers = any(o.startswith(("-n", "--td-workers")) and o != "--td-workers=0" for o in options)
        apart = {"interrupts", "crashes"} & set(names) or workers
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        ours = ("-p", "no:hypothesispytest", "--td-backend=netns", f"--td-output-dir={folder}")  # slow to import
        result = start(*ours, *options)
        return CertifiedRun(int(result.ret), folder, result.stdout.str() + result.stderr.str())

    return run


@pytest.fixture(scope="session")
def network() -> None:
    """Skip the test in a separate netns.

    The test needs the machine's network, with access to registries and to the clusters of an engine.
    """
    if sandbox.left():
        pytest.skip("unavailable: tests of an ordinary user run in a separate netns; run them as root")


@pytest.fixture(scope="session")
def engine() -> ContainerEngine:
    """Return a running container engine, or skip."""
    try:
        found = find_engine()
        found.facts()
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    return found


@pytest.fixture(scope="session")
def node_image(network: None, engine: ContainerEngine) -> str:
    """Return the engine's node image for Kubernetes 1.34. Skip the test without engine, kind or image."""
    try:
        find_kind()
        return build.find_image(parse_wanted("1.34"))
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that create kind clusters. They share the engine and the limits that the kernel has for nodes."""
    for item in items:
        if "node_image" in getattr(item, "fixturenames", ()):
            item.add_marker("kind")
