"""What tests of packets' paths share: the right to make netns."""

from __future__ import annotations

import pytest

from harness.netns import sandbox


@pytest.fixture(autouse=True, scope="session")
def _sandbox() -> None:
    sandbox.enter()
