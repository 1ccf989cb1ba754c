"""Import the fixtures of the tests for the component cache."""

from __future__ import annotations

from tests.harness.binaries.conftest import *  # noqa: F403
