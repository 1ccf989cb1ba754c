"""Runs judge a hostile EndpointSlice controller, which ignores SIGTERM. Each run ends by itself, and names its deed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness.control_planes import hostile_controller
from tests.harness.hostile_runs import HostileRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_controller_that_deletes_nodes_is_named_and_leaves_nothing(tmp_path: Path, netns_allowed: None) -> None:
    command = [sys.executable, hostile_controller.__file__, "delete_nodes", "{kubeconfig}"]
    recipe = {"command": command, "ready": [{"log": "serving"}], "quiet_seconds": 0.5}
    run = HostileRun(tmp_path, kind="controller", requirement="SLICE/endpoints-follow-the-pods", recipe=recipe)
    try:
        ended, said = run.end()
        run.expect_clean()
    finally:
        run.kill()
    assert (ended, "has deleted nodes from the API" in said) == (12, True), said
    assert "Traceback" not in said
