"""Let an ordinary user's tests create network namespaces, also under pytest-xdist.

Only a process without threads can enter a user namespace. The workers of pytest-xdist have threads before they load a
conftest. For this reason the controller enters the namespace and starts its workers inside it.
"""

from __future__ import annotations

import contextlib
import gc
import math
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from harness.errors import UnavailableError
from harness.model.garbage_collection import gc_paused
from harness.netns import sandbox
from harness.run.workers import MEGABYTE, Machine, this_machine

settings.register_profile("no-deadline", deadline=None)  # the duration of an example depends on the load of the machine
settings.load_profile("no-deadline")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Enter a user namespace if possible. Otherwise the tests that need one are skipped with the reason.

    A shell starts background processes with SIGINT ignored, and their children inherit that. Tests send SIGINT to their
    own child processes, so the default handler is set again.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        with contextlib.suppress(UnavailableError):
            sandbox.enter()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`. Tests use the CPU more than they wait."""
    return workers_on(this_machine())


def workers_on(machine: Machine) -> int:
    return max(1, min(math.ceil(1.5 * machine.cpus), machine.memory // (500 * MEGABYTE)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Never search the tests themselves for garbage. They are most objects of a worker, and stay until its end."""
    with gc_paused():
        result = yield
        gc.freeze()
    return result


@pytest.fixture(scope="session")
def netns_allowed() -> None:
    """Skip the test with a reason if this process may not create network namespaces."""
    try:
        sandbox.enter()
    except UnavailableError as error:
        pytest.skip(str(error))
