"""What tests on real clusters need: an engine, kind, and a node image that has been made before."""

from __future__ import annotations

import pytest

from harness.backends.kind.checks import find_kind
from harness.backends.kind.engine import ContainerEngine, find_engine
from harness.backends.kind.node_image import command
from harness.backends.kind.node_image.gathering import Recipe
from harness.binaries.versions import parse_wanted
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


@pytest.fixture(scope="session")
def node_image(engine: ContainerEngine) -> str:
    """The node image of Kubernetes 1.34 that the engine has; skips without one, and without kind."""
    try:
        find_kind()
        return command.there(Recipe(parse_wanted("1.34")))
    except UnavailableError as error:
        pytest.skip(f"unavailable: {error}")
