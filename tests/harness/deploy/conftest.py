"""What tests on real clusters bring images with."""

from __future__ import annotations

import pytest

from harness.backends.kind.engine import ContainerEngine, find_engine
from harness.errors import UnavailableError


@pytest.fixture(scope="session")
def engine() -> ContainerEngine:
    """A container engine that runs; skips where there is none."""
    try:
        found = find_engine()
        found.facts()
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
    return found
