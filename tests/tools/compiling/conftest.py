"""The fixtures of the component cache's tests."""

from __future__ import annotations

from tests.harness.binaries.conftest import *  # noqa: F403
