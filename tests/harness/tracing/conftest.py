"""A fixture for tests of packet paths, which requires permission to create a netns."""

from __future__ import annotations

import pytest

from harness.netns import sandbox


@pytest.fixture(autouse=True, scope="session")
def _sandbox() -> None:
    sandbox.enter()
