"""Runs judge a hostile EndpointSlice controller that ignores SIGTERM. Each run ends on its own, and names the fault."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness.control_planes import hostile_controller
from tests.harness.hostile_programs import HostileRun
from tests.machine_load import crowding

MOST_SAID, MOST_WRITTEN = 200_000, 5_000_000
"""The maximum output of a run, and the size of its folder, even if a controller writes a lot."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


REQUIREMENT = "SLICE/endpoints-follow-the-pods"

CASES = {
    "delete_nodes": (12, "has deleted nodes from the API"),
    "write_endpoints": (1, f"✗ {REQUIREMENT}"),
    "flood": (12, "the API server has stored more than 128 MB; most was written by the user agent 'Python-urllib"),
    "spin": (10, "hostile_controller.py spin"),
}

PROMISED = {"spin": 1}  # seconds; each wait takes ten times longer if other programs busy the machine, too

NEED_TIME = {"write_endpoints", "flood"}
"""Their deed takes seconds. If others busy the machine, the run cannot know whether the controller would mend it."""


@pytest.mark.parametrize("what", CASES)
def test_hostile_controller_is_named_and_leaves_nothing(tmp_path: Path, netns_allowed: None, what: str) -> None:
    code, words = CASES[what]
    command = [sys.executable, hostile_controller.__file__, what, "{kubeconfig}"]
    recipe = {
        "command": command,
        "ready": [{"log": "serving"}],
        "quiet_seconds": 0.5,
        "converges_within": PROMISED.get(what, 5),
    }
    run = HostileRun(tmp_path, kind="controller", requirement=REQUIREMENT, recipe=recipe)
    crowded = crowding() > 1
    try:
        ended, said = run.end()
        run.expect_clean()
    finally:
        run.kill()
    if what in NEED_TIME and ended == 10 and (crowded or crowding() > 1):
        code, words = 10, "the machine is too busy"
    assert (ended, words in said) == (code, True), said[-10_000:]
    assert "Traceback" not in said
    assert len(said) < MOST_SAID
    assert sum(each.stat().st_size for each in (tmp_path / "out").rglob("*")) < MOST_WRITTEN
