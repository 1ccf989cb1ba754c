"""Fixtures for tests of the kubelet: a sandbox, and a network of two nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.model.topology import grid
from harness.netns import sandbox
from harness.netns.fabric import Network


@pytest.fixture(autouse=True, scope="session")
def _sandbox() -> None:
    sandbox.enter()


@pytest.fixture
def network() -> Iterator[Network]:
    """Yield a network with two zones, and one node in each: a1 and b1."""
    with Network(grid("two", {"a": 1, "b": 1})) as created:
        yield created
