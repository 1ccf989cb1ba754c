"""Import the fixtures of the tests for kind clusters."""

from __future__ import annotations

from tests.harness.backends.kind.conftest import *  # noqa: F403
