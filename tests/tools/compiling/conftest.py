"""The fixtures of tests of the cache of components."""

from __future__ import annotations

from tests.harness.binaries.conftest import *  # noqa: F403
