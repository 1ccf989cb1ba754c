"""Tests that a run changes no network setting of the machine. A network namespace stands in for the machine."""

from __future__ import annotations

import fcntl
import socket
import struct
from pathlib import Path

from harness.netns.namespace import Namespace
from tests.harness.backends.compare_verdicts import JUDGED, trafficdist
from tests.harness.run.network_state import network_state

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def test_run_changes_no_network_setting_of_the_machine(netns_allowed: None, tmp_path: Path) -> None:
    with Namespace.create() as machine, machine.entered():
        with socket.socket() as control:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
        before = network_state()
        ended = trafficdist(
            "run", "--run-test=KEP-4444/zone-hints-keep-traffic-in-the-zone", f"--output-dir={tmp_path}"
        )
        assert ended.returncode in JUDGED, ended.stdout + ended.stderr
        after = network_state()
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == set()
    assert len(before) > 100
