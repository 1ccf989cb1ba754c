"""The fixtures of tests of kind clusters."""

from __future__ import annotations

from tests.harness.backends.kind.conftest import *  # noqa: F403
