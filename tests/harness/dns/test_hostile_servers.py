"""Runs judge hostile DNS servers. Each run ends on its own, names what the server answered, and leaves nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from harness.eventually import FAR
from tests.harness.dns import hostile_server
from tests.harness.hostile_programs import HostileRun

MALFORMED = {
    "compression_loop": "BadPointer",
    "cut_off": "FormError",
    "many_records_announced": "FormError",
    "long_answer": " bytes over UDP, which accepts 4,096",
    "wrong_id": "its ID, question or opcode is not the query's",
    "wrong_question": "its ID, question or opcode is not the query's",
    "echo": "it is not a response",
    "garbage": "",
    "empty": "ShortHeader",
}
WRONG = {
    "forty_records": r"observed .*'10\.99\.0\.1', '10\.99\.0\.10'",
    "always_truncated": r"observed {'rcode': 'NOERROR', 'data': \[\]}",
    "silence": r"no answer \(Timeout\)",
}
STARVED = "did not answer in 2 s. The programs of this run could not run"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def end(folder: Path, what: str) -> tuple[int, str, float]:
    """Judge a hostile server, and return the exit code, the output, and the time in which the run could run."""
    command = [sys.executable, hostile_server.__file__, what, "{pod_ips}"]
    recipe = {"command": command, "ready": [{"log": "serving"}]}
    run = HostileRun(folder, kind="dns", requirement="DNS/service-has-its-cluster-ips", recipe=recipe)
    try:
        ended, said = run.end()
        run.expect_clean()
    finally:
        run.kill()
    assert "Traceback" not in said
    return ended, said, run.seconds


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_answer_is_judged_immediately(what: str, tmp_path: Path, netns_allowed: None) -> None:
    ended, said, seconds = end(tmp_path, what)
    assert seconds < FAR  # it has not waited for another answer
    assert (ended, "the DNS server returns a malformed answer" in said) == (1, True), said
    assert re.search(rf"malformed answer \([^\n]*{re.escape(MALFORMED[what])}", said), said


@pytest.mark.parametrize("what", WRONG)
def test_wrong_answer_and_silence_are_judged_in_time(what: str, tmp_path: Path, netns_allowed: None) -> None:
    ended, said, _ = end(tmp_path, what)
    if ended == 10:
        assert STARVED in said, said
    else:
        assert (ended, bool(re.search(WRONG[what], said))) == (1, True), said
