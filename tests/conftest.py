"""Let tests make network namespaces as an ordinary user, also under pytest-xdist.

Only a process without threads can enter a user namespace, and xdist's workers have threads before they load a conftest.
So the controller enters the namespace, and its workers start inside it.
"""

from __future__ import annotations

import contextlib
import signal

import pytest
from hypothesis import settings

from harness.errors import UnavailableError
from harness.netns import sandbox

settings.register_profile("no-deadline", deadline=None)  # the duration of an example depends on the load of the machine
settings.load_profile("no-deadline")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Enter a user namespace if possible; otherwise the tests that need it report the reason.

    A shell starts background processes with SIGINT ignored, and children inherit that, but tests send SIGINT to their
    own.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        with contextlib.suppress(UnavailableError):
            sandbox.enter()


@pytest.fixture(scope="session")
def netns_allowed() -> None:
    """Require permission to make network namespaces; skip with the reason where it is missing."""
    try:
        sandbox.enter()
    except UnavailableError as error:
        pytest.skip(str(error))
