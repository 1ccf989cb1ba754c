"""Lets tests make network namespaces as an ordinary user, also under pytest-xdist.

Only a process without threads can enter a user namespace, and xdist's workers have threads before they load a conftest.
So the controller enters, and its workers are born inside.
"""

from __future__ import annotations

import contextlib
import signal

import pytest
from hypothesis import settings

from harness.errors import UnavailableError
from harness.netns import sandbox

settings.register_profile("no-deadline", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("no-deadline")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Enter if possible; where it is not, the tests that need it say why.

    A shell starts what runs in the background with SIGINT ignored, and children inherit that: tests send it to theirs.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        with contextlib.suppress(UnavailableError):
            sandbox.enter()


@pytest.fixture(scope="session")
def netns_allowed() -> None:
    """Whoever uses it may make network namespaces; where nobody may, it is skipped with the reason."""
    try:
        sandbox.enter()
    except UnavailableError as error:
        pytest.skip(str(error))
