"""Import the fixtures of the harness's tests for the tests of maintainers' commands."""

from __future__ import annotations

from tests.harness.conftest import (
    certify,
    engine,
    imported,
    network,
    node_image,
    pytest_collection_modifyitems,
    sample_suite,
)
from tests.harness.report.conftest import *  # noqa: F403

__all__ = ["certify", "engine", "imported", "network", "node_image", "pytest_collection_modifyitems", "sample_suite"]
