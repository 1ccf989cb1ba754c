"""A fixture for tests of packet paths: the permission to make a netns."""

from __future__ import annotations

import pytest

from harness.netns import sandbox


@pytest.fixture(autouse=True, scope="session")
def _sandbox() -> None:
    sandbox.enter()
